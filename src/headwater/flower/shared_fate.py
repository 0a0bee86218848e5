"""A SuperLink or SuperNode that ends when its helper has ended.

Both let a child of theirs, ``flower-superexec``, start the apps, and neither (1.41) looks after it:
when it is killed, or ends over an error of the SuperLink's, its parent lives on, a run that is
submitted stays pending for good, and no message is answered any more. Nobody who watches processes
would notice. So the parent ends, too, and whoever looks after it starts both again.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

_HELPER = "flower-superexec"[:15]  # Linux keeps so much of a program's name
_PATIENCE = 10.0  # seconds for an orderly end; a client that reads a log may hold it up


def end_with_helper() -> None:
    """From now on this process ends with its helper; to be called in the main thread.

    Only Linux says which child has ended; elsewhere all is as Flower has it.
    """
    if sys.platform == "linux":
        signal.signal(signal.SIGCHLD, _look)


def _look(*_: object) -> None:
    """A child has ended. Other children come and go, as Python's own look at the system."""
    try:
        # WNOWAIT: it stays a zombie, with its name, for those whose child it is
        dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # somebody has waited for it already
        return
    if dead is not None and _name(dead.si_pid) == _HELPER:
        print("flower-superexec has ended, and so does its parent", file=sys.stderr, flush=True)
        threading.Thread(target=_insist, daemon=True).start()
        signal.raise_signal(signal.SIGTERM)  # as systemd would ask; a second time does no harm


def _insist() -> None:
    threading.Event().wait(_PATIENCE)
    os._exit(1)


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:  # somebody has waited for it meanwhile
        return ""
