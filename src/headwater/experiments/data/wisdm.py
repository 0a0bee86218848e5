"""WISDM activity prediction v1.1 (Kwapisz, Weiss, Moore 2010): what 36 phone users do, from ARFF.

The official archive holds the transformed file: a row is ten seconds of a phone's accelerometer as
43 numbers, with its user and one of six activities. A user's rows come in the order of recording.
Three numbers, the times between peaks, are unknown (``?``) where too few peaks were found.
"""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headwater.errors import InputError
from headwater.experiments.data.cache import Arrays, data_folder, parsed
from headwater.experiments.data.official import Archive, fetch, members

ACTIVITIES = ("Walking", "Jogging", "Upstairs", "Downstairs", "Sitting", "Standing")
FEATURES = 43
_FOLDER = "WISDM_ar_v1.1"
_FILE = "WISDM_ar_v1.1_transformed.arff"
_ZIP = "WISDM_ar_v1.1_transformed.zip"
_SHA256 = "8cb3fbbad6398ac4b817cc7b98f387efa89ac24b26d1270a5e7a1049a8f9c31a"
_COLUMNS = FEATURES + 3  # the row's number, the user, the features, the activity
# The publisher gives no checksum of the archive: what is checked is the file within it.
_ARCHIVE = Archive(
    "https://www.cis.fordham.edu/wisdm/includes/datasets/latest/WISDM_ar_latest.tar.gz", None, None
)


@dataclass(frozen=True, eq=False)
class Wisdm:
    """Windows of ten seconds, ordered by user and, within a user, by time.

    Attributes:
        features: 43 numbers per window, float32 (N, 43); NaN where unknown.
        labels: Indices into `ACTIVITIES`.
        client: Each window's user, as an index into ``names``.
        names: The users' numbers in the file.
        complete: Whether the file is the whole original.
    """

    features: NDArray[np.float32]
    labels: NDArray[np.int64]
    client: NDArray[np.int32]
    names: NDArray[np.str_]
    complete: bool


def load_wisdm(folder: Path | None = None) -> Wisdm:
    """WISDM from ``folder`` (default: the user's cache).

    Taken is the first that is there: ``WISDM_ar_v1.1/WISDM_ar_v1.1_transformed.arff``, that file in
    ``WISDM_ar_v1.1_transformed.zip``, the official archive, or a download of it.
    """
    source = _source(data_folder(folder))
    arrays = dict(parsed("wisdm", [source], lambda: _parse(source)))
    return Wisdm(complete=bool(arrays.pop("complete")), **arrays)


def _source(folder: Path) -> Path:
    for name in (f"{_FOLDER}/{_FILE}", _ZIP):
        if (folder / name).exists():
            return folder / name
    if (folder / _FILE).exists():
        return folder / _FILE
    return fetch(_ARCHIVE, folder)


def _parse(source: Path) -> Arrays:
    content = _content(source).replace(b"\r\n", b"\n")
    complete = hashlib.sha256(content).hexdigest() == _SHA256
    if source.name == _ARCHIVE.name and not complete:
        raise InputError(
            f"{source} does not hold the known {_FILE} (SHA-256 {_SHA256}). Delete it and fetch it "
            f"again; to use that file all the same, unpack it to {source.parent / _FOLDER}"
        )
    users, features, labels = _columns(_rows(content, source), source)
    names, client = np.unique(users, return_inverse=True)
    # Stable: within a user windows stay in the order of the file, which is that of time.
    order = np.argsort(client, kind="stable")
    return {
        "features": features[order],
        "labels": labels[order],
        "client": client[order].astype(np.int32),
        "names": names,
        "complete": np.array(complete),
    }


def _content(source: Path) -> bytes:
    if source.suffix == ".zip":
        with zipfile.ZipFile(source) as archive:
            return archive.read(_FILE)
    if source.name == _ARCHIVE.name:
        return members(source, [f"{_FOLDER}/{_FILE}"])[0]
    return source.read_bytes()


def _rows(content: bytes, source: Path) -> list[list[str]]:
    """The rows of the ARFF file, each with its right number of columns and a known activity."""
    _, found, data = content.decode("utf-8", "replace").partition("@data\n")
    rows = [line.split(",") for line in data.splitlines() if line.strip()]
    if not found or not rows:
        raise InputError(f"{source} has no rows after @data: it is truncated or no ARFF file")
    for number, row in enumerate(rows, 1):
        if len(row) != _COLUMNS or row[-1].strip() not in ACTIVITIES:
            raise InputError(
                f"{source}, row {number} after @data: expected {_COLUMNS} columns, the last one of "
                f"{', '.join(ACTIVITIES)}; found {len(row)}, the last {row[-1]!r}. Fetch it again"
            )
    return rows


def _columns(
    rows: list[list[str]], source: Path
) -> tuple[NDArray[np.str_], NDArray[np.float32], NDArray[np.int64]]:
    users = np.array([row[1].strip('" ') for row in rows])
    labels = np.array([ACTIVITIES.index(row[-1].strip()) for row in rows], np.int64)
    try:
        features = np.array(
            [[np.nan if v == "?" else float(v) for v in row[2:-1]] for row in rows], np.float32
        )
    except ValueError as error:
        raise InputError(f"{source} is altered: {error}. Fetch it again") from error
    return users, features, labels
