"""Where growth is measured: against clients, model size, memory and the length of the stream."""

from dataclasses import dataclass

FEATURES = 20
ROUNDS = 60  # of a stream: enough to fill the memories and to measure
DECADES = (10, 100, 1_000, 10_000, 100_000, 1_000_000)


@dataclass(frozen=True)
class Point:
    """One measurement: Headwater on random data with 20 features.

    Attributes:
        hidden: units of the hidden layer; 0: logistic regression.
        batch: of a local step; None: the whole memory. steps: local steps, E.
        arriving: new samples a round into a memory of ``capacity``; 0: all are there from the
            beginning.
        length: rounds of a stream.
    """

    clients: int
    samples: int
    hidden: int = 0
    batch: int | None = None
    steps: int = 1
    arriving: int = 0
    capacity: int = 0
    length: int = ROUNDS

    @property
    def rounds(self) -> int:
        """How long it can be run."""
        return self.length if self.arriving else 10_000

    @property
    def parameters(self) -> int:
        """Size of the model."""
        return self.hidden * (FEATURES + 2) + 1 if self.hidden else FEATURES + 1


@dataclass(frozen=True)
class Curve:
    """Points that differ in one number."""

    title: str
    axis: str
    points: dict[int, Point]


def streaming(capacity: int, batch: int | None) -> Point:
    """100 clients whose full memories are renewed by a tenth every round."""
    arriving = max(1, capacity // 10)
    return Point(100, arriving * ROUNDS, batch=batch, arriving=arriving, capacity=capacity)


def lasting(rounds: int, batch: int | None) -> Point:
    """Five clients with small memories and a stream of so many rounds."""
    return Point(5, 4 * rounds, batch=batch, arriving=4, capacity=16, length=rounds)


def sized(hidden: int, steps: int) -> Point:
    """20 clients, 32 samples each, a network of so many hidden units."""
    return Point(20, 32, hidden=hidden, batch=32, steps=steps)


HIDDEN = (4, 16, 64, 256, 1_024, 4_096, 16_384)
CAPACITIES = (1, 10, 100, 1_000, 10_000)
LENGTHS = (1_000, 10_000, 100_000, 1_000_000)

CURVES = (
    Curve("whole memory of 4, E = 1", "clients", {m: Point(m, 4) for m in DECADES}),
    Curve("one sample, E = 1", "clients", {m: Point(m, 1) for m in (*DECADES, 10_000_000)}),
    Curve("batches of 2, E = 1", "clients", {m: Point(m, 4, batch=2) for m in DECADES}),
    Curve("batches of 2, E = 5", "clients", {m: Point(m, 4, batch=2, steps=5) for m in DECADES}),
    Curve("E = 1", "parameters", {(p := sized(h, 1)).parameters: p for h in HIDDEN}),
    Curve("E = 5", "parameters", {(p := sized(h, 5)).parameters: p for h in HIDDEN}),
    Curve(
        "whole memory",
        "samples in memory, 100 clients",
        {c: streaming(c, None) for c in CAPACITIES},
    ),
    Curve(
        "batches of 32", "samples in memory, 100 clients", {c: streaming(c, 32) for c in CAPACITIES}
    ),
    Curve("whole memory", "rounds of the stream", {t: lasting(t, None) for t in LENGTHS}),
    Curve("batches of 8", "rounds of the stream", {t: lasting(t, 8) for t in LENGTHS}),
)
