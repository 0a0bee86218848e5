"""Where data sets lie, and the parsed copy that makes the second start quick.

A parsed set is one uncompressed ``.npz`` below ``home()/parsed``. It is written to a temporary name
and put in place by one rename, so that a half-written one is never seen; it carries the names,
sizes and times of the files it was made from, and a CRC for each array. What does not fit, or is
damaged, is parsed anew.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import struct
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pooch
from numpy.typing import NDArray

from headwater.errors import InputError

Arrays = dict[str, NDArray[Any]]

_FORMAT = 1  # to be raised when a parser's result changes
_ABANDONED = 3600.0  # seconds without a write, after which a temporary file belongs to nobody
_log = logging.getLogger(__name__)


def home() -> Path:
    """The folder for data when none is given: ``$HEADWATER_DATA``, or the user's cache folder."""
    return Path(os.environ.get("HEADWATER_DATA") or pooch.os_cache("headwater")).expanduser()


def data_folder(folder: Path | None) -> Path:
    """The folder to look for data in: the one given, which must exist, or else `home()`.

    >>> data_folder(Path("/no/such/folder"))
    Traceback (most recent call last):
    headwater.errors.InputError: data folder /no/such/folder: no such folder; ...
    """
    if folder is None:
        try:
            home().mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"data folder {home()} cannot be made ({error}); set HEADWATER_DATA"
            ) from error
        return home()
    if not folder.is_dir():
        kind = "a file, not a folder" if folder.exists() else "no such folder"
        raise InputError(
            f"data folder {folder}: {kind}; give the folder that holds the data sets' own folders "
            f"(cifar-10-batches-bin, femnist, …), or none for {home()}"
        )
    return folder


def parsed(name: str, sources: Sequence[Path], parse: Callable[[], Arrays]) -> Arrays:
    """The arrays that ``parse()`` makes of the source files, kept for the next time.

    Arrays of single bytes, which are the large ones, come back mapped from the file, privately:
    processes share their pages, and writing to them changes neither the file nor another process.

    >>> from tempfile import TemporaryDirectory; from unittest.mock import patch
    >>> with TemporaryDirectory() as folder, patch.dict(os.environ, HEADWATER_DATA=folder):
    ...     source = Path(folder, "three.txt"); _ = source.write_text("abc")
    ...     first = parsed("three", [source], lambda: {"x": np.arange(3, dtype=np.uint8)})
    ...     again = parsed("three", [source], lambda: {})
    >>> again["x"]
    array([0, 1, 2], dtype=uint8)
    """
    key = json.dumps([_FORMAT, [[str(p), p.stat().st_size, p.stat().st_mtime_ns] for p in sources]])
    # One parsed copy for each folder of sources, not one for ever and ever.
    place = zlib.crc32(str(sources[0].parent.resolve()).encode())
    path = home() / "parsed" / f"{name}-{place:08x}.npz"
    found = _read(path, key)
    if found is not None:
        return found
    arrays = parse()
    try:
        _write(path, key, arrays)
    except OSError as error:  # a full or read-only disk costs time, not the run
        _log.warning("cannot keep parsed data in %s: %s", path, error)
        return arrays
    return _read(path, key) or arrays


def _write(path: Path, key: str, arrays: Arrays) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    sweep(path.parent, ".*.part")
    with _replacing(path) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for name, array in {"key": np.array(key), **arrays}.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to; it takes the place of ``path`` if the block ends well, else vanishes."""
    descriptor, name = tempfile.mkstemp(".part", f".{path.name}.", path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def sweep(folder: Path, pattern: str) -> None:
    """Remove the temporary files of runs that were killed."""
    for path in folder.glob(pattern):
        with contextlib.suppress(OSError):  # another process may be sweeping, too
            if time.time() - path.stat().st_mtime > _ABANDONED:
                path.unlink()


def _read(path: Path, key: str) -> Arrays | None:
    """The arrays kept under ``key``, or None if there are none that can be trusted."""
    if not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as file:
            if file["key"].item() != key:
                return None
            bad = file.zip.testzip()
            if bad is None:
                return {name: _array(path, file, name) for name in file.files if name != "key"}
    except Exception as error:  # flipped bytes can make any reader fail in any way
        bad = str(error)
    _log.warning("parsed data in %s are damaged (%s); parsing again", path, bad)
    return None


def _array(path: Path, file: Any, name: str) -> NDArray[Any]:
    with path.open("rb") as raw:
        # A zip member's data follow its local header, whose last two numbers are the lengths of
        # the name and of the extra field that come before the data.
        raw.seek(file.zip.getinfo(f"{name}.npy").header_offset + 26)
        raw.seek(sum(struct.unpack("<HH", raw.read(4))), os.SEEK_CUR)
        np.lib.format.read_magic(raw)
        shape, _, dtype = np.lib.format.read_array_header_1_0(raw)
        if dtype.itemsize > 1 or 0 in shape:  # wider items may lie unaligned in the file
            return np.asarray(file[name])
        return np.asarray(np.memmap(raw, dtype, "c", raw.tell(), shape))
