"""Fleet files: what is read, and what is said about a file that cannot be."""

import csv
import io
import math

import numpy as np
import pytest

from headwater import InputError
from headwater.fleet import read

CSV = """client,samples,fresh,rate,capacity,count
server,5000,no,,,
sensor,800,yes,8,16,1000
"""
TOML = """
[[client]]
client = "server"
samples = 5000
fresh = false

[[client]]
client = "sensor"
samples = 800
fresh = true
rate = 8
capacity = 16
count = 1000
"""


@pytest.fixture
def file(tmp_path):
    def write(content, name="fleet.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.mark.parametrize(
    ("content", "name"), [(CSV, "f.csv"), (TOML, "f.toml"), (CSV.upper().lower(), "f.CSV")]
)
def test_both_formats_say_the_same(file, content, name):
    fleet = read(file(content, name), rounds=100)
    assert list(fleet.names) == ["server", "sensor"]
    assert fleet.samples.tolist() == [5000, 800]
    assert fleet.fresh.tolist() == [False, True]
    assert fleet.rate.tolist() == [0, 8]
    assert fleet.capacity.tolist() == [0, 16]
    assert fleet.count.tolist() == [1, 1000]
    assert fleet.clients == 1001


@pytest.mark.parametrize(
    ("line", "rounds", "samples", "rate", "capacity"),
    [
        (
            "a,800,yes,,",
            100,
            800,
            8.0,
            8,
        ),  # the rate follows from samples and rounds, the capacity from the rate
        ("a,50,yes,,", 100, 50, 0.5, 1),
        ("a,,yes,2.5,", 10, 25, 2.5, 3),  # the samples follow from the rate
        ("a,30,yes,4,9", 100, 30, 4.0, 9),  # a stream may end before the run
        ("a, 1e3 , YES , 4 , 9 ", 100, 1000, 4.0, 9),
    ],
)
def test_what_follows_from_what(file, line, rounds, samples, rate, capacity):
    fleet = read(file(f"client,samples,fresh,rate,capacity\n{line}\n"), rounds)
    assert (fleet.samples[0], fleet.rate[0], fleet.capacity[0]) == (samples, rate, capacity)


def test_columns_in_any_order_quotes_blank_lines_and_a_byte_order_mark(file):
    content = (
        b'\xef\xbb\xbfFresh, client ,samples\r\nno,"cam, left",10\r\n\r\nyes,"cam ""2""",20\r\n'
    )
    fleet = read(file(content), rounds=10)
    assert list(fleet.names) == ["cam, left", 'cam "2"']
    assert fleet.fresh.tolist() == [False, True]


@pytest.mark.parametrize(
    ("word", "fresh"), [("yes", 1), ("True", 1), ("1", 1), ("no", 0), ("FALSE", 0), ("0", 0)]
)
def test_words_for_fresh(file, word, fresh):
    assert read(file(f"client,samples,fresh\na,10,{word}\n"), 10).fresh[0] == fresh


def test_a_hundred_thousand_clients(file):
    rows = "".join(f"c{k},{k % 90 + 10},{'yes' if k % 2 else 'no'}\n" for k in range(100_000))
    fleet = read(file("client,samples,fresh\n" + rows), rounds=10)
    assert len(fleet) == 100_000
    assert fleet.fresh.sum() == 50_000
    assert fleet.rows("c99999").tolist() == [99_999]


BAD_VALUES = [
    ("a,0,no,,,", "line 2, column 2 (samples): got '0'; a number above 0"),
    ("a,-5,no,,,", "line 2, column 2 (samples): got '-5'; a number above 0"),
    ("a,nan,no,,,", "line 2, column 2 (samples): got 'nan'"),
    ("a,inf,no,,,", "line 2, column 2 (samples): got 'inf'"),
    ("a,many,no,,,", "line 2, column 2 (samples): got 'many'"),
    ("a,2.5,no,,,", "line 2, column 2 (samples): got '2.5'; a whole number"),
    ("a,10,maybe,,,", "line 2, column 3 (fresh): got 'maybe'; yes if"),
    ("a,10,,,,", "line 2, column 3 (fresh): got ''"),
    ("a,10,yes,0,,", "line 2, column 4 (rate): got '0'"),
    ("a,10,yes,fast,,", "line 2, column 4 (rate): got 'fast'"),
    ("a,10,yes,1,-1,", "line 2, column 5 (capacity): got '-1'"),
    ("a,10,yes,1,1.5,", "line 2, column 5 (capacity): got '1.5'; a whole number"),
    (
        "a,10,yes,4,2,",
        "line 2, column 5 (capacity): client 'a' gets 4 samples per round and can keep 2",
    ),
    ("a,10,yes,2.5,2,", "gets 2.5 samples per round and can keep 2"),
    ("a,10,no,,,0", "line 2, column 6 (count): got '0'"),
    (",10,no,,,", "line 2, column 1 (client): the client has no name"),
    (
        "a,,no,,,",
        "line 2, column 2 (samples): client 'a' is historical and needs a number of samples",
    ),
    (
        "a,,yes,,,",
        "line 2, column 2 (samples): fresh client 'a' needs a number of samples or a rate",
    ),
    ("a,10", "line 2: 2 values, but the first line names 6 columns"),
    ("a,10,no,,,,,", "line 2: 8 values, but the first line names 6 columns"),
    (
        "a,10,no,,,\n\nb,20,no,,,\na,30,no,,,",
        "line 5, column 1 (client): there is another client 'a', at",
    ),
]


