"""How samples could look on a wire, and where they are found."""

from __future__ import annotations

import base64
import json
from itertools import pairwise

import numpy as np


def found(x, y, sent):
    """The names of all forms in which some of these samples are in the bytes."""
    return sorted({name for name, trace in traces(x, y) if trace in sent})


def traces(x, y):
    """Values and neighbours as numbers of several types, as text, and as base64; labels in a row.

    Two neighbours are looked for as float32 and not one value, which has four bytes only: among a
    million random bytes some value would be there by chance.
    """
    for row in x:
        yield from _neighbours(row)
        for value in row:
            yield "float64", np.float64(value).tobytes()
            # Ten digits and more: fewer are in some loss or rate by chance, once in twenty runs.
            yield "text", repr(float(value))[:13].encode()
        for one, other in pairwise(row):  # rounded ones, two in a row
            yield "text", f"{one:.6g},{other:.6g}".encode()
            yield "text", f"{one:.6g}, {other:.6g}".encode()
    for column in x.T:
        yield from _neighbours(column)
    for kind in ("<i8", "<i4", "u1", "<f4", "<f8"):
        yield "labels", y.astype(kind).tobytes()
    yield "labels", json.dumps(y.tolist()).encode()
    yield "labels", "".join(str(int(label)) for label in y).encode()


def _neighbours(values):
    for pair in np.lib.stride_tricks.sliding_window_view(values, 2):
        plain = pair.astype("<f4").tobytes()
        yield "float32", plain
        yield "float32", pair.astype(">f4").tobytes()
        # Wherever it begins within the text, some of its bytes are whole groups of three.
        yield from (("base64", base64.b64encode(plain[k : k + 6])) for k in range(3))
