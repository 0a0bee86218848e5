"""Shakespeare: what each role says, for predicting the next character, from LEAF's text files per
role.

The alphabet is Python's ``string.printable``, 100 characters. A role's text is read as one string;
runs of blanks become one, and what is not in the alphabet becomes a blank, LEAF's sign for the
unknown. Its first 80 % are for training, the rest for testing: a split in time, as LEAF's ``-t
sample`` makes it, with no character in both. Each part is cut into sequences of 80 characters,
whose targets are the characters that follow.
"""

from __future__ import annotations

import re
import string
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headwater.errors import InputError
from headwater.experiments.data.cache import Arrays, data_folder, parsed

Bytes = NDArray[np.uint8]
ALPHABET = string.printable
LENGTH = 80
IGNORE = -1
"""The target of a padded position: not to be counted in loss or accuracy."""
PAD = ALPHABET.index(" ")

_ALL_ROLES = 1_129  # in LEAF's paper; editions and ways to tell the speakers differ a little
_SHORTEST = 10  # characters, so that both parts have something to predict
_STRANGE = 0.01  # more unknown characters than this share make no play
_UNKNOWN = re.compile(f"[^{re.escape(ALPHABET)}]")
_CODES = np.full(128, PAD, np.uint8)
_CODES[[ord(c) for c in ALPHABET]] = np.arange(len(ALPHABET))
_PREPARE = (
    "There is no single official file to download. Get https://github.com/TalwalkarLab/leaf, run "
    "`./preprocess.sh -s niid --sf 1.0 -k 0 -t sample` in its data/shakespeare, and copy the "
    "folder "
    "data/shakespeare/data/raw_data/by_play_and_character to"
)


@dataclass(frozen=True, eq=False)
class Shakespeare:
    """Sequences (N, 80), their next characters (N, 80), and each one's role as an index into
    ``names``.

    Characters are indices into `ALPHABET`; targets are int8, `IGNORE` where the sequence is padded.
    Padding is at the end, so that it changes nothing before it. Rows are ordered by role and time,
    roles by name; roles with fewer than two lines are left out. ``complete`` if there are at least
    as many roles as in LEAF's paper (1,129).
    """

    inputs: Bytes
    targets: NDArray[np.int8]
    client: NDArray[np.int32]
    test_inputs: Bytes
    test_targets: NDArray[np.int8]
    test_client: NDArray[np.int32]
    names: NDArray[np.str_]
    complete: bool


def load_shakespeare(folder: Path | None = None) -> Shakespeare:
    """Shakespeare from ``shakespeare/by_play_and_character`` in ``folder`` (default: the user's
    cache)."""
    where = data_folder(folder) / "shakespeare" / "by_play_and_character"
    sources = sorted(where.glob("*.txt"))
    if not sources:
        raise InputError(
            f"{where} holds no *.txt: the roles' texts are missing. {_PREPARE} {where.parent}"
        )
    arrays = parsed("shakespeare", sources, lambda: _parse(sources))
    return Shakespeare(**arrays, complete=len(arrays["names"]) >= _ALL_ROLES)


def encode(text: str) -> Bytes:
    """Characters as indices into `ALPHABET`; unknown ones as blanks.

    >>> encode("To é").tolist()
    [55, 24, 94, 94]
    """
    return _CODES[np.frombuffer(_UNKNOWN.sub(" ", text).encode("ascii"), np.uint8)]


def decode(codes: NDArray[np.integer]) -> str:
    """The text of indices; padding among targets is left out.

    >>> decode(np.array([55, 24, IGNORE]))
    'To'
    """
    return "".join(ALPHABET[c] for c in codes if c != IGNORE)


def sequences(codes: Bytes) -> tuple[Bytes, NDArray[np.int8]]:
    """A text cut into inputs and targets (n, 80): each character but the first is a target exactly
    once.

    >>> inputs, targets = sequences(encode("x" * 80 + "yz"))
    >>> [decode(t) for t in targets] == ["x" * 79 + "y", "z"], decode(inputs[1]).rstrip()
    (True, 'y')
    """
    rows = -(-(len(codes) - 1) // LENGTH)
    inputs = np.full(rows * LENGTH, PAD, np.uint8)
    targets = np.full(rows * LENGTH, IGNORE, np.int8)
    inputs[: len(codes) - 1], targets[: len(codes) - 1] = codes[:-1], codes[1:]
    return inputs.reshape(rows, LENGTH), targets.reshape(rows, LENGTH)


def _parse(sources: list[Path]) -> Arrays:
    texts = {path.stem: _text(path) for path in sources}
    roles = {n: encode(t) for n, t in texts.items() if t.count("\n") and len(t) >= _SHORTEST}
    if not roles:
        raise InputError(
            f"{sources[0].parent} holds no role with two lines. {_PREPARE} {sources[0].parents[1]}"
        )
    cuts = {name: len(codes) * 4 // 5 for name, codes in roles.items()}
    train = _rows([codes[: cuts[name]] for name, codes in roles.items()])
    test = _rows([codes[cuts[name] :] for name, codes in roles.items()])
    return (
        train
        | {f"test_{name}": array for name, array in test.items()}
        | {"names": np.array(list(roles))}
    )


def _rows(texts: list[Bytes]) -> Arrays:
    inputs, targets = zip(*map(sequences, texts), strict=True)
    client = np.repeat(np.arange(len(texts), dtype=np.int32), [len(i) for i in inputs])
    return {"inputs": np.concatenate(inputs), "targets": np.concatenate(targets), "client": client}


def _text(path: Path) -> str:
    """A role's lines, empty ones left out."""
    size = f"{path.stat().st_size:,} bytes"
    again = f"{size}. Delete it, or prepare it again: {_PREPARE} {path.parents[1]}"
    try:
        raw = path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is altered or no text ({error}): found {again}") from error
    if not raw.strip():
        raise InputError(f"{path} is empty: expected a role's lines, found {again}")
    unknown = len(_UNKNOWN.findall(raw))
    if unknown > 1 + _STRANGE * len(raw):
        raise InputError(
            f"{path} is altered or no play: {unknown:,} unknown characters among {again}"
        )
    lines = (re.sub(" +", " ", line).strip() for line in raw.splitlines())
    return "\n".join(line for line in lines if line)
