"""The settings of a node: what can stand in NODE.toml, with its meaning and its default.

Everything is checked before anything is started, and an error names the setting.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self
from zlib import crc32

from pydantic import BaseModel, ConfigDict, Field, model_validator

from headwater.devices.memory.database import Survives
from headwater.devices.settings.named import load
from headwater.devices.settings.samples import SampleSettings
from headwater.devices.settings.sources import SourceSettings
from headwater.errors import InputError
from headwater.ledger.memory import Fifo, Keep, Memory, Reservoir

Arguments = dict[str, Any]  # what a user's own callable is called with: theirs to know


class Table(BaseModel):
    """A table of the file: unknown keys are mistakes, and nothing changes afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class MemorySettings(Table):
    """``[memory]``: which samples are kept, and how safely.

    Attributes:
        rule: "keep", "fifo", "reservoir", or "module:name" of a rule of your own.
        capacity: samples; not for "keep".
        arguments: what your own rule is made with.
        survives: "kill": a sample taken in survives the death of the process; "power loss": and
            that of the machine, at the price of an fsync per batch.
        on_full_disk: "wait" until there is room, the stream waits too; or "drop" what arrives.
    """

    rule: str = "fifo"
    capacity: Annotated[int, Field(ge=1)] | None = None
    arguments: Arguments = {}
    survives: Survives = "kill"
    on_full_disk: Literal["wait", "drop"] = "wait"

    @model_validator(mode="after")
    def _check(self) -> Self:
        own = ":" in self.rule
        if not own and self.rule not in ("keep", "fifo", "reservoir"):
            raise ValueError(f"rule: keep, fifo, reservoir or module:name; got {self.rule!r}")
        if (self.rule in ("fifo", "reservoir")) != (self.capacity is not None):
            if self.capacity is None:
                raise ValueError(f"capacity: rule {self.rule!r} needs a capacity")
            where = "arguments = { capacity = … }" if own else "no capacity: it keeps all"
            raise ValueError(f"capacity: rule {self.rule!r} takes {where}; got {self.capacity}")
        return self

    def make(self) -> Memory:
        """The rule."""
        if self.rule == "keep":
            return Keep()
        if self.capacity is not None:
            return (Fifo if self.rule == "fifo" else Reservoir)(self.capacity)
        rule = load(self.rule, "memory.rule")(**self.arguments)
        if not isinstance(rule, Memory):
            raise InputError(
                f"memory.rule: {self.rule} needs a property capacity and a method slots(samples)"
            )
        return rule


class ModelSettings(Table):
    """``[model]``: what is learned. It must be the server's model.

    Attributes:
        kind: "linear", "perceptron", or "python" for a model of your own.
        hidden: widths of a perceptron's hidden layers.
        make: "module:name" of a callable that gives your ``torch.nn.Module``.
        arguments: what it is called with.
        loss: "cross_entropy", "squared_error", or "module:name": one number per sample.
        metric: "accuracy", "absolute_error", or "module:name": one number per sample.
    """

    kind: Literal["linear", "perceptron", "python"] = "linear"
    hidden: tuple[Annotated[int, Field(ge=1)], ...] = (32,)
    make: str | None = None
    arguments: Arguments = {}
    loss: str = "cross_entropy"
    metric: str = "accuracy"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.kind == "python") != (self.make is not None):
            raise ValueError("make: goes with kind = 'python', and kind = 'python' needs it")
        return self


class Limits(Table):
    """``[limits]``: what a stream may do to the node.

    Attributes:
        message_bytes: longer messages are dead letters.
        per_second: messages; above it the stream waits. None: as fast as they come.
        batch: the most messages of one transaction.
        dead_letters: how many malformed messages are kept to be looked at.
        request_bytes: arrays of one request over the socket.
    """

    message_bytes: Annotated[int, Field(ge=64)] = 65_536
    per_second: Annotated[float, Field(gt=0)] | None = None
    batch: Annotated[int, Field(ge=1)] = 256
    dead_letters: Annotated[int, Field(ge=0)] = 100
    request_bytes: Annotated[int, Field(ge=1024)] = 1 << 28


class LogSettings(Table):
    """``[log]``: to standard error.

    Attributes:
        format: "text" for people, "json" for machines, one object per line.
        level: the least that is told.
    """

    format: Literal["text", "json"] = "text"
    level: Literal["debug", "info", "warning", "error"] = "info"


class MetricsSettings(Table):
    """``[metrics]``: Prometheus text on http://address:port/metrics.

    Attributes:
        port: None: off.
        address: who may look; this machine only unless told otherwise.
    """

    port: Annotated[int, Field(ge=0, le=65_535)] | None = None
    address: str = "127.0.0.1"


class TestSettings(Table):
    """``[test]``: samples of the client's own that are never trained on.

    Attributes:
        csv: a CSV file with the fields of ``[samples]``.
    """

    __test__ = False  # pytest: this is no test
    csv: Path


class NodeSettings(Table):
    """A whole NODE.toml.

    Attributes:
        client: the client's name, the ``client-id`` of its SuperNode.
        number: m in the keyed draws of memory and batches; made from the name unless given.
        seed: of the memory's draws.
        folder: where memory and socket lie; relative to the file, as all paths.
        socket: default: run/node.sock in the folder.
        prequential: score each sample with the current model before it enters the memory.
    """

    client: Annotated[str, Field(min_length=1, max_length=200)]
    number: Annotated[int, Field(ge=0, lt=2**62)] | None = None
    seed: Annotated[int, Field(ge=0)] = 0
    folder: Path = Path(".")
    socket: Path | None = None
    prequential: bool = True
    samples: SampleSettings
    memory: MemorySettings
    model: ModelSettings = ModelSettings()
    source: SourceSettings | None = None
    test: TestSettings | None = None
    limits: Limits = Limits()
    log: LogSettings = LogSettings()
    metrics: MetricsSettings = MetricsSettings()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.samples.once and getattr(self.source, "arrivals", None) is not None:
            raise ValueError(
                "samples.once: a recording that comes by rounds brings each row once; leave it out"
            )
        return self

    @property
    def m(self) -> int:
        """The client's number."""
        return crc32(self.client.encode()) if self.number is None else self.number

    @property
    def socket_path(self) -> Path:
        """Where the node listens."""
        return self.socket or self.folder / "run" / "node.sock"
