"""Who takes part: Headwater, what a user would pick instead, and the limit of the machine."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from benchmarks.harness import environments
from benchmarks.harness.workloads import Streams, Workload
from headwater.processes import cores

QUIET_FLOWER = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_HOME": str(environments.ENVIRONMENTS / "flower" / "home"),
    "RAY_USAGE_STATS_ENABLED": "0",
}


class Kind(Enum):
    """What a contender stands for."""

    OURS = "Headwater"
    PEER = "peer"
    LIMIT = "limit"


@dataclass(frozen=True)
class Contender:
    """A runner and how to start it.

    Attributes:
        name: for the command line. title: for people.
        module: the runner; arguments: what it gets after the workload's folder.
        environment: of the interpreter; None for the one that runs the benchmarks.
        process_a_core: started under torchrun.
        one_step_only: makes sense only where clients take one local step.
        streams: can take a streaming workload; plain: can take the others.
    """

    name: str
    title: str
    kind: Kind
    module: str
    arguments: tuple[str, ...] = ()
    environment: str | None = None
    process_a_core: bool = False
    one_step_only: bool = False
    streams: bool = False
    plain: bool = True
    variables: Mapping[str, str] = field(default_factory=dict)

    def takes(self, workload: Workload) -> bool:
        """Whether the workload is something this contender can do."""
        able = self.streams if isinstance(workload, Streams) else self.plain
        return able and (workload.steps == 1 or not self.one_step_only)

    def comparable(self, workload: Workload) -> bool:
        """Whether its outcome can be checked: bare steps draw nothing, they only do as many as the
        others."""
        return self.kind is not Kind.LIMIT or not isinstance(workload, Streams)

    def command(self, folder: Path) -> list[str]:
        """The command line that starts it on the workload in that folder; sets the environment up
        if need be."""
        python = (
            sys.executable
            if self.environment is None
            else str(environments.interpreter(self.environment))
        )
        launcher: list[str] = []
        if self.process_a_core:
            launcher = [
                "-m",
                "torch.distributed.run",
                "--standalone",
                f"--nproc-per-node={cores()}",
            ]
        return [
            python,
            *launcher,
            "-m",
            f"benchmarks.peers.{self.module}",
            str(folder),
            *self.arguments,
        ]


CONTENDERS = (
    Contender("headwater", "Headwater", Kind.OURS, "headwater", streams=True),
    Contender("pfl", "pfl-research, one process", Kind.PEER, "pfl", environment="pfl"),
    Contender(
        "pfl-cores",
        "pfl-research, a process a core",
        Kind.PEER,
        "pfl",
        environment="pfl",
        process_a_core=True,
    ),
    Contender("fedjax", "FedJAX", Kind.PEER, "fedjax", ("jit",), environment="fedjax"),
    Contender(
        "fedjax-cores",
        "FedJAX, a device a core",
        Kind.PEER,
        "fedjax",
        ("pmap",),
        environment="fedjax",
    ),
    Contender(
        "flower",
        "Flower simulation, an actor a core",
        Kind.PEER,
        "flower",
        environment="flower",
        variables=QUIET_FLOWER,
    ),
    Contender("loop", "plain PyTorch loop", Kind.PEER, "loop"),
    Contender(
        "stream-loop",
        "hand-written PyTorch loop",
        Kind.PEER,
        "stream_loop",
        streams=True,
        plain=False,
    ),
    Contender(
        "steps",
        "limit: bare SGD steps, a process a core",
        Kind.LIMIT,
        "limit",
        ("steps",),
        streams=True,
    ),
    Contender(
        "fused",
        "limit: bare fused pass, one core",
        Kind.LIMIT,
        "limit",
        ("fused",),
        one_step_only=True,
    ),
    Contender(
        "fused-cores",
        "limit: bare fused pass, all cores",
        Kind.LIMIT,
        "limit",
        ("fused-cores",),
        one_step_only=True,
    ),
)
