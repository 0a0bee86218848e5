"""The rules of the house for memory rules, arrival processes and strategies, as one check each.

All that comes with Headwater passes, and so must a rule of your own; one line in your tests tells:

    check_memory(MyRule(capacity=5))

What is checked is what the ledger and the devices rely on: answers depend on nothing but (seed,
client, arrival number), so that a device draws for itself what a simulation draws for all; a stream
does not know its future; a memory never holds more than it can. A failure is an AssertionError that
says which of them does not hold.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from headwater.errors import InputError
from headwater.ledger.arrivals import (
    FOREVER,
    Arrivals,
    Constant,
    Departures,
    Once,
    Poisson,
    Trace,
    departures,
)
from headwater.ledger.checks import is_whole
from headwater.ledger.holdings import Holdings
from headwater.ledger.ledger import Ledger
from headwater.ledger.memory import REJECTED, Fifo, Keep, Memory, Reservoir
from headwater.ledger.samples import Samples
from headwater.ledger.strategies import Strategy, Weights
from headwater.ledger.unrolling import unroll
from headwater.randomness import Floats

Answer = Callable[[Samples], NDArray[np.int64]]

# Some clients with gaps between their numbers, one of them with a single sample.
_CLIENTS = np.array([0, 3, 4, 11])
_COUNTS = np.array([30, 1, 17, 64])
_SEEDS = (0, 1, 2**40)


def check_memory(rule: Memory) -> None:
    """Check that a memory rule keeps to the rules.

    Example:
        >>> check_memory(Fifo(3))
    """
    needs = f"{rule!r} needs a property capacity and a method slots(samples)"
    _must(_instance(rule, Memory), needs)
    _check_constant(rule)
    capacity = rule.capacity
    some = is_whole(capacity) and capacity >= 1
    _must(capacity is None or some, f"capacity: None or at least 1; got {capacity!r}")
    _check_answer(rule.slots, f"{rule!r}.slots")
    for seed in _SEEDS:
        _check_slots(rule, rule.slots(Samples.of(_CLIENTS, _COUNTS, seed)))
    for process in (Constant(1), Constant(min(3, capacity or 3)), Poisson(2.0)):
        _check_memory_in_use(rule, process)


def check_arrivals(process: Arrivals) -> None:
    """Check that an arrival process keeps to the rules; also its departures, if it has any.

    Example:
        >>> check_arrivals(Poisson(0.5))
    """
    needs = f"{process!r} needs methods rounds(samples) and largest_batch(count)"
    _must(_instance(process, Arrivals), needs)
    _check_constant(process)
    _check_answer(process.rounds, f"{process!r}.rounds")
    for seed in _SEEDS:
        for client, count in zip(_CLIENTS, _COUNTS, strict=True):
            _check_rounds(process, _alone(client, count, seed))
    if isinstance(process, Departures):
        _check_answer(process.departures, f"{process!r}.departures")
        for seed in _SEEDS:
            _check_departures(process, seed)


def check_strategy(strategy: Strategy, *federations: Holdings) -> None:
    """Check that a strategy keeps to the rules.

    Args:
        strategy: the strategy.
        federations: what it is tried on; give your own if it needs more than two clients.

    Example:
        >>> from headwater import Uniform
        >>> check_strategy(Uniform())
    """
    _must(_instance(strategy, Strategy), f"{strategy!r} needs a method weights(holdings)")
    _check_frozen(strategy)
    given = federations or _federations()
    first = [_weights_of_rounds(strategy, holdings) for holdings in given]
    # The second time in another order: what it answered before must not matter.
    for holdings, weights in zip(reversed(given), reversed(first), strict=True):
        again = _weights_of_rounds(strategy, holdings)
        remembers = f"{strategy!r}: other weights when asked again; it must not remember"
        _must((weights == again).all(), remembers)
    for holdings in given:
        _check_ledger(strategy, holdings)


# ------------------------------------------------------------------ any rule


def _must(condition: object, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def _instance(thing: object, protocol: type) -> bool:
    """A class has the methods too, but is not yet a rule."""
    return isinstance(thing, protocol) and not isinstance(thing, type)


def _check_frozen(thing: object) -> None:
    """A rule is shared by many clients: nobody may change it."""
    for name in [*getattr(thing, "__dict__", ()), *getattr(type(thing), "__slots__", ())]:
        try:
            setattr(thing, name, getattr(thing, name))
        except AttributeError:
            continue
        raise AssertionError(f"{thing!r} can be changed; make it a @dataclass(frozen=True)")


def _check_constant(thing: object) -> None:
    """Clients with equal rules are handled together, so equal rules must be found equal."""
    _check_frozen(thing)
    twin = deepcopy(thing)
    _must(thing == twin, f"{thing!r} differs from its own copy; make it a @dataclass(frozen=True)")
    try:
        same = hash(thing) == hash(twin)
    except TypeError as error:
        unhashable = f"{thing!r} cannot be hashed ({error}); use tuples for lists"
        raise AssertionError(unhashable) from error
    _must(same, f"{thing!r} and its copy are equal but have different hashes")


def _check_answer(answer: Answer, name: str) -> None:
    """One whole number per sample that depends on seed, client and arrival number only."""
    for seed in _SEEDS:
        together = Samples.of(_CLIENTS, _COUNTS, seed)
        before = deepcopy(together)
        numbers = answer(together)
        _must(isinstance(numbers, np.ndarray), f"{name}: an array; got a {type(numbers).__name__}")
        _must(numbers.dtype.kind in "iu", f"{name}: whole numbers; got {numbers.dtype}")
        shape = f"{name}: one number per sample; got shape {numbers.shape}"
        _must(numbers.shape == together.position.shape, shape)
        _must(_equal(before, together), f"{name} changes the samples that it is given")
        again = f"{name}: another answer the second time; draw with samples.draw()"
        _must((answer(together) == numbers).all(), again)
        _check_company(answer, name, seed, numbers)


def _check_company(answer: Answer, name: str, seed: int, numbers: NDArray[np.int64]) -> None:
    """Alone or among others, with few or many samples to come: the same answer."""
    edges = np.concatenate([[0], np.cumsum(_COUNTS)])
    for (begin, end), client in zip(pairwise(edges), _CLIENTS, strict=True):
        mine = numbers[begin:end]
        alone = answer(_alone(client, end - begin, seed))
        others = f"{name}: client {client}'s answer depends on who else is there"
        _must((alone == mine).all(), others)
        for count in range(1, end - begin):
            future = f"{name}: the first {count} samples' answer depends on how many come after"
            _must((answer(_alone(client, count, seed)) == mine[:count]).all(), future)


def _alone(client: int | np.int64, count: int | np.int64, seed: int) -> Samples:
    return Samples.of(np.array([client]), np.array([count]), seed)


def _equal(one: Samples, two: Samples) -> bool:
    return bool((one.client == two.client).all() and (one.position == two.position).all())


# ------------------------------------------------------------------ memory rules


def _check_slots(rule: Memory, slots: NDArray[np.int64]) -> None:
    if rule.capacity is None:
        own = all(len(set(s.tolist())) == len(s) for s in np.split(slots, np.cumsum(_COUNTS)[:-1]))
        keeps = f"{rule!r}: without a capacity every sample has a slot of its own"
        _must(own and (slots != REJECTED).all(), keeps)
        return
    good = (slots >= 0) & (slots < rule.capacity) | (slots == REJECTED)
    allowed = f"slots from 0 to {rule.capacity - 1}, or {REJECTED} for not kept"
    _must(good.all(), f"{rule!r}: {allowed}; got {slots[~good]}")


def _check_memory_in_use(rule: Memory, process: Arrivals) -> None:
    """What the ledger says against slots that are filled one by one, as on a device."""
    rounds, count, seed = 20, 40, 5
    holdings = unroll([count, count], process, rule, rounds, seed)
    for client in (0, 1):
        samples = _alone(client, count, seed)
        arrival = process.rounds(samples)
        slots = rule.slots(samples)
        memory: dict[int, int] = {}
        for t in range(1, rounds + 1):
            for i in np.flatnonzero((arrival == t) & (slots != REJECTED)):
                memory[int(slots[i])] = int(i)
            held = np.flatnonzero(holdings.held(t)[client * count : (client + 1) * count])
            fits = rule.capacity is None or len(held) <= rule.capacity
            _must(fits, f"{rule!r} holds {len(held)} in round {t}")
            others = f"{rule!r}: one by one it holds others in round {t}"
            _must(sorted(memory.values()) == held.tolist(), others)


# ------------------------------------------------------------------ arrival processes


def _check_rounds(process: Arrivals, samples: Samples) -> None:
    """Rounds of one client: from 1 on, never falling, no more at once than was said."""
    rounds = process.rounds(samples)
    _must((rounds >= 1).all(), f"{process!r}: rounds are counted from 1; got {rounds.min()}")
    order = f"{process!r}: a sample arrives before the one in front of it"
    _must((np.diff(rounds) >= 0).all(), order)
    largest = process.largest_batch(len(rounds))
    number = isinstance(largest, int | np.integer) and largest >= 0
    _must(number, f"{process!r}.largest_batch: a number ≥ 0")
    batches = np.unique(rounds[rounds < FOREVER], return_counts=True)[1]
    seen = int(batches.max(initial=0))
    more = f"{process!r} brings {seen} in a round, largest_batch says {largest}"
    _must(largest == 0 or seen <= largest, more)


def _check_departures(process: Departures, seed: int) -> None:
    """A client leaves once, with its whole memory, and the ledger holds nothing of it after."""
    holdings = unroll([20, 20], process, Keep(), 30, seed)
    for client in (0, 1):
        samples = _alone(client, 20, seed)
        gone = departures(process, samples)
        once = (
            f"{process!r}.departures: one round from 1 on for all samples of a client; got {gone}"
        )
        _must((gone == gone[0]).all() and gone[0] >= 1, once)
        mine = slice(20 * client, 20 * client + 20)
        late = f"{process!r}: client {client} holds samples after round {gone[0] - 1}"
        held = holdings.rounds_held[mine] > 0  # the others never came
        _must((holdings.leave[mine][held] <= gone[0]).all(), late)


# ------------------------------------------------------------------ strategies


def _federations() -> tuple[Holdings, ...]:
    """A historical and a fresh client, three times: equal stays, unequal stays, bursts."""
    streams = (Constant(2), Fifo(2)), (Constant(1), Reservoir(3)), (Trace([3, 0, 1, 4]), Fifo(5))
    return tuple(unroll([6, 20], [Once(), p], [Keep(), r], rounds=8, seed=9) for p, r in streams)


def _weights_of_rounds(strategy: Strategy, holdings: Holdings) -> Floats:
    """All weights of all rounds, the last round first: a round must not need the one before it."""
    before = deepcopy((holdings.enter, holdings.leave))
    weights = strategy.weights(holdings)
    rows = [_row(strategy, weights, t, holdings) for t in range(holdings.rounds, 0, -1)]
    same = (before[0] == holdings.enter).all() and (before[1] == holdings.leave).all()
    _must(same, f"{strategy!r} changes the holdings that it is given")
    return np.array(rows)


def _row(strategy: Strategy, weights: Weights, round: int, holdings: Holdings) -> Floats:
    row = np.asarray(weights(round) if callable(weights) else weights)
    shape = f"{strategy!r}: one weight per sample; got shape {row.shape}"
    _must(row.shape == holdings.enter.shape, shape)
    kind = f"{strategy!r}: weights are floating-point numbers; got {row.dtype}"
    _must(row.dtype.kind == "f", kind)
    good = np.isfinite(row) & (row >= 0)
    range_ = f"{strategy!r}: weights are finite and at least 0; got {row[~good]} in round {round}"
    _must(good.all(), range_)
    return row


def _check_ledger(strategy: Strategy, holdings: Holdings) -> None:
    """Somebody counts in every round, and shares are shares."""
    try:
        ledger = Ledger.weigh(holdings, strategy)
    except InputError as error:
        raise AssertionError(f"{strategy!r}: {error}") from error
    for shares in (ledger.round_shares, ledger.importance, *ledger.client_shares):
        _must(abs(shares.sum() - 1) < 1e-9, f"{strategy!r}: shares that sum to {shares.sum()}")
