"""From messages to samples: what is right gets in, what is not is named, nothing crashes."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from intakes import held, open_intake
from nodes import node_settings

from headwater.devices.intake import flat
from headwater.devices.intake.mapping import SampleMapping
from headwater.devices.intake.seen import SeenIds
from headwater.devices.settings.samples import SampleSettings

FLAT = SampleSettings(features=("a", "b"), label="y", classes=3, id="id", time="t")


def message(**fields):
    return json.dumps(fields).encode()


def mapped(settings, *messages):
    return SampleMapping(settings).map(messages)


def problem(settings, raw):
    """Why one message is wrong."""
    result = mapped(settings, raw)
    assert not result.parts
    ((_, reason),) = result.wrong
    return reason


def test_fields_become_features_and_labels():
    result = mapped(FLAT, message(a=1, b=2.5, y=2, id=7, t=12.5), message(a="3", b=4, y="0"))
    (rows,) = result.parts
    np.testing.assert_array_equal(rows.x, [[1, 2.5], [3, 4]])
    assert rows.y.tolist() == [2, 0]
    assert rows.ids == ["7", None]
    assert rows.times == [12.5, None]


def test_scaling_is_by_mean_or_range():
    scaling = {"a": {"mean": 10, "scale": 4}, "b": {"range": [-1, 1]}, "y": {"scale": 100}}
    settings = SampleSettings(features=("a", "b"), label="y", scaling=scaling)
    for pair in ([message(a=14, b=0, y=50)], [message(a=14, b=0, y=50), b"{"]):
        rows = mapped(settings, *pair).parts[0]
        assert rows.x.tolist() == [[1.0, 0.5]]
        assert rows.y.tolist() == [0.5]


def test_a_scaled_label_is_held_to_the_scaled_range():
    settings = SampleSettings(
        features=("a",), label="y", label_range=(0, 200), scaling={"y": {"mean": 100, "scale": 50}}
    )
    assert settings.sample_schema.low == -2
    assert mapped(settings, message(a=1, y=200)).parts[0].y.tolist() == [2]
    assert problem(settings, message(a=1, y=201)) == "label 2.02 above 2"


def test_names_with_dots_lead_into_objects():
    settings = SampleSettings(features=("s.a", "s.b"), label="out.y", classes=("no", "yes"))
    raw = message(s={"a": 1, "b": 2}, out={"y": "yes"})
    assert mapped(settings, raw).parts[0].x.tolist() == [[1, 2]]
    assert mapped(settings, raw).parts[0].y.tolist() == [1]
    assert problem(settings, message(s=[1, 2], out={"y": "yes"})) == "field 's.a' is missing"


def test_one_field_may_have_an_array():
    settings = SampleSettings(
        features="image", shape=(2, 2), label="y", classes=2, scaling={"image": {"range": [0, 255]}}
    )
    rows = mapped(settings, message(image=[[0, 255], [51, 0]], y=1)).parts[0]
    np.testing.assert_allclose(rows.x, [[[0, 1], [0.2, 0]]])
    assert "shape (3,), expected (2, 2)" in problem(settings, message(image=[1, 2, 3], y=1))
    assert "no number" in problem(settings, message(image=[[1, 2], [3]], y=1))


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"[1, 2]", "not a JSON object"),
        (b"[" * 50_000, "not JSON"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not JSON"),
        (b" " * 70_000, "70000 bytes, at most 65536"),
        (message(a=1, y=0), "field 'b' is missing"),
        (message(a=1, b=None, y=0), "field 'b' is missing"),
        (message(a=1, b="", y=0), "field 'b' is missing"),
        (message(a=1, b=2), "field 'y' is missing"),
        (message(a=1, b="x", y=0), "a feature is no number"),
        (message(a=1, b=[2], y=0), "a feature is no"),
        (message(a=1, b={}, y=0), "a feature is no number"),
        (b'{"a": 1, "b": NaN, "y": 0}', "NaN, infinite"),
        (b'{"a": 1, "b": 1e999, "y": 0}', "NaN, infinite"),
        (b'{"a": 1, "b": 1e300, "y": 0}', "not to be stored as float32"),
        (b'{"a": 1, "b": 2, "y": NaN}', "label is NaN"),
        (message(a=1, b=2, y=3), "label 3 above 2"),
        (message(a=1, b=2, y=-1), "label -1 below 0"),
        (message(a=1, b=2, y=0.5), "no whole number"),
        (message(a=1, b=2, y=[0]), "label"),
        (message(a=10**400, b=2, y=0), "a feature is no number"),
    ],
)
def test_what_is_no_sample_is_named(raw, says):
    assert says in problem(FLAT, raw)


ARRAY = np.zeros(2)


@pytest.mark.parametrize(
    "record",
    [
        {"a": ARRAY, "b": 2, "y": 0},
        {"a": 1, "b": 2, "y": ARRAY},
        {"a": ARRAY, "b": 2, "y": 0, "id": ARRAY, "t": ARRAY},
    ],
)
def test_an_array_in_a_record_of_numbers_is_a_wrong_message(record):
    right = {"a": 1, "b": 2, "y": 0, "id": "p"}
    result = mapped(FLAT, right, record, right)
    assert [len(rows) for rows in result.parts] == [1, 1]
    assert len(result.wrong) == 1


def test_an_id_may_be_an_array():
    (rows,) = mapped(FLAT, {"a": 1, "b": 2, "y": 0, "id": ARRAY, "t": ARRAY}).parts
    assert (rows.ids, rows.times) == (["[0. 0.]"], [None])


@pytest.fixture(params=["msgspec", "pydantic"])
def reader(request, monkeypatch):
    """Both ways to read JSON: the quick one, and the one that is always there."""
    if request.param == "pydantic":
        monkeypatch.setattr(flat, "msgspec", None)
    else:
        pytest.importorskip("msgspec", reason="headwater[devices] has it")
    return request.param


@pytest.mark.usefixtures("reader")
def test_a_wrong_message_does_not_hurt_its_neighbours():
    right = [message(a=k, b=k / 3, y=k % 3, id=k, t=100 + k, more=[{"z": k}]) for k in range(50)]
    wrong = {7: b"{", 8: message(a=1), 30: message(a=1, b="x", y=0), 49: b"\xff" * 70_000}
    messages = [wrong.get(k, raw) for k, raw in enumerate(right)]
    result = mapped(FLAT, *messages)
    kept = [k for k in range(50) if k not in wrong]
    assert [raw for raw, _ in result.wrong] == list(wrong.values())
    x = np.concatenate([rows.x for rows in result.parts])
    np.testing.assert_array_equal(x, [[k, k / 3] for k in kept])
    assert [id for rows in result.parts for id in rows.ids] == [str(k) for k in kept]
    assert [time for rows in result.parts for time in rows.times] == [100.0 + k for k in kept]


@pytest.mark.usefixtures("reader")
def test_names_of_classes_and_odd_field_names():
    settings = SampleSettings(
        features=("air temp", "class"), label="d'être", classes=("no", "yes"), id="self"
    )
    raw = message(**{"air temp": 1, "class": "2.5", "d'être": "yes", "self": ""})
    (rows,) = mapped(settings, raw, raw).parts
    assert rows.x.tolist() == [[1, 2.5]] * 2
    assert rows.y.tolist() == [1, 1]
    assert rows.ids == [None, None]


NUMBER = st.floats() | st.integers(-(10**30), 10**30) | st.sampled_from(["1.5", "nan", True, None])


@given(st.lists(st.fixed_dictionaries({"a": NUMBER, "b": NUMBER, "y": st.integers(-1, 3)})))
@settings(deadline=None)
def test_both_readers_give_the_same_rows(records):
    pytest.importorskip("msgspec", reason="headwater[devices] has it")
    raw = [json.dumps(record).encode() for record in records]
    quick = SampleMapping(FLAT).map(raw)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flat, "msgspec", None)
        plain = SampleMapping(FLAT).map(raw)
    assert quick.wrong == plain.wrong
    for name in ("x", "y"):
        bits = [b"".join(getattr(r, name).tobytes() for r in m.parts) for m in (quick, plain)]
        assert bits[0] == bits[1]


ODD = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
ODD |= st.lists(st.integers(), max_size=2) | st.just("1.5") | st.just(2)
RIGHT = st.fixed_dictionaries(
    {"a": st.integers(-9, 9), "b": st.floats(-9, 9), "y": st.integers(0, 2)}
)
WRONG = st.dictionaries(st.sampled_from(["a", "b", "y", "id", "t", "z"]), ODD)


JSON = (RIGHT | WRONG).map(lambda record: json.dumps(record).encode())
MESSAGES = st.lists(RIGHT | WRONG, max_size=6) | st.lists(JSON | st.binary(max_size=9), max_size=9)


@given(MESSAGES, st.integers(0, 9))
@settings(deadline=None)
def test_many_at_once_are_as_one_by_one(messages, late):
    """The fast way for whole batches decides as the slow way does, for whatever senders write."""
    settings = FLAT.model_copy(update={"late_labels": late})
    mapping = SampleMapping(settings)
    together = mapping.map(messages)
    alone = [mapping.map([message]) for message in messages]
    assert repr(together.wrong) == repr([wrong for one in alone for wrong in one.wrong])
    flat = [
        [
            (
                *(None if h is None else h[k].tolist() for h in (rows.x, rows.y)),
                rows.ids[k],
                rows.times[k],
            )
            for rows in some
            for k in range(len(rows))
        ]
        for some in (together.parts, [rows for one in alone for rows in one.parts])
    ]
    assert flat[0] == flat[1]


@given(st.lists(JSON | st.binary(max_size=9), max_size=9))
@settings(deadline=None, max_examples=30)
def test_a_batch_leaves_on_disk_what_its_messages_would_leave_one_by_one(messages):
    """Samples with ids, dead letters with reasons, and all counters."""
    found = []
    for batches in ([messages], [[message] for message in messages]):
        with tempfile.TemporaryDirectory() as folder:
            intake = open_intake(node_settings(Path(folder), samples=FLAT.model_dump()))
            for batch in batches:
                intake.take(batch)
            rows = intake.memory.database.rows
            samples = rows("SELECT slot, position, id, round, x, y FROM sample ORDER BY slot")
            state = rows("SELECT name, value FROM state ORDER BY name")
            found.append((samples, state, intake.dead_letters.all()))
            intake.memory.database.close()
    assert found[0] == found[1]


@given(st.binary(max_size=60) | WRONG.map(lambda r: json.dumps(r).encode()))
@settings(deadline=None)
def test_no_message_crashes(raw):
    result = SampleMapping(FLAT).map([raw])
    assert len(result.parts) + len(result.wrong) == 1


@pytest.fixture
def intake(tmp_path):
    samples = {
        "features": ["a", "b", "c"],
        "label": "label",
        "classes": 3,
        "id": "id",
        "late_labels": 3,
    }
    made = open_intake(node_settings(tmp_path / "n", samples=samples))
    yield made
    made.memory.database.close()


def test_a_late_label_joins_its_sample(intake):
    intake.take([message(id="p", a=1, b=2, c=3), message(id="q", a=4, b=5, c=6)])
    assert (intake.memory.arrived, len(intake.waiting)) == (0, 2)
    intake.take([message(id="q", label=2), message(a=7, b=8, c=9, label=0, id="r")])
    assert held(intake) == [4, 7]
    intake.take([message(id="p", label=1)])
    assert held(intake) == [4, 7, 1]
    assert intake.memory.snapshot().y.tolist() == [2, 0, 1]
    assert len(intake.waiting) == 0


def test_the_waiting_are_few_and_a_label_for_nobody_is_a_dead_letter(intake):
    intake.take([message(id=str(k), a=k, b=0, c=0) for k in range(5)])
    assert len(intake.waiting) == 3
    assert intake.memory.state.number("unlabelled") == 2
    intake.take([message(id=str(k), label=1) for k in range(5)])
    assert held(intake) == [2, 3, 4]
    assert [reason for reason, _ in intake.dead_letters.all()] == [
        "no sample waits for this label"
    ] * 2


def test_a_sample_without_label_and_id_cannot_wait(intake):
    intake.take([message(a=1, b=2, c=3)])
    assert intake.memory.state.number("malformed") == 1


@pytest.fixture
def once(tmp_path):
    samples = {"features": ["a", "b", "c"], "label": "label", "classes": 3, "id": "id", "once": 3}
    made = open_intake(node_settings(tmp_path / "n", samples=samples))
    yield made
    made.memory.database.close()


def numbered(*ids):
    return [message(id=id, a=k, b=0, c=0, label=0) for k, id in enumerate(ids)]


def test_a_sample_that_comes_again_is_not_taken_again(once, caplog):
    once.take(numbered("p", "q", "p"))
    once.take(numbered("q", 7, 7.5, "p"))  # an id is what it is written as
    assert held(once) == [0, 1, 1, 2]
    once.take(numbered("7.5"))
    assert held(once) == [0, 1, 1, 2]
    state = once.memory.state
    assert (state.number("repeated"), state.number("malformed"), state.number("messages")) == (
        4,
        0,
        8,
    )
    told = [record for record in caplog.records if record.message == "sample came again"]
    assert len(told) == 1  # one in ten seconds


def test_only_the_newest_ids_are_known_and_who_has_none_is_taken(once):
    once.take(numbered("p", "q", "r", "s"))
    once.take(numbered("p", "s"))  # p is the fourth last, and forgotten
    once.take([message(a=9, b=0, c=0, label=0)] * 2)
    assert held(once) == [0, 1, 2, 3, 0, 9, 9]
    assert once.memory.database.rows("SELECT COUNT(*) FROM seen_id") == [(3,)]


def test_repeated_ids_push_no_other_out(once):
    once.take(numbered("p", "q", "r"))
    for _ in range(5):
        once.take(numbered("r", "q", "p", "p"))
    once.take(numbered("s", "s"))
    once.take(numbered("q", "r", "s"))
    assert held(once) == [0, 1, 2, 0]
    once.take(numbered("p"))  # the one that s took the place of
    assert held(once) == [0, 1, 2, 0, 0]


def test_ids_of_a_table_with_gaps_are_known_still(once):
    once.take(numbered("p", "q", "r"))
    database = once.memory.database
    with database.transaction() as connection:
        connection.execute(
            "CREATE TABLE seen (number INTEGER PRIMARY KEY AUTOINCREMENT, digest INTEGER UNIQUE)"
        )
        connection.execute("INSERT INTO seen SELECT number * 100, digest FROM seen_id")
        connection.execute("DELETE FROM seen_id")
    assert SeenIds(database, 3).new(["q", "s", "r"]) == [1]
    assert SeenIds(database, 3).new(["q", "r", "s"]) == []


def test_an_id_is_forgotten_with_the_transaction_of_its_sample(once):
    def fail():
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="gone"):
        once.take(numbered("p"), fail)
    once.take(numbered("p"))
    assert held(once) == [0]


def test_once_needs_an_id_and_a_stream(tmp_path):
    samples = {"features": ["a", "b", "c"], "label": "label", "classes": 3, "once": 3}
    with pytest.raises(ValueError, match="once knows samples again by it; name the field"):
        node_settings(tmp_path, samples=samples)
    by_rounds = {"kind": "csv", "path": "x.csv", "arrivals": {"kind": "once"}}
    with pytest.raises(ValueError, match=r"samples\.once: a recording that comes by rounds"):
        node_settings(tmp_path, samples=samples | {"id": "id"}, source=by_rounds)


def test_a_hundred_thousand_malformed_messages_are_counted_and_forgotten(intake, caplog):
    junk = [b"{", message(a=1), b"\x00" * 3000, message(id="x", a=1, b=2, c=3, label=9)]
    intake.take(junk * 64)
    before = resident()
    for _ in range(391):
        intake.take(junk * 64)
    assert intake.memory.state.number("malformed") == 392 * 256 > 100_000
    assert resident() - before < 8e6  # the messages themselves have 76 MB
    assert intake.memory.arrived == 0
    letters = intake.dead_letters.all()
    assert len(letters) == 100
    assert max(len(raw) for _, raw in letters) == 2048
    assert letters[-1][0] == "label 9 above 2"
    told = [record for record in caplog.records if record.message == "malformed message"]
    assert 1 <= len(told) <= 30  # one in ten seconds, not one for each
    intake.take([{"id": "\ud800", "a": 1, "b": 2, "c": 3, "label": 1}])  # half a surrogate pair
    assert held(intake) == [1]


def resident():
    """Bytes of this process in RAM."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
