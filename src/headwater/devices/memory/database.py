"""One SQLite file of one process: transactions, who has it, and what a full disk means."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Literal, Protocol

from headwater.errors import InputError

Survives = Literal["kill", "power loss"]

# "No space", and the forms in which SQLite reports quotas and size limits of the file system.
_FULL = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_FSYNC,
    sqlite3.SQLITE_IOERR_TRUNCATE,
    sqlite3.SQLITE_IOERR_SHMSIZE,
}


class TakesPart(Protocol):
    """Keeps something in RAM that belongs to transactions."""

    def before_commit(self, connection: sqlite3.Connection) -> None:
        """Write what is not written yet."""
        ...

    def rolled_back(self) -> None:
        """Forget what was not committed."""
        ...


class DiskFullError(OSError):
    """There is no room for a transaction; nothing of it was written."""

    def __init__(self, path: Path) -> None:
        super().__init__(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


class Database:
    """A SQLite file in WAL mode that this process alone writes to.

    A committed transaction is in the write-ahead log before ``transaction`` returns, so a process
    that is killed loses none: the operating system has the bytes. What "power loss" adds is an
    ``fsync`` of the log with every transaction; without it a power cut may undo the last
    transactions, whole ones, back to the last time SQLite synchronised (every 1,000 pages). The
    file is whole in both cases.

    Args:
        path: the file; it is created readable for its owner only.
        survives: what a committed transaction survives.
        pages: the greatest size of the file in pages of 4096 bytes; None: as the disk has room.
    """

    def __init__(self, path: Path, survives: Survives = "kill", pages: int | None = None) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._holder = hold(path)
        try:
            self._connection = _connect(path, survives, pages)
        except sqlite3.DatabaseError as error:
            self._holder.close()
            raise InputError(f"{path}: this is not a memory file ({error})") from error
        self._lock = threading.RLock()
        self._within = False
        self._taking_part: list[TakesPart] = []

    def join(self, part: TakesPart) -> None:
        """Let somebody take part in every transaction from now on."""
        self._taking_part.append(part)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All that is written inside is there afterwards, or nothing of it; inner ones join in."""
        with self._lock:
            if self._within:
                yield self._connection
                return
            self._within = True
            try:
                with self._translated():
                    self._connection.execute("BEGIN IMMEDIATE")
                    yield self._connection
                    for part in self._taking_part:
                        part.before_commit(self._connection)
                    self._connection.execute("COMMIT")
            except BaseException:
                self._roll_back()
                raise
            finally:
                self._within = False

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        with self._lock, self._translated():
            return self._connection.execute(query, values).fetchall()

    def close(self) -> None:
        """Fold the log into the file and let others open it."""
        with self._lock:
            with suppress(sqlite3.Error):  # a full disk: the log stays, and is read at next opening
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._connection.close()
            self._holder.close()

    @contextmanager
    def settled(self) -> Iterator[None]:
        """No transaction of another thread is under way inside."""
        with self._lock:
            yield

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode in _FULL:
                raise DiskFullError(self.path) from error
            raise

    def _roll_back(self) -> None:
        # SQLite has rolled back by itself after some errors; then there is nothing to undo there
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        for part in self._taking_part:
            part.rolled_back()


def hold(path: Path) -> IO[str]:
    """Keep other processes away from a file; a holder that has died does not.

    The lock is the kernel's and goes with the process; the words in it only say whose it is.
    """
    lock = open(path.with_name(path.name + ".lock"), "a+", opener=_private)  # noqa: SIM115
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        words = lock.read()
        lock.close()
        raise InputError(f"{path}: {_whose(words)} has it open; only one can") from None
    lock.seek(0)
    lock.truncate()
    since = datetime.now(UTC).isoformat(timespec="seconds")
    lock.write(json.dumps({"pid": os.getpid(), "since": since}))
    lock.flush()
    return lock


def _whose(words: str) -> str:
    try:
        holder = json.loads(words)
        return f"process {holder['pid']} (since {holder['since']})"
    except (ValueError, KeyError, TypeError):  # it has just got the lock and not yet signed
        return "another process"


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _connect(path: Path, survives: Survives, pages: int | None) -> sqlite3.Connection:
    os.close(_private(str(path), os.O_CREAT | os.O_RDWR))  # SQLite's own files copy its mode
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {'FULL' if survives == 'power loss' else 'NORMAL'}")
    connection.execute("PRAGMA journal_size_limit = 67108864")  # a log that grew once shrinks again
    if pages is not None:
        connection.execute(f"PRAGMA max_page_count = {pages}")
    return connection
