"""Several processes that run the same program together, on one machine or on many.

``torchrun --nnodes 4 --nproc-per-node 8 program.py`` starts the program 32 times; each of these
processes is a *rank*. :func:`headwater.simulate` sees that it is one of several and does its part
of every round (:mod:`headwater.learning.engines.ranks`). What goes to disk or to a terminal is the
first rank's business; what it has read from there the others get to know by :func:`from_first`.

Without torchrun there is one rank, the first, and nothing here starts a thread or opens a port.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from functools import cache
from typing import TypeVar

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from headwater.errors import InputError

T = TypeVar("T")

_VARIABLES = "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"


def ranks() -> int:
    """How many processes run this program together; 1: nobody but us."""
    if not _several():
        return 1
    return dist.get_world_size() if dist.is_initialized() else int(os.environ["WORLD_SIZE"])


def rank() -> int:
    """Which of them we are, from 0."""
    if not _several():
        return 0
    return dist.get_rank() if dist.is_initialized() else int(os.environ["RANK"])


def ranks_here() -> int:
    """How many of them share this machine and its cores."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1")) if _several() else 1


def from_first(make: Callable[[], T]) -> T:
    """Let the first rank make something, and give it to all.

    What is raised while it is made is raised everywhere, so that nobody waits for the others.
    """
    if not _several():
        return make()
    answer: list[tuple[T | None, Exception | None]] = [(None, None)]
    if rank() == 0:
        try:
            answer = [(make(), None)]
        except Exception as error:
            answer = [(None, error)]
    dist.broadcast_object_list(answer, src=0, group=_group())
    made, failure = answer[0]
    if failure is not None:
        raise failure
    return made  # type: ignore[return-value] # as make() made it, or a copy of that


def add_up(total: torch.Tensor) -> torch.Tensor:
    """Σ over the ranks, in place: one all-reduce; the same bits everywhere."""
    dist.all_reduce(total, group=_group())
    return total


def require_same(name: str) -> None:
    """Refuse to go on if the ranks are about to run different things."""
    names: list[str | None] = [None] * ranks()
    dist.all_gather_object(names, name, group=_group())
    if len(set(names)) > 1:
        raise InputError(
            "torchrun: the ranks have different models, samples or settings, so they cannot share "
            "one run; seed what is drawn alike in all of them, or start them without RANK and "
            "WORLD_SIZE to let each have a run of its own"
        )


def _several() -> bool:
    """Is this one of several processes, by torchrun's word or by the caller's own group?"""
    if not dist.is_available():
        return False
    if dist.is_initialized():
        return dist.get_world_size() > 1
    started = all(name in os.environ for name in _VARIABLES)
    return started and int(os.environ["WORLD_SIZE"]) > 1


@cache
def _group() -> dist.ProcessGroup | None:
    """The connection between the ranks, opened when it is first needed and then kept.

    None is PyTorch's default group. A caller's group of another backend cannot add what lies in
    main memory; then there is a second one beside it.
    """
    if not dist.is_initialized():
        _connect()
    backend = str(dist.get_backend())
    return None if "gloo" in backend else dist.new_group(backend="gloo")


def _connect() -> None:
    """Find the others where torchrun says.

    Torchrun's store outlives a rank that was killed, and with it what that rank has left there. So
    every restart has a place of its own in it: else a rank might call one that is gone.
    """
    store, rank, size = next(iter(rendezvous("env://")))
    restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    place = PrefixStore(f"headwater/{restart}", store)
    both = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(both, store=place, rank=rank, world_size=size)
    # Left open, its threads may be at work while Python goes down, and end the process by abort().
    atexit.register(_disconnect)


def _disconnect() -> None:
    """Close the connection, unless somebody has done so."""
    if dist.is_initialized():
        dist.destroy_process_group()
