"""Names and strategies, both ways."""

from dataclasses import replace

import pytest

from headwater import (
    Given,
    InputError,
    Optimal,
    Remembered,
    RememberedOnline,
    Share,
    Uniform,
)
from headwater.ledger.conformance import check_strategy
from headwater.ledger.registry import NAMES, REGISTRY, label, named


@pytest.mark.parametrize(
    "name", [*sorted(set(REGISTRY) - {"share"}), "share-0.5", "share-0", "share-1"]
)
def test_a_name_comes_back_from_its_strategy(name):
    assert label(named(name)) == name


@pytest.mark.parametrize(
    "strategy",
    [
        Share(1 / 3),
        Optimal(0.1234567891),
        Optimal(5e-324, "sharp"),
        Optimal(1e300),
        Remembered(heterogeneity=0.13),
        RememberedOnline(heterogeneity=1 / 7),
    ],
)
def test_a_strategy_comes_back_from_its_name(strategy):
    assert named(label(strategy)) == strategy


def test_numbers_that_differ_in_the_last_digit_have_different_names():
    assert label(Optimal(0.1)) != label(Optimal(0.1 + 2**-56))


@pytest.mark.parametrize("entry", REGISTRY.values(), ids=list(REGISTRY))
def test_every_entry_makes_a_strategy_that_keeps_the_rules(entry):
    strategy = entry.make(0.5) if entry.number else entry.make()
    # What only a run can measure has to be given to weigh without one.
    measured = replace(strategy, horizon=0.25) if isinstance(strategy, Remembered) else strategy
    check_strategy(measured)
    assert [e for e in REGISTRY.values() if e.owns(strategy)] == [entry]
    assert entry.about
    assert entry.usage in NAMES


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("best", "unknown strategy 'best'; there are: fresh, historical"),
        ("", "unknown strategy ''"),
        ("uniform-2", "uniform takes no number; write uniform"),
        ("share", "'share' needs a number, as in share-0.5"),
        ("share-", "'' is not a number"),
        ("share-half", "'half' is not a number"),
        ("share-2", "a fraction from 0 to 1; got 2"),
        ("optimal--1", "a number ≥ 0; got -1"),
    ],
)
def test_what_is_no_name(name, words):
    with pytest.raises(InputError) as caught:
        named(name)
    assert words in str(caught.value)


def test_another_horizon_or_target_has_no_name():
    """A name must say all there is to say, so that stored runs are not taken for each other."""
    for strategy in (Remembered(10, 0.1), Remembered(0.25, 0.1, [0.3, 0.7])):
        with pytest.raises(InputError, match="has no name"):
            label(strategy)


def test_weights_of_ones_own_have_no_name():
    with pytest.raises(InputError, match="has no name"):
        label(Given([1.0, 2.0]))


def test_names_are_typed_in_any_case():
    assert named(" Uniform ") == Uniform()
