"""Small random federations of all kinds, for property tests."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

import headwater as hw


@dataclass(frozen=True)
class Setting:
    """What a ledger is made of."""

    counts: list[int]
    arrivals: list[object]
    rules: list[object]
    rounds: int
    seed: int

    def holdings(self):
        return hw.unroll(self.counts, self.arrivals, self.rules, self.rounds, self.seed)


RATES = st.one_of(st.integers(1, 4), st.sampled_from([0.1, 0.3, 0.5, 0.7, 1.5, 2.5, 3.3]))


def processes(rounds):
    steady = st.one_of(
        st.just(hw.Once()),
        st.builds(hw.Constant, RATES),
        st.builds(hw.Poisson, st.floats(0.2, 5)),
        st.builds(
            hw.Trace, st.lists(st.integers(0, 4), min_size=1, max_size=rounds + 2).filter(any)
        ),
    )
    return st.one_of(steady, windows(rounds, steady))


@st.composite
def windows(draw, rounds, inner):
    first = draw(st.integers(1, rounds + 1))
    return hw.Window(first, first + draw(st.integers(0, rounds)), draw(inner))


@st.composite
def rules(draw, least):
    """A rule that is allowed to hold ``least`` samples that surely arrive in one round."""
    kind = draw(st.sampled_from([hw.Keep, hw.Fifo, hw.Reservoir]))
    return kind() if kind is hw.Keep else kind(max(1, least) + draw(st.integers(0, 3)))


@st.composite
def settings_of_a_ledger(draw, most_clients=4, most_samples=12, most_rounds=8):
    rounds = draw(st.integers(1, most_rounds))
    counts = draw(st.lists(st.integers(1, most_samples), min_size=1, max_size=most_clients))
    arrivals = [draw(processes(rounds)) for _ in counts]
    kept = [draw(rules(p.largest_batch(n))) for p, n in zip(arrivals, counts, strict=True)]
    return Setting(counts, arrivals, kept, rounds, draw(st.integers(0, 2**40)))
