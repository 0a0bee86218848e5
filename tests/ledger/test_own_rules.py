"""Rules of one's own are checked whenever they run: the message names the rule and the client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import headwater as hw


@dataclass(frozen=True)
class Process:
    """Arrivals, and departures if there are any, from functions."""

    answer: Any
    batch: Any = 0

    def rounds(self, samples):
        return self.answer(samples)

    def largest_batch(self, count):
        return self.batch


@dataclass(frozen=True)
class Leaving(Process):
    gone: Any = None

    def departures(self, samples):
        return self.gone(samples)


@dataclass(frozen=True)
class Rule:
    answer: Any
    capacity: Any = 2

    def slots(self, samples):
        return self.answer(samples)


@dataclass(frozen=True)
class Weighing:
    answer: Any

    def weights(self, holdings):
        return self.answer(holdings)


def once(samples):
    return np.ones(len(samples.position), int)


def first_slot(samples):
    return samples.position * 0


def ledger(process=None, rule=None, strategy=None):
    process = process or hw.Once()
    return hw.Ledger.of([3, 4], process, rule or hw.Keep(), strategy or hw.Uniform(), rounds=4)


FALLING = np.array([1, 2, 3, 1, 3, 2, 4])
CASES = {
    "falling rounds": (
        r"Process.*\.rounds.*samples 1 and 2 of client 1 arrive in rounds 3 and 2",
        lambda: ledger(Process(lambda s: FALLING)),
    ),
    "rounds from 0": (
        r"rounds.*from 1; sample 0 of client 0 has 0",
        lambda: ledger(Process(lambda s: s.position)),
    ),
    "nan rounds": (
        r"\.rounds: an array of whole numbers; got float64",
        lambda: ledger(Process(lambda s: np.full(7, np.nan))),
    ),
    "rounds in a list": (r"\.rounds.*got list", lambda: ledger(Process(lambda s: [1] * 7))),
    "too few rounds": (r"\.rounds.*7 of them", lambda: ledger(Process(lambda s: np.ones(6, int)))),
    "a table of rounds": (r"\.rounds", lambda: ledger(Process(lambda s: np.ones((7, 1), int)))),
    "no rounds": (r"\.rounds.*got NoneType", lambda: ledger(Process(lambda s: None))),
    "a client leaves twice": (
        r"\.departures.*sample 1 of client 0 has 2",
        lambda: ledger(Leaving(once, gone=lambda s: 1 + s.position)),
    ),
    "a client leaves before the run": (
        r"\.departures.*from 1 on",
        lambda: ledger(Leaving(once, gone=first_slot)),
    ),
    "fractions for departures": (
        r"\.departures: an array of whole numbers",
        lambda: ledger(Leaving(once, gone=lambda s: s.position * 0 + 2.5)),
    ),
    "batch not a number": (r"largest_batch", lambda: ledger(Process(once, "all"), hw.Fifo(9))),
    "slots beyond the capacity": (
        r"Rule.*slots from 0 to 1, or -1.*sample 2 of client 0 has 2",
        lambda: ledger(rule=Rule(lambda s: s.position), process=Process(once)),
    ),
    "negative slots": (
        r"\.slots.*sample 0 of client 0 has -2",
        lambda: ledger(rule=Rule(lambda s: s.position - 2), process=Process(once)),
    ),
    "nan slots": (
        r"\.slots: an array of whole numbers",
        lambda: ledger(rule=Rule(lambda s: np.full(7, np.nan)), process=Process(once)),
    ),
    "capacity 0": (r"capacity 0", lambda: ledger(rule=Rule(first_slot, 0), process=Process(once))),
    "capacity half": (r"capacity 2.5", lambda: ledger(rule=Rule(first_slot, 2.5))),
    "weights in a list": (
        r"weights of Weighing: an array of numbers.*got list",
        lambda: ledger(strategy=Weighing(lambda h: [1.0] * 7)),
    ),
    "no weights": (r"weights.*got NoneType", lambda: ledger(strategy=Weighing(lambda h: None))),
    "words for weights": (r"weights", lambda: ledger(strategy=Weighing(lambda h: np.array(["a"])))),
    "lists as weights of a round": (
        r"weights in round 1.*got list",
        lambda: ledger(strategy=Weighing(lambda h: lambda t: [1.0] * 7)),
    ),
    "rounds beyond the limit": (
        r"rounds: a whole number from 1 to 1073741823; got 1000000000000",
        lambda: hw.unroll([3], hw.Once(), hw.Keep(), rounds=10**12),
    ),
    "seed none": (r"seed", lambda: hw.unroll([3], hw.Once(), hw.Keep(), 3, seed=None)),
    "share a word": (r"Share\(historical\).*'0.5'", lambda: hw.Share("0.5")),
    "share yes": (r"Share\(historical\)", lambda: hw.Share(True)),
    "share huge": (r"Share\(historical\)", lambda: hw.Share(10**400)),
    "importance a word": (r"Importance\(p\)", lambda: hw.Importance("half")),
    "ratio huge": (r"Optimal\(ratio\)", lambda: hw.Optimal(10**400)),
    "ratio a word": (r"Optimal\(ratio\).*'x'", lambda: hw.Optimal("x")),
    "ratio yes": (r"Optimal\(ratio\).*True", lambda: hw.Optimal(True)),
    "ratio nan": (r"Optimal\(ratio\)", lambda: hw.Optimal(np.nan)),
    "rate huge": (r"Constant\(rate\)", lambda: hw.Constant(10**400)),
    "rate yes": (r"Poisson\(rate\)", lambda: hw.Poisson(True)),
    "ragged trace": (r"Trace\(counts\)", lambda: hw.Trace([[1], [1, 2]])),
    "capacity huge": (r"Fifo\(capacity\)", lambda: hw.Fifo(10**400)),
    "window around a number": (r"Window\(arrivals\)", lambda: hw.Window(1, 2, 3)),
    "window without end": (r"Window\(first, last\)", lambda: hw.Window(1, 10**12)),
}


@pytest.mark.parametrize("case", CASES)
def test_a_broken_rule_is_named(case):
    words, mistake = CASES[case]
    with pytest.raises(hw.InputError, match=words):
        mistake()


def test_the_smallest_ratio_there_is_gives_the_limit():
    rules = [hw.Once(), hw.Constant(1)], [hw.Keep(), hw.Fifo(1)]
    tiny, none = (hw.Ledger.of([2, 4], *rules, hw.Optimal(r), rounds=4) for r in (5e-324, 0))
    np.testing.assert_array_equal(tiny.importance, none.importance)


def test_rules_that_keep_to_the_protocol_pass():
    assert (
        ledger(Leaving(once, gone=lambda s: 5 + s.client), Rule(first_slot)).importance.sum() == 1
    )


@pytest.mark.parametrize("kind", [np.float32, np.int64, np.uint8])
def test_any_kind_of_number_is_a_weight(kind):
    found = ledger(strategy=Weighing(lambda h: np.arange(1, 8).astype(kind)))
    np.testing.assert_allclose(found.importance, [6 / 28, 22 / 28], rtol=1e-15)


def test_the_checks_cost_little():
    """Under 2 % of what building a ledger takes, counted in passes: see benchmarks for seconds."""
    from time import process_time

    from headwater.ledger import unrolling
    from headwater.ledger.samples import Samples

    counts = np.full(20_000, 50)
    samples = Samples.of(np.arange(len(counts)), counts, 0)
    rounds = hw.Constant(2).rounds(samples)
    slots = hw.Fifo(4).slots(samples)
    firsts = np.flatnonzero(samples.position == 0)

    def seconds(work):
        took = []
        for _ in range(5):
            start = process_time()
            work()
            took.append(process_time() - start)
        return min(took)

    checks = seconds(
        lambda: (
            unrolling._arrivals(Process(lambda s: rounds), samples, firsts),
            unrolling._slots(Rule(lambda s: slots, 4), 4, samples),
        )
    )
    whole = seconds(
        lambda: hw.Ledger.of(counts, hw.Constant(2), hw.Fifo(4), hw.Uniform(), 25).variability
    )
    assert checks < 0.04 * whole, (checks, whole)