@pytest.mark.parametrize(("line", "words"), BAD_VALUES)
def test_a_bad_value_is_named_with_line_and_column(file, line, words):
    path = file(f"client,samples,fresh,rate,capacity,count\n{line}\n")
    with pytest.raises(InputError) as caught:
        read(path, rounds=100)
    assert str(caught.value).startswith(f"{path}, ")
    assert words in str(caught.value)


BAD_TABLES = [
    ("samples = -5\nfresh = false", "line 4, column 11 (samples): got -5"),
    ("samples = nan\nfresh = false", "line 4, column 11 (samples): got nan"),
    ('samples = "ten"\nfresh = false', "line 4, column 11 (samples): got 'ten'"),
    ("samples = true\nfresh = false", "line 4, column 11 (samples): got True"),
    ("samples = [1]\nfresh = false", "line 4, column 11 (samples): got [1]"),
    ('samples = 5\n  fresh = "often"', "line 5, column 11 (fresh): got 'often'"),
    ("samples = 5\nfresh = true\nrate = 0", "line 6, column 8 (rate): got 0"),
    ("samples = 5\nfresh = true\nspeed = 1", "unknown column 'speed'"),
    ("samples = 5", "column 'fresh' is missing"),
    ("samples = 5\nfresh = ", "this is not TOML: Invalid value (at line 5, column 9)"),
]


@pytest.mark.parametrize(("keys", "words"), BAD_TABLES)
def test_a_bad_table_is_named_with_line_and_column(file, keys, words):
    path = file(
        f'# the fleet\n[[client]]\nclient = "a"\n{keys}\n[[client]]\nclient = "b"\n', "fleet.toml"
    )
    with pytest.raises(InputError, match=r"fleet\.toml") as caught:
        read(path, rounds=100)
    assert words in str(caught.value)


def test_the_second_table_is_found(file):
    table = '[[client]]\nclient = "{}"\nsamples = {}\nfresh = false\n'
    content = table.format("a", 5) + "\n" + table.format("b", 0)
    with pytest.raises(InputError, match=r"line 8, column 11 \(samples\)"):
        read(file(content, "f.toml"), rounds=100)


def test_inline_tables_have_no_lines_but_numbers(file):
    sizes = {"a": 5, "b": 0}
    rows = [f'{{client = "{name}", samples = {n}, fresh = false}}' for name, n in sizes.items()]
    content = f"client = [{', '.join(rows)}]"
    with pytest.raises(InputError, match=r"client 2 \(samples\)"):
        read(file(content, "f.toml"), rounds=100)


