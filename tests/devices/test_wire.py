"""Frames between processes: they come out as they went in, and nothing else comes in."""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from headwater.devices.wire import HEADER_LIMIT, Frame, WireError, ask, receive, send

KINDS = st.sampled_from(["<f4", "<f8", "<i8", "<i4", ">f4", ">i8"])
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
HEADERS = st.dictionaries(
    TEXTS.filter(lambda key: key != "arrays"), st.none() | st.integers(-9, 9) | TEXTS, max_size=3
)
ARRAYS = st.dictionaries(
    TEXTS,
    KINDS.flatmap(
        lambda kind: hnp.arrays(kind, hnp.array_shapes(min_dims=0, min_side=0, max_side=3))
    ),
    max_size=3,
)


@pytest.fixture
def pair():
    one, other = socket.socketpair()
    one.settimeout(10)
    other.settimeout(10)
    yield one, other
    one.close()
    other.close()


def raw(header, body=b"", announced=None):
    """A frame's bytes, right or wrong."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    length = len(body) if announced is None else announced
    return struct.pack(">I", len(text)) + text + struct.pack(">Q", length) + body


def transfer(frame):
    """Send in a thread: a large frame does not fit in the socket's buffer."""
    one, other = socket.socketpair()
    with one, other:
        sender = threading.Thread(target=send, args=(one, frame))
        sender.start()
        received = receive(other)
        sender.join()
    return received


@given(HEADERS, ARRAYS)
def test_a_frame_comes_out_as_it_went_in(header, arrays):
    got = transfer(Frame(header, arrays))
    assert got.header == header
    assert list(got.arrays) == list(arrays)
    for name, array in arrays.items():
        assert got.arrays[name].dtype == array.dtype.newbyteorder("<")
        assert got.arrays[name].shape == array.shape
        np.testing.assert_array_equal(got.arrays[name], array)


def test_a_frame_larger_than_the_sockets_buffer():
    parameters = np.arange(3_000_000, dtype=np.float32)
    np.testing.assert_array_equal(transfer(Frame({}, {"p": parameters})).arrays["p"], parameters)


def test_bytes_on_the_wire_are_those_of_the_contract(pair):
    send(pair[0], Frame({"do": "train"}, {"p": np.array([1, 2], ">i8")}))
    text = b'{"do": "train", "arrays": [{"name": "p", "dtype": "<i8", "shape": [2]}]}'
    body = struct.pack("<qq", 1, 2)
    expected = struct.pack(">I", len(text)) + text + struct.pack(">Q", 16) + body
    assert pair[1].recv(len(expected) + 1) == expected


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (struct.pack(">I", HEADER_LIMIT + 1), "announced"),
        (raw({}, announced=2**62), "announced"),
        (raw(b"{"), "no JSON"),
        (raw(b'{"a": NaN}'), "NaN is no JSON number"),
        (raw(b"[" * 100_000), "no JSON"),
        (raw([1]), "no JSON object"),
        (raw({"arrays": [{"name": "p", "dtype": "|O", "shape": [1]}]}, bytes(8)), "a list of"),
        (raw({"arrays": [{"name": "p", "dtype": "<f4", "shape": [-1]}]}, bytes(4)), "a list of"),
        (raw({"arrays": [{"name": "p", "dtype": "<f4", "shape": [True]}]}, bytes(4)), "a list of"),
        (raw({"arrays": [{"name": "p", "dtype": "<f4", "shape": [2]}]}, bytes(4)), "need 8 bytes"),
        (raw({"arrays": [{"name": "p", "dtype": "<f4", "shape": [0]}] * 2}), "twice"),
        (raw({}, bytes(4)), "need 0 bytes"),
    ],
)
def test_what_is_no_frame_is_refused_with_words(pair, sent, says):
    pair[0].sendall(sent)
    with pytest.raises(WireError, match=says):
        receive(pair[1])


def test_a_huge_body_is_refused_before_it_is_read(pair):
    pair[0].sendall(raw({"arrays": [{"name": "p", "dtype": "<f4", "shape": [100]}]}, announced=400))
    with pytest.raises(WireError, match="400 bytes announced; at most 399"):
        receive(pair[1], limit=399)


@pytest.mark.parametrize("kept", [0, 3, 10, -1])
def test_a_frame_that_breaks_off_is_an_error(pair, kept):
    whole = raw({"arrays": [{"name": "p", "dtype": "<f4", "shape": [1]}]}, bytes(4))
    pair[0].sendall(whole[:kept])
    pair[0].close()
    with pytest.raises(WireError, match="closed"):
        receive(pair[1])


@pytest.mark.parametrize("array", [np.array([None]), np.array(["a"]), np.array([1j])])
def test_other_arrays_are_never_sent(pair, array):
    with pytest.raises(WireError, match="is not one of"):
        send(pair[0], Frame({}, {"a": array}))


def test_ask_brings_the_reply(tmp_path):
    def answer():
        connection, _ = server.accept()
        with connection:
            asked = receive(connection)
            send(connection, Frame({"sum": float(asked.arrays["p"].sum()), **asked.header}))

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen()
        thread = threading.Thread(target=answer)
        thread.start()
        reply = ask(tmp_path / "s", Frame({"do": "describe"}, {"p": np.ones(4)}), timeout=30)
        thread.join()
    assert reply.header == {"sum": 4.0, "do": "describe"}


def test_a_node_that_does_not_answer_is_a_timeout(tmp_path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen()
        with pytest.raises(TimeoutError):
            ask(tmp_path / "s", Frame({}), timeout=0.05)


def test_asking_loads_no_torch():
    heavy = "[name for name in ('torch', 'pydantic', 'flwr') if name in sys.modules]"
    code = f"import sys, headwater.devices.wire; print({heavy})"
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "[]"
