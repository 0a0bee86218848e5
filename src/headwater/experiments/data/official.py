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
    """A file that somebody publishes.

    Attributes:
        url: Its address.
        size: Its size in bytes; None if that is not known.
        md5: Its MD5 as published; None if none is, so that its contents must be checked instead.
    """

    url: str
    size: int | None
    md5: str | None

    @property
    def name(self) -> str:
        """The file's own name.

        >>> Archive("https://example.org/a/b.tar.gz", 3, "900150983cd24fb0d6963f7d28e17f72").name
        'b.tar.gz'
        """
        return self.url.rsplit("/", 1)[1]

    @property
    def words(self) -> str:
        """Address, size and checksum, as far as they are known.

        >>> Archive("https://example.org/b.tar.gz", 3000, "9001").words
        'https://example.org/b.tar.gz (3,000 bytes, MD5 9001)'
        """
        if self.size is None:
            return self.url
        return f"{self.url} ({self.size:,} bytes, MD5 {self.md5})"


def checksum(path: Path, algorithm: str) -> str:
    """The hexadecimal digest of a file.

    >>> import os; checksum(Path(os.devnull), "md5")
    'd41d8cd98f00b204e9800998ecf8427e'
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def fetch(archive: Archive, folder: Path) -> Path:
    """The archive in ``folder``: the one that lies there, or else a download.

    A download goes to a temporary file in a folder of its own and is moved into place only when its
    MD5 is right. One that lies there already is not looked into here (see `require`).
    """
    path, workshop = folder / archive.name, folder / f".{archive.name}.download"
    if path.exists():
        return path
    sweep(workshop, "*")
    known = archive.md5 and f"md5:{archive.md5}"
    try:
        os.replace(pooch.retrieve(archive.url, known, archive.name, workshop), path)
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} is missing and its download failed. Fetch {archive.words} where there is a "
            f"network and put it, as it is or unpacked, into {folder}. The download said: {error}"
        ) from error
    finally:
        # The folder may not be there, or another process may be downloading into it, too.
        with contextlib.suppress(OSError):
            workshop.rmdir()
    return path


def require(archive: Archive, path: Path) -> None:
    """Refuse a file that is not the archive, byte for byte."""
    size, md5 = path.stat().st_size, checksum(path, "md5")
    if (size, md5) != (archive.size, archive.md5):
        short = archive.size is not None and size < archive.size
        what = "truncated, perhaps an interrupted download" if short else "altered"
        raise InputError(
            f"{path} is {what}: expected {archive.size:,} bytes with MD5 {archive.md5}, found "
            f"{size:,} bytes with MD5 {md5}. Delete it and fetch {archive.url} again"
        )


def members(path: Path, names: Iterable[str]) -> list[bytes]:
    """The contents of some members of a tar archive; nothing is unpacked to disk."""
    wanted = list(names)
    # One pass in the archive's own order: going back would inflate it again.
    with tarfile.open(path) as tar:
        opened = ((m.name, tar.extractfile(m)) for m in tar if m.name in wanted)
        found = {name: file.read() for name, file in opened if file is not None}
    missing = [name for name in wanted if name not in found]
    if missing:
        raise InputError(f"{path} holds no {missing[0]}; delete it and fetch it again")
    return [found[name] for name in wanted]