BAD_FILES = [
    ("", "f.csv", "the file is empty"),
    ("client,samples,fresh\n", "f.csv", "there are no clients in this file"),
    ("", "f.toml", "there are no clients in this file"),
    ("client,fresh\na,no\n", "f.csv", "line 1: column 'samples' is missing"),
    ("client,samples\na,5\n", "f.csv", "line 1: column 'fresh' is missing"),
    ("samples,fresh\n5,no\n", "f.csv", "line 1: column 'client' is missing"),
    (
        "client,samples,fresh,colour\na,5,no,red\n",
        "f.csv",
        "line 1: unknown column 'colour'; the columns are",
    ),
    (
        "client,samples,fresh,samples\na,5,no,6\n",
        "f.csv",
        "line 1: column 'samples' is there twice",
    ),
    ("client:samples:fresh\na:5:no\n", "f.csv", "unknown column 'client:samples:fresh'"),
    (
        "client;samples;fresh\na;5;no;6\n",
        "f.csv",
        "line 2: 4 values, but the first line names 3 columns; values are separated by semicolons",
    ),
    ("client\tsamples\tfresh\na\t5\n", "f.csv", "separated by tabs"),
    (
        "client;samples;fresh;rate\na;5;yes;0,5\n",
        "f.csv",
        "line 2, column 4 (rate): got '0,5'; a number above 0 and at most 1e+15; decimals have a",
    ),
    (b"client,samples,fresh\na,5,no\nb\x00,5,no\n", "f.csv", "line 3: there is a NUL byte"),
    ("client = [[[[" + "[" * 20000, "f.toml", "this is not TOML"),
    ('client,samples,fresh\n"' + "a" * 200_000 + '",5,no\n', "f.csv", "line 2: field larger than"),
    ("client,samples,fresh\na,5,no\n".encode("utf-16"), "f.csv", "line 1: this is not UTF-8 text"),
    (b"client,samples,fresh\na,5,no\nM\xfcnchen,5,no\n", "f.csv", "line 3: this is not UTF-8 text"),
    (b"\x89PNG\r\n\x1a\n\x00\x00", "f.csv", "this is not a text file"),
    ("client,samples,fresh\na,5,no\n", "f.txt", "ends in .csv or .toml"),
    ("clients = 3\n", "f.toml", "unknown key 'clients'"),
    ("client = 3\n", "f.toml", "clients are tables"),
]


@pytest.mark.parametrize(("content", "name", "words"), BAD_FILES)
def test_a_bad_file_is_named(file, content, name, words):
    path = file(content, name)
    with pytest.raises(InputError) as caught:
        read(path, rounds=100)
    assert str(path) in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("name", "words"), [("nowhere.csv", "no such file"), ("folder.csv", "this is a folder")]
)
def test_no_file(tmp_path, name, words):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match=words):
        read(tmp_path / name, rounds=100)


