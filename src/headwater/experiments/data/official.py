"""Official archives: their checksums, and fetching them where there is a network."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pooch

from headwater.errors import InputError
from headwater.experiments.data.cache import sweep


@dataclass(frozen=True)
class Archive:
    """A file that somebody publishes: address, size in bytes, MD5 as published."""

    url: str
    size: int
    md5: str

    @property
    def name(self) -> str:
        """The file's own name.

        >>> Archive("https://example.org/a/b.tar.gz", 3, "900150983cd24fb0d6963f7d28e17f72").name
        'b.tar.gz'
        """
        return self.url.rsplit("/", 1)[1]


def checksum(path: Path, algorithm: str) -> str:
    """The hexadecimal digest of a file.

    >>> import os; checksum(Path(os.devnull), "md5")
    'd41d8cd98f00b204e9800998ecf8427e'
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def fetch(archive: Archive, folder: Path) -> Path:
    """The archive in ``folder``: the one that lies there, or else a download that passed its
    checksum.

    A download goes to a temporary file in a folder of its own and is moved into place only when its
    MD5 is right. One that lies there already is not looked into here (see `require`).
    """
    path, workshop = folder / archive.name, folder / f".{archive.name}.download"
    if path.exists():
        return path
    sweep(workshop, "*")
    try:
        os.replace(pooch.retrieve(archive.url, f"md5:{archive.md5}", archive.name, workshop), path)
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} is missing and its download failed. Fetch {archive.url} ({archive.size:,} "
            "bytes, MD5 "
            f"{archive.md5}) where there is a network and put it, as it is or unpacked, into "
            f"{folder}. "
            f"The download said: {error}"
        ) from error
    finally:
        with contextlib.suppress(OSError):  # not there, or another process is downloading, too
            workshop.rmdir()
    return path


def require(archive: Archive, path: Path) -> None:
    """Refuse a file that is not the archive, byte for byte."""
    size, md5 = path.stat().st_size, checksum(path, "md5")
    if (size, md5) != (archive.size, archive.md5):
        what = "truncated, perhaps an interrupted download" if size < archive.size else "altered"
        raise InputError(
            f"{path} is {what}: expected {archive.size:,} bytes with MD5 {archive.md5}, found "
            f"{size:,} bytes "
            f"with MD5 {md5}. Delete it and fetch {archive.url} again"
        )


def members(path: Path, names: Iterable[str]) -> list[bytes]:
    """The contents of the named members of a tar archive, read in memory: nothing is unpacked to
    disk."""
    wanted = list(names)
    with tarfile.open(
        path
    ) as tar:  # one pass in the archive's own order: going back would inflate it again
        found = {m.name: tar.extractfile(m).read() for m in tar if m.name in wanted}  # type: ignore[union-attr]
    return [found[name] for name in wanted]
