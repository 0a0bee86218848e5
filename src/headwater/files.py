"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import struct
import tempfile
import zlib
from pathlib import Path
from zipfile import BadZipFile

from headwater.errors import InputError

# What reading a damaged .npz or JSON may raise: a flipped bit in a zip file can name a way of
# compression that nobody knows (NotImplementedError), ask for a password (RuntimeError), or have
# an array begin in the middle of another. UnicodeDecodeError is a ValueError.
UNREADABLE = (
    *(OSError, EOFError, ValueError, KeyError, TypeError, RuntimeError, MemoryError),
    *(BadZipFile, zlib.error, struct.error, SyntaxError),
)


def replace(path: Path, content: bytes) -> None:
    """Write a file so that a crash or a full disk leaves either the old content or the new, never a
    part.

    >>> folder = Path(tempfile.mkdtemp())
    >>> replace(folder / "a.txt", b"all of it")
    >>> (folder / "a.txt").read_bytes(), len(list(folder.iterdir()))
    (b'all of it', 1)
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException as error:
        os.unlink(name)
        if isinstance(error, OSError) and error.filename is None:
            # A full disk says "no space left", but not for which file.
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    sync_folder(path.parent)


def check_folder(setting: str, folder: Path) -> None:
    """Refuse a path that cannot become a folder to write to, before any work is done for it.

    >>> check_folder("--out", Path(__file__) / "below")
    Traceback (most recent call last):
    headwater.errors.InputError: --out: ...files.py is a file; name a folder
    """
    there = next(p for p in (folder, *folder.absolute().parents) if os.path.exists(p))
    if not there.is_dir():
        raise InputError(f"{setting}: {there} is a file; name a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(
            f"{setting}: {there} must not be written to; name another folder or change its rights"
        )


def sweep(folder: Path) -> None:
    """Remove the parts of files whose writers were killed; only for folders that nobody else writes
    to.

    >>> folder = Path(tempfile.mkdtemp())
    >>> handle, part = tempfile.mkstemp(dir=folder, prefix=".state.npz.")
    >>> sweep(folder)
    >>> list(folder.iterdir())
    []
    """
    for part in folder.glob(".*.????????"):
        part.unlink()


def sync_folder(folder: Path) -> None:
    """The new name must reach the disk as well."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