def test_a_file_that_may_not_be_read(file, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied")

    path = file(CSV)
    monkeypatch.setattr("pathlib.Path.read_bytes", refuse)
    with pytest.raises(InputError, match=r"fleet\.csv: cannot be read \(Permission denied\)"):
        read(path, rounds=100)


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_other_separators_are_recognised(file, separator):
    plain = read(file(CSV), rounds=100)
    other = read(file(CSV.replace(",", separator), "other.csv"), rounds=100)
    assert list(other.names) == list(plain.names)
    assert other.rate.tolist() == plain.rate.tolist()
    assert other.count.tolist() == plain.count.tolist()


def test_a_semicolon_file_may_have_commas_in_its_names(file):
    fleet = read(file("client;samples;fresh\ncam, left;5;no\n"), rounds=10)
    assert list(fleet.names) == ["cam, left"]


HISTORY = [
    ("a,10,no,8,,", "line 2, column 4 (rate): client 'a' is historical, all its samples are there"),
    ("a,10,no,,5,", "line 2, column 5 (capacity): client 'a' is historical and keeps all its"),
]


@pytest.mark.parametrize(("line", "words"), HISTORY)
def test_a_historical_row_with_a_stream_is_answered(file, line, words):
    path = file(f"client,samples,fresh,rate,capacity,count\n{line}\n")
    with pytest.raises(InputError) as caught:
        read(path, rounds=100)
    assert words in str(caught.value)


@pytest.mark.parametrize("line", ["a,10,no,0,0,", "a,10,no,,10,", "a,10,no,0.0,12,"])
def test_a_historical_row_may_say_that_it_has_no_stream(file, line):
    fleet = read(file(f"client,samples,fresh,rate,capacity,count\n{line}\n"), rounds=100)
    assert (fleet.rate[0], fleet.capacity[0], fleet.fresh[0]) == (0, 0, False)


def by_row(text, rounds):
    """The file read the plain way, one row after the other: the specification."""
    found = []
    for row in csv.DictReader(io.StringIO(text)):
        fresh = row["fresh"] in ("yes", "1")
        samples, rate = float(row["samples"] or 0), float(row["rate"] or 0)
        capacity = float(row["capacity"] or 0)
        if fresh:
            rate = rate or samples / rounds
            samples = samples or math.ceil(rate * rounds - 1e-9)
            capacity = capacity or math.ceil(rate)
        count = float(row["count"] or 1)
        found.append((row["client"], samples, fresh, rate, capacity, count, row["kind"]))
    return found


@pytest.mark.parametrize("quote", ["", '"'])
def test_columns_say_what_rows_say(file, monkeypatch, quote):
    monkeypatch.setattr("headwater.fleet.csv_columns._BLOCK", 7)
    rng = np.random.default_rng(0)
    lines = ["client,samples,fresh,rate,capacity,count,kind"]
    for k in range(100):
        fresh = rng.random() < 0.5
        rate = round(float(rng.uniform(0.1, 9)), 2) if fresh and rng.random() < 0.5 else ""
        samples = rng.integers(10, 90) if rate == "" or rng.random() < 0.5 else ""
        capacity = rng.integers(10, 20) if fresh and rng.random() < 0.5 else ""
        count = rng.integers(1, 9) if rng.random() < 0.5 else ""
        kind = rng.choice(["", "x", "y"])
        word = "yes" if fresh else "no"
        name = f"{quote}c{',' if quote else ''} {k}{quote}"
        lines.append(f"{name},{samples},{word},{rate},{capacity},{count},{kind}")
        if k % 9 == 0:
            lines.append("")
    text = "\n".join(lines)
    f = read(file(text), rounds=30)
    columns = (f.samples, f.fresh, f.rate, f.capacity, f.count)
    found = list(zip(f.names, *(c.tolist() for c in columns), f.kinds, strict=True))
    assert found == by_row(text, 30)


@pytest.mark.parametrize("row", [0, 5, 6, 7, 40])
@pytest.mark.parametrize(("name", "lines"), [('"c\n{}"', 3), ("c{}", 2)])
def test_the_line_is_right_in_every_block_of_rows(file, monkeypatch, row, name, lines):
    """Names with line breaks, and empty lines, come before; blocks are of seven rows."""
    monkeypatch.setattr("headwater.fleet.csv_columns._BLOCK", 7)
    rows = [f"{name.format(k)},5,no\n" for k in range(50)]
    for bad, words in (("minus,no", r", column 2 \(samples\): got 'minus'"), ("5", ": 2 values")):
        rows[row] = f"c{row},{bad}\n"
        with pytest.raises(InputError, match=rf"line {2 + lines * row}{words}"):
            read(file("client,samples,fresh\n" + "\n".join(rows)), rounds=10)


def test_blanks_are_nothing(file):
    fleet = read(file("client,samples,fresh,rate,count\r\na , 5 , no , ,  \r\n , , , , \r\n"), 10)
    assert (list(fleet.names), fleet.count.tolist(), fleet.samples.tolist()) == (["a"], [1], [5])


def test_a_name_that_is_there_twice_is_found_across_blocks(file, monkeypatch):
    monkeypatch.setattr("headwater.fleet.csv_columns._BLOCK", 7)
    rows = [f"c{k},5,no" for k in range(20)]
    rows[18] = "c3,5,no"
    with pytest.raises(InputError) as caught:
        read(file("client,samples,fresh\n" + "\n".join(rows)), rounds=10)
    assert "line 20, column 1 (client): there is another client 'c3', at" in str(caught.value)
    assert str(caught.value).endswith("line 5, column 1 (client)")


def test_reading_tells_how_far_it_is(file, monkeypatch):
    monkeypatch.setattr("headwater.fleet.csv_columns._BLOCK", 10)
    rows = "\n".join(f"c{k},5,no" for k in range(100))
    seen = []
    read(file("client,samples,fresh\n" + rows), 10, seen.append)
    assert len(seen) == 10
    assert seen == sorted(seen)
    assert 0 < seen[0] < 0.2
    assert seen[-1] == pytest.approx(1.0, abs=0.02)


def test_more_samples_than_can_be_counted(file):
    with pytest.raises(InputError, match="make more than"):
        read(file("client,fresh,rate\na,yes,1e15\n"), rounds=10**9)


def test_random_bytes_are_refused_never_a_crash(file):
    rng = np.random.default_rng(0)
    alphabet = np.frombuffer(b'client,samples,fresh\n"yes,no0123456789.eE+-=[]# \r\t\x00', np.uint8)
    for k in range(400):
        noise = rng.choice(alphabet, rng.integers(0, 60)).tobytes()
        content = noise if k % 2 else b"client,samples,fresh,rate\n" + noise
        try:
            fleet = read(file(content, "f.csv" if k % 4 < 2 else "f.toml"), rounds=10)
        except InputError:
            continue
        assert (fleet.samples > 0).all()
