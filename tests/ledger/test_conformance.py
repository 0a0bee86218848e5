"""The conformance suite: what is built in passes, a newcomer's rule passes, and broken ones are
caught."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest
from scipy import stats

import headwater as hw
from headwater.ledger.conformance import check_arrivals, check_memory, check_strategy
from headwater.randomness import Purpose, below

MEMORIES = [hw.Keep(), *(rule(n) for rule in (hw.Fifo, hw.Reservoir) for n in (1, 2, 7, 1000))]
PROCESSES = [
    hw.Once(),
    hw.Constant(1),
    hw.Constant(5),
    hw.Constant(0.3),
    hw.Constant(2.5),
    hw.Poisson(0.1),
    hw.Poisson(4),
    hw.Poisson(1e-9),
    hw.Trace([3]),
    hw.Trace([0, 2, 0, 5]),
    hw.Window(3, 9),
    hw.Window(2, 40, hw.Poisson(1.5)),
    hw.Window(1, 1, hw.Constant(2)),
]
STRATEGIES = [
    hw.Uniform(),
    hw.ByMemory(),
    hw.Historical(),
    hw.Fresh(),
    hw.Share(0.2),
    hw.Importance([0.5, 0.5]),
    hw.Importance((0.0, 1.0)),
    hw.Optimal(ratio=0.1),
    hw.Optimal(ratio=3, bound="sharp"),
    hw.Given(lambda t: np.full(26, 0.9**t)),
    hw.Given([1.0] * 26),
]


@pytest.mark.parametrize("rule", MEMORIES, ids=repr)
def test_every_memory_rule_conforms(rule):
    check_memory(rule)


@pytest.mark.parametrize("process", PROCESSES, ids=repr)
def test_every_arrival_process_conforms(process):
    check_arrivals(process)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda s: repr(s).split(" at ")[0][:40])
def test_every_strategy_conforms(strategy):
    check_strategy(strategy)


@dataclass(frozen=True)
class RandomReplacement:
    """A newcomer's own rule: when the memory is full, a new sample takes the place of a random
    one."""

    capacity: int

    def slots(self, samples):
        somewhere = below(self.capacity, samples.draw(Purpose.MEMORY))
        return np.where(samples.position < self.capacity, samples.position, somewhere)


@dataclass(frozen=True)
class EverySecond:
    """A newcomer's own arrivals: a sample in every second round."""

    def rounds(self, samples):
        return 1 + 2 * samples.position

    def largest_batch(self, count):
        return 1


@dataclass(frozen=True)
class Newest:
    """A newcomer's own strategy: a sample counts half as much every round that it gets older."""

    def weights(self, holdings):
        return lambda round: 0.5 ** np.maximum(round - holdings.enter, 0)


def test_a_newcomers_rules_conform():
    check_memory(RandomReplacement(3))
    check_arrivals(EverySecond())
    check_strategy(Newest())


def test_a_newcomers_rules_are_used_like_the_built_in_ones():
    holdings = hw.unroll([30] * 4000, EverySecond(), RandomReplacement(2), rounds=9, seed=1)
    held = holdings.held(9).reshape(4000, 30)[:, :5]
    assert (held.sum(axis=1) == 2).all()
    # five have come: the last is there, those before it survive each of their successors with
    # chance 1/2
    counts = Counter(int(np.flatnonzero(row)[0]) for row in held)
    expected = 4000 * np.array([0.5**3 * 1, 0.5**3, 0.5**2, 0.5])
    assert stats.chisquare([counts[i] for i in range(4)], expected).pvalue > 1e-3
    ledger = hw.Ledger.weigh(holdings, Newest())
    assert ledger.importance.sum() == pytest.approx(1)


def test_a_strategy_for_more_clients_is_checked_on_a_federation_of_ones_own():
    three = hw.unroll(
        [4, 4, 9],
        [hw.Once(), hw.Once(), hw.Constant(1)],
        [hw.Keep(), hw.Keep(), hw.Fifo(2)],
        rounds=5,
    )
    check_strategy(hw.Importance([0.2, 0.3, 0.5]), three)
    with pytest.raises((AssertionError, hw.InputError), match="3 shares for 2 clients"):
        check_strategy(hw.Importance([0.2, 0.3, 0.5]))


