"""``[source]`` of NODE.toml: where samples come from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from headwater.ledger.arrivals import Arrivals, Constant, Once, Poisson, Trace

Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class OnceSettings(_Table):
    """All samples are there before round 1."""

    kind: Literal["once"]

    def make(self) -> Arrivals:
        """The process."""
        return Once()


class ConstantSettings(_Table):
    """``rate`` samples per round."""

    kind: Literal["constant"]
    rate: Rate

    def make(self) -> Arrivals:
        """The process."""
        return Constant(int(self.rate) if self.rate.is_integer() else self.rate)


class PoissonSettings(_Table):
    """A Poisson number of samples each round, ``rate`` on average."""

    kind: Literal["poisson"]
    rate: Rate

    def make(self) -> Arrivals:
        """The process."""
        return Poisson(self.rate)


class TraceSettings(_Table):
    """``counts[t - 1]`` samples in round t."""

    kind: Literal["trace"]
    counts: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)]

    def make(self) -> Arrivals:
        """The process."""
        return Trace(self.counts)


ArrivalSettings = Annotated[
    OnceSettings | ConstantSettings | PoissonSettings | TraceSettings, Field(discriminator="kind")
]


class CsvSettings(_Table):
    """``kind = "csv"``: replay a file whose first line names the fields.

    One of three ways: ``arrivals`` by rounds, as in the simulator (nothing comes unless a round is
    asked for); ``per_second`` rows; or ``speed`` times as fast as the times in the file.

    Attributes:
        path: the file.
        arrivals: {kind = "once"}, {kind = "constant", rate = 4}, {kind = "poisson", rate = 1.5} or
            {kind = "trace", counts = [2, 0, 3]}.
        per_second: rows per second.
        speed: 1: as recorded; needs samples.time.
    """

    kind: Literal["csv"]
    path: Path
    arrivals: ArrivalSettings | None = None
    per_second: Rate | None = None
    speed: Rate | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = [v for v in (self.arrivals, self.per_second, self.speed) if v is not None]
        if len(given) != 1:
            raise ValueError("exactly one of arrivals, per_second and speed")
        return self


class LinesSettings(_Table):
    """``kind = "lines"``: newline-delimited JSON.

    Attributes:
        path: a file, a named pipe, or "-" for standard input.
        follow: wait for what is appended to a file; False: its end is the end.
    """

    kind: Literal["lines"]
    path: Path
    follow: bool = True


class PythonSettings(_Table):
    """``kind = "python"``: a function of yours that yields samples.

    Attributes:
        call: "module:name". It yields dicts with the fields of ``[samples]``; if it takes an
            argument it is given the number of items that were taken in before a restart.
    """

    kind: Literal["python"]
    call: str


class MqttSettings(_Table):
    """``kind = "mqtt"``: JSON messages from a broker, at least once (QoS 1).

    Attributes:
        topics: what to subscribe to, with + and # as in MQTT.
        host, port: of the broker; port 8883 with TLS and 1883 without unless given.
        tls: on unless told otherwise.
        ca: file with the certificates that are trusted; None: the system's.
        certificate, key: files of a client certificate.
        username: for the broker.
        password_file: a file with the password, so that it stands in no settings.
        client_id: the broker's name for the session; the client's name unless given.
        session_seconds: how long the broker keeps messages for a node that is away.
        in_flight: how many messages the broker may send before the first is safe here.
        longest_wait: seconds between two attempts to reconnect, at most.
    """

    kind: Literal["mqtt"]
    topics: Annotated[tuple[str, ...], Field(min_length=1)]
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=1, le=65_535)] | None = None
    tls: bool = True
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    username: str | None = None
    password_file: Path | None = None
    client_id: str | None = None
    session_seconds: Annotated[int, Field(ge=0, lt=2**32)] = 7 * 24 * 3600
    in_flight: Annotated[int, Field(ge=1, le=65_535)] = 100
    longest_wait: Annotated[float, Field(ge=1)] = 60.0

    @model_validator(mode="after")
    def _check(self) -> Self:
        for topic in self.topics:
            if not _is_filter(topic):
                raise ValueError(
                    "topics: + or # only in place of a whole level, # only as the last level, "
                    f"1 to 65535 bytes; got {topic!r:.80}"
                )
        if not self.tls and (self.ca or self.certificate or self.key):
            raise ValueError("tls: false, but ca, certificate or key are given")
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key go together")
        if self.password_file is not None and self.username is None:
            raise ValueError("username: a password needs one")
        return self


def _is_filter(topic: str) -> bool:
    """Does MQTT 5 know it as something to subscribe to?

    >>> [_is_filter(topic) for topic in ("stations/+/rain", "stations/#", "stations/#/rain")]
    [True, True, False]
    """
    levels = topic.split("/")
    if levels[0] == "$share" and (len(levels) < 3 or not levels[1]):
        return False  # $share/GROUP/FILTER
    whole = all(level in ("+", "#") or not set(level) & set("+#") for level in levels)
    size = len(topic.encode(errors="replace"))
    return whole and "#" not in levels[:-1] and "\0" not in topic and 1 <= size <= 65_535


SourceSettings = Annotated[
    CsvSettings | LinesSettings | PythonSettings | MqttSettings, Field(discriminator="kind")
]
