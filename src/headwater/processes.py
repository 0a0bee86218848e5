"""Processes of our own: how many may work at once, and that none of them outlives its parent."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import time

_PR_SET_PDEATHSIG = 1  # of <linux/prctl.h>
_WATCH = 0.5  # seconds between two looks at the parent, where the kernel does not tell


def cores() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def can_fork() -> bool:
    """Is there a fork that workers can come from?"""
    return "fork" in multiprocessing.get_all_start_methods()


def die_with_parent(parent: int) -> None:
    """End this process as soon as its parent is gone, however the parent went: also by kill -9.

    A worker calls this first. On Linux the kernel sends SIGKILL then; it takes the end of the
    *thread* that forked us for the end of the parent, so workers belong to the thread that started
    them. Elsewhere a thread looks now and then whether we have been handed to another parent.

    Args:
        parent: the parent's process number, asked for before the fork: asked for afterwards it
            could already be that of whoever adopted us.
    """
    if not (sys.platform == "linux" and _kill_me_with_my_parent()):
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    if os.getppid() != parent:
        os._exit(1)  # the parent ended before the kernel was asked


def become_worker(parent: int) -> None:
    """What every worker process calls first: it dies with its parent and leaves signals to it.

    Ctrl-C reaches all processes of a terminal, and the parent decides what is saved before the
    workers stop. A parent's own handler of SIGTERM is not for its workers: they just end.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    die_with_parent(parent)


def give_back_memory() -> None:
    """Let the system have the memory that was freed here; where it cannot be told, nothing happens.

    The C library keeps what was freed for the next time. After a few vectors as long as a model
    that is many times the model.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it
    if trim is not None:
        trim(0)


def how_it_ended(code: int | None) -> str:
    """What a process's exit code says, in words.

    >>> how_it_ended(-9)
    'was killed (SIGKILL: by hand, or because memory ran out)'
    >>> how_it_ended(3)
    'ended with code 3'
    """
    if code is None:
        return "does not answer"
    if code == -signal.SIGKILL:
        return "was killed (SIGKILL: by hand, or because memory ran out)"
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"


def _kill_me_with_my_parent() -> bool:
    """Ask the kernel; False: it cannot be asked."""
    try:
        asked = ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    except (OSError, AttributeError):
        return False
    return bool(asked == 0)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_WATCH)
    os._exit(1)
