"""Which engine for which work."""

from __future__ import annotations

import operator
from collections.abc import Callable

from headwater.errors import InputError
from headwater.learning import torchrun
from headwater.learning.engines.batched import Batched
from headwater.learning.engines.engine import Engine
from headwater.learning.engines.fused import Fused
from headwater.learning.engines.lockstep import Lockstep
from headwater.learning.engines.loop import Loop
from headwater.learning.engines.operations import operations
from headwater.learning.engines.ranks import Ranks, largest_part
from headwater.learning.engines.sequential import Sequential
from headwater.learning.engines.threads import OneThread, one_thread_is_enough
from headwater.learning.engines.workers import Workers
from headwater.learning.problem import CPU, Problem
from headwater.ledger.orders import Orders
from headwater.processes import can_fork, cores

MakeEngine = Callable[[Problem], Engine]

_WORTH_A_PROCESS = 1e8
"""Floating-point operations of a round; below, handing over costs more than it brings."""
_WORTH_SENDING = 1e4
"""Floating-point operations of a sample; below, telling a worker its samples costs more."""
_SHORT = 256
"""Samples of a client's past; up to so many, tiny models' corrections cost less than all else."""
_TINY = 4096
"""Parameters of a tiny model."""
_SMALL = 8192
"""Parameters of a small model; above, one client fills the machine's vector units by itself."""

KINDS: dict[str, MakeEngine] = {
    "loop": Loop,
    "fused": Fused,
    "lockstep": Lockstep,
    "batched": Batched,
    "sequential": Sequential,
}


def choose(
    problem: Problem, orders: Orders, kind: str | None = None, workers: int | None = None
) -> Engine:
    """An engine for rounds like this one.

    Args:
        problem: what is learned.
        orders: a typical round.
        kind: force one: "loop", "fused" (one local step only), "lockstep" (linear layers only),
            "batched" or "sequential".
        workers: force the number of processes; 0: none but this one.
    """
    _check_kind(kind, problem, orders)
    _check_workers(workers)
    _check_device(problem, workers)
    if torchrun.ranks() == 1:
        return _here(problem, orders, kind, workers)
    # All ranks look at the same part of the round and so come to the same choice.
    return Ranks(_here(problem, largest_part(orders), kind, workers), problem, orders)


def _here(problem: Problem, orders: Orders, kind: str | None, workers: int | None) -> Engine:
    """An engine for such rounds in this process, or in several of this machine."""
    make = KINDS[kind] if kind else _best(problem, orders)
    count = _processes(problem, orders, make) if workers is None else workers
    if count > 0:
        return Workers(problem, make, count)
    engine = make(problem)
    return OneThread(engine) if one_thread_is_enough(problem, orders) else engine


def manner(engine: Engine) -> str:
    """How an engine computes, in words: what decides in which order sums are added."""
    if isinstance(engine, Ranks):
        return f"{torchrun.ranks()} ranks, each with {manner(engine.inside)}"
    if isinstance(engine, Workers):
        return f"{engine.count} worker processes"
    if isinstance(engine, OneThread):
        return manner(engine.inside)
    return f"the {type(engine).__name__.lower()} engine"


def _best(problem: Problem, orders: Orders) -> MakeEngine:
    """The one that is expected to be the quickest, in this process or in each of several."""
    if problem.local.pieces:
        return Sequential
    if _can_fuse(problem, orders):
        return Fused
    if len(orders.clients) == 1:
        return Sequential
    if _short_past(problem, orders) and Lockstep.fits(problem):
        return Lockstep
    if problem.size <= _SMALL and _can_batch(problem, orders):
        return Batched
    return Sequential


def _processes(problem: Problem, orders: Orders, make: MakeEngine) -> int:
    """One worker for each core if the round is worth it, else none."""
    each = operations(problem)
    enough = each >= _WORTH_SENDING and each * orders.samples.size >= _WORTH_A_PROCESS
    several = len(orders.clients) > 1
    mine = cores() // torchrun.ranks_here()
    here = problem.device == CPU  # a device is shared by threads, not by forked processes
    worth = enough and several and here and make is not Loop
    return mine if worth and can_fork() and mine > 1 else 0


def _can_fuse(problem: Problem, orders: Orders) -> bool:
    return len(orders.samples) == 1 and not problem.draws


def _short_past(problem: Problem, orders: Orders) -> bool:
    """Do clients' corrections by their past cost little beside the products with the weights?

    The past is (E − 1)/2 batches on average; a correction costs inputs + outputs for each of its
    samples, a product inputs × outputs.
    """
    past = (len(orders.samples) - 1) * orders.samples.shape[1] / len(orders.clients)
    matrices = [p.shape for _, p in problem.parameters if p.ndim == 2]
    corrections = sum(operator.add(*shape) for shape in matrices)
    products = sum(operator.mul(*shape) for shape in matrices)
    return past * corrections <= products or (problem.size <= _TINY and past <= _SHORT)


def _can_batch(problem: Problem, orders: Orders) -> bool:
    """Some modules (recurrent ones) cannot be batched over clients; a trial tells."""
    if problem.draws:
        return False
    some = orders.part(0, min(2, len(orders.clients)))
    try:
        Batched(problem).moves(problem.initial(), some, 0.0)
    except RuntimeError:
        return False
    return True


def _check_device(problem: Problem, workers: int | None) -> None:
    """Several processes work on the CPU only."""
    if problem.device != CPU and (workers or torchrun.ranks() > 1):
        raise InputError(
            f"device: worker processes and torchrun are for the CPU; on {problem.device} leave out "
            "workers, and start one process"
        )


def _check_kind(kind: str | None, problem: Problem, orders: Orders) -> None:
    """Is there such an engine, and would it be right for this work?"""
    if kind is not None and kind not in KINDS:
        raise InputError(f"engine: one of {', '.join(KINDS)}; got {kind!r}")
    if problem.local.pieces and kind not in (None, "loop", "sequential"):
        raise InputError(
            f"engine {kind!r} takes plain local steps for all clients together, but local= asks "
            "for an optimiser with each client's own gradients; take 'sequential'"
        )
    if kind == "fused" and not _can_fuse(problem, orders):
        raise InputError(
            "engine 'fused' is for one local step and models without dropout; take 'sequential'"
        )
    if kind == "lockstep" and not Lockstep.fits(problem):
        raise InputError(
            "engine 'lockstep' is for models without dropout whose parameters are all in linear "
            "layers; take 'sequential'"
        )
    if kind == "batched" and not _can_batch(problem, orders):
        raise InputError(
            "engine 'batched' cannot run this model for many clients at once; take 'sequential'"
        )


def _check_workers(workers: int | None) -> None:
    if workers is None:
        return
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 0:
        raise InputError(f"workers: a whole number of processes, 0 for none; got {workers!r}")
    if workers > 1 and not can_fork():
        raise InputError("workers: this system cannot fork processes; use workers=0")