class Broken:
    """Rules with one fault each."""

    @dataclass
    class Changeable:
        capacity: int = 2

        def slots(self, samples):
            return samples.position % 2

    class WithoutEquality:
        capacity = 2

        def slots(self, samples):
            return samples.position % 2

    @dataclass(frozen=True)
    class Unhashable:
        sizes: list[int] = field(default_factory=lambda: [2])
        capacity: int = 2

        def slots(self, samples):
            return samples.position % 2

    @dataclass(frozen=True)
    class TooMany:
        capacity: int = 2

        def slots(self, samples):
            return samples.position % 3

    @dataclass(frozen=True)
    class NoCapacity:
        capacity: int = 0

        def slots(self, samples):
            return samples.position * 0

    @dataclass(frozen=True)
    class Forgetful:
        """Without a limit, and yet not everything is kept."""

        capacity: None = None

        def slots(self, samples):
            return np.where(samples.position % 2, samples.position, -1)

    @dataclass(frozen=True)
    class Fractions:
        capacity: int = 2

        def slots(self, samples):
            return samples.position % 2 + 0.0

    @dataclass(frozen=True)
    class Short:
        capacity: int = 2

        def slots(self, samples):
            return samples.position[:-1] % 2

    @dataclass(frozen=True)
    class Lists:
        capacity: int = 2

        def slots(self, samples):
            return (samples.position % 2).tolist()

    @dataclass(frozen=True)
    class GlobalDice:
        capacity: int = 2

        def slots(self, samples):
            return np.random.randint(0, 2, len(samples.position))  # noqa: NPY002

    @dataclass(frozen=True)
    class OneGenerator:
        """Seeded, but drawn in one go for all: a client's draws depend on who comes before."""

        capacity: int = 2

        def slots(self, samples):
            return np.random.default_rng(samples.seed).integers(0, 2, len(samples.position))

    @dataclass(frozen=True)
    class Prophet:
        """Keeps the last samples of the whole stream."""

        capacity: int = 2

        def slots(self, samples):
            last = np.array([samples.position[samples.client == c].max() for c in samples.client])
            return np.where(last - samples.position < 2, last - samples.position, -1)

    @dataclass(frozen=True)
    class Vandal:
        capacity: int = 2

        def slots(self, samples):
            samples.position[:] %= 2
            return samples.position


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (Broken.Changeable, "frozen"),
        (Broken.WithoutEquality, "differs from its own copy"),
        (Broken.Unhashable, "hash"),
        (Broken.TooMany, "slots from 0 to 1"),
        (Broken.NoCapacity, "capacity"),
        (Broken.Forgetful, "slot of its own"),
        (Broken.Fractions, "whole numbers"),
        (Broken.Short, "one number per sample"),
        (Broken.Lists, "an array; got a list"),
        (Broken.GlobalDice, "second time"),
        (Broken.OneGenerator, "who else is there"),
        (Broken.Prophet, "how many come after"),
        (Broken.Vandal, "changes the samples"),
    ],
)
def test_a_broken_memory_rule_is_caught(rule, words):
    with pytest.raises(AssertionError, match=words):
        check_memory(rule())


def process(rounds, largest=lambda count: 0):
    @dataclass(frozen=True)
    class Some:
        def rounds(self, samples):
            return rounds(samples)

        def largest_batch(self, count):
            return largest(count)

    return Some()


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (process(lambda s: s.position), "from 1"),
        (process(lambda s: 100 - s.position), "before the one in front"),
        (process(lambda s: 1 + s.position / 2), "whole numbers"),
        (
            process(lambda s: 1 + s.position // 3, lambda count: 2),
            "brings 3 in a round, largest_batch says 2",
        ),
        (process(lambda s: 1 + s.position, lambda count: None), "largest_batch"),
        (process(lambda s: 1 + np.arange(len(s.position))), "who else is there"),
        (
            process(lambda s: 1 + s.position * 0 + len(s.position)),
            "who else is there|how many come after",
        ),
    ],
)
def test_a_broken_arrival_process_is_caught(broken, words):
    with pytest.raises(AssertionError, match=words):
        check_arrivals(broken)


def leaving(gone):
    @dataclass(frozen=True)
    class Some:
        def rounds(self, samples):
            return np.ones(len(samples.position), int)

        def largest_batch(self, count):
            return count

        def departures(self, samples):
            return gone(samples)

    return Some()


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (leaving(lambda s: 2.0 + s.position), "whole numbers"),
        (leaving(lambda s: 2 + np.arange(len(s.position))), "who else is there"),
        (leaving(lambda s: 3 + 0 * s.position + len(s.position)), "who else|how many come after"),
        (leaving(lambda s: 2 + s.position), "the same for all of its samples"),
    ],
)
def test_broken_departures_are_caught(broken, words):
    with pytest.raises((AssertionError, hw.InputError), match=words):
        check_arrivals(broken)


def strategy(weights):
    @dataclass(frozen=True)
    class Some:
        def weights(self, holdings):
            return weights(holdings)

    return Some()


def remembers():
    asked = []

    def weights(holdings):
        asked.append(1)
        return np.full(len(holdings.enter), float(len(asked)))

    return strategy(weights)


def spoils(holdings):
    holdings.enter[:] = 1
    return np.ones(len(holdings.enter))


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (strategy(lambda h: np.full(len(h.enter), np.nan)), "finite"),
        (strategy(lambda h: np.linspace(-1, 1, len(h.enter))), "at least 0"),
        (strategy(lambda h: np.ones(3)), "one weight per sample"),
        (strategy(lambda h: np.ones(len(h.enter), int)), "floating-point"),
        (strategy(lambda h: np.zeros(len(h.enter))), "all weights are zero"),
        (strategy(lambda h: lambda t: np.full(len(h.enter), float(t != 3))), "round 3"),
        (strategy(spoils), "changes the holdings"),
        (remembers(), "asked again"),
    ],
)
def test_a_broken_strategy_is_caught(broken, words):
    with pytest.raises(AssertionError, match=words):
        check_strategy(broken)


@pytest.mark.parametrize("check", [check_memory, check_arrivals, check_strategy])
@pytest.mark.parametrize("thing", [7, "Fifo", None, hw.Fifo, hw.Once, hw.Uniform])
def test_what_is_no_rule_at_all_is_said_so(check, thing):
    with pytest.raises(AssertionError, match="needs"):
        check(thing)
