"""How a process on the same machine talks to a resident node: one frame asks, one frame answers.

A frame is a JSON header and the bytes of some arrays, over a Unix domain socket:

    uint32 header length | header (JSON, UTF-8) | uint64 body length | body

The lengths are big-endian. ``header["arrays"]`` lists name, dtype and shape of each array; the
body is their little-endian bytes, one array after the other. Both lengths are checked before
anything of that length is read, and nothing that comes in is ever executed: no pickle. NumPy is all
this module needs, so a short-lived process can ask a node without loading PyTorch.
"""

from __future__ import annotations

import json
import math
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

JSON = None | bool | int | float | str | list[Any] | dict[str, Any]
Array = NDArray[Any]

BODY_LIMIT = 1 << 28  # bytes of arrays: 67 million float32 parameters
HEADER_LIMIT = 1 << 20  # bytes of JSON
_DTYPES = ("<f4", "<f8", "<i8", "<i4")  # what a frame may carry; objects never
_HEADER, _BODY = struct.Struct(">I"), struct.Struct(">Q")


class WireError(ConnectionError):
    """The other side broke off, or sent something that is no frame."""


class TooLongError(WireError):
    """A frame whose arrays have more bytes than are read here."""

    def __init__(self, length: int, limit: int) -> None:
        super().__init__(f"body of {length} bytes announced; at most {limit}")
        self.length = length


@dataclass(frozen=True)
class Frame:
    """A request or a reply.

    Attributes:
        header: what is asked or answered; "arrays" is reserved.
        arrays: named arrays of float32, float64, int32 or int64.
    """

    header: Mapping[str, JSON]
    arrays: Mapping[str, Array] = field(default_factory=dict)

    @classmethod
    def refusal(cls, code: str, message: str) -> Frame:
        """The reply to a request that cannot be done."""
        return cls({"error": code, "message": message})


def send(sock: socket.socket, frame: Frame) -> None:
    """Write one frame."""
    arrays = {name: _little(name, array) for name, array in frame.arrays.items()}
    table = [
        {"name": name, "dtype": array.dtype.str, "shape": list(array.shape)}
        for name, array in arrays.items()
    ]
    header = json.dumps({**frame.header, "arrays": table}, allow_nan=False).encode()
    if len(header) > HEADER_LIMIT:
        raise WireError(f"header of {len(header)} bytes; at most {HEADER_LIMIT}")
    length = sum(array.nbytes for array in arrays.values())
    sock.sendall(_HEADER.pack(len(header)) + header + _BODY.pack(length))
    for array in arrays.values():
        if array.size:
            sock.sendall(array.data.cast("B"))


def receive(sock: socket.socket, limit: int = BODY_LIMIT) -> Frame:
    """Read one frame whose arrays have at most ``limit`` bytes together.

    The arrays are views of one buffer: they are copied once, from the socket.

    >>> one, other = socket.socketpair()
    >>> send(one, Frame({"do": "train", "round": 3}, {"parameters": np.ones(2, np.float32)}))
    >>> frame = receive(other)
    >>> frame.header, frame.arrays
    ({'do': 'train', 'round': 3}, {'parameters': array([1., 1.], dtype=float32)})
    >>> one.close(), other.close()
    (None, None)
    """
    (length,) = _HEADER.unpack(_exactly(sock, _HEADER.size))
    if length > HEADER_LIMIT:
        raise WireError(f"header of {length} bytes announced; at most {HEADER_LIMIT}")
    header = _parse(_exactly(sock, length))
    (body_length,) = _BODY.unpack(_exactly(sock, _BODY.size))
    if body_length > limit:
        raise TooLongError(body_length, limit)
    shapes = _shapes(header.pop("arrays", []), body_length)
    return Frame(header, _split(_exactly(sock, body_length), shapes))


def ask(path: Path | str, frame: Frame, timeout: float | None = None) -> Frame:
    """Ask the node behind a socket and wait for its reply.

    Args:
        path: the node's socket.
        frame: the request.
        timeout: seconds without a byte after which ``TimeoutError`` is raised; None: no limit.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(timeout)
        sock.connect(str(path))
        try:
            send(sock, frame)
        except (BrokenPipeError, ConnectionResetError) as gone:
            # a request that is refused unread is answered before all of it was sent
            try:
                return receive(sock)
            except ConnectionError:
                raise gone from None  # there was no answer: the node has died
        return receive(sock)


def _little(name: str, array: Array) -> Array:
    """The array as it lies on the wire."""
    if array.dtype.newbyteorder("<").str not in _DTYPES:
        raise WireError(f"array {name!r}: {array.dtype} is not one of {', '.join(_DTYPES)}")
    # ascontiguousarray makes a one-entry array of a scalar; the shape is put back
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(array.shape)


def _parse(text: bytes | bytearray) -> dict[str, Any]:
    try:
        header = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise WireError(f"the header is no JSON: {error}") from None
    if not isinstance(header, dict):
        raise WireError("the header is no JSON object")
    return header


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _shapes(table: object, body_length: int) -> list[tuple[str, np.dtype[Any], tuple[int, ...]]]:
    """The announced arrays, if they fill the body exactly."""
    if not isinstance(table, list) or not all(map(_announces_array, table)):
        raise WireError('"arrays": a list of {name, dtype, shape}, dtype one of ' + str(_DTYPES))
    shapes = [(row["name"], np.dtype(row["dtype"]), tuple(row["shape"])) for row in table]
    if len({name for name, _, _ in shapes}) != len(shapes):
        raise WireError('"arrays": a name is there twice')
    needed = sum(dtype.itemsize * math.prod(shape) for _, dtype, shape in shapes)
    if needed != body_length:
        raise WireError(f'"arrays" need {needed} bytes, the body has {body_length}')
    return shapes


def _announces_array(row: object) -> bool:
    return (
        isinstance(row, dict)
        and isinstance(row.get("name"), str)
        and row.get("dtype") in _DTYPES
        and isinstance(row.get("shape"), list)
        and len(row["shape"]) <= 32
        and all(type(length) is int and 0 <= length < 1 << 48 for length in row["shape"])
    )


def _split(
    body: bytearray, shapes: list[tuple[str, np.dtype[Any], tuple[int, ...]]]
) -> dict[str, Array]:
    arrays, start = {}, 0
    for name, dtype, shape in shapes:
        count = math.prod(shape)
        arrays[name] = np.frombuffer(body, dtype, count, start).reshape(shape)
        start += dtype.itemsize * count
    return arrays


def _exactly(sock: socket.socket, count: int) -> bytearray:
    """The next ``count`` bytes."""
    buffer = bytearray(count)
    view = memoryview(buffer)
    while view:
        got = sock.recv_into(view)
        if not got:
            raise WireError(f"the other side closed, {len(view)} bytes before the end of a frame")
        view = view[got:]
    return buffer
