"""Federation files: what is read, and what is said about a file that cannot be."""

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
    assert fleet.row("c99999") == 99_999


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
        "line 2, column 5 (capacity): client 'a' gets 4 samples a round and can keep 2",
    ),
    ("a,10,yes,2.5,2,", "gets 2.5 samples a round and can keep 2"),
    ("a,10,no,,,0", "line 2, column 6 (count): got '0'"),
    (",10,no,,,", "line 2, column 1 (client): the client has no name"),
    ("a,,no,,,", "line 2, column 2 (samples): historical client 'a' needs a number of samples"),
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
    ("client;samples;fresh\na;5;no\n", "f.csv", "unknown column 'client;samples;fresh'"),
    ("client,samples,fresh\na,5,no\n".encode("utf-16"), "f.csv", "line 1: this is not UTF-8 text"),
    (b"client,samples,fresh\na,5,no\nM\xfcnchen,5,no\n", "f.csv", "line 3: this is not UTF-8 text"),
    (b"\x89PNG\r\n\x1a\n\x00\x00", "f.csv", "this is not UTF-8 text"),
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


@pytest.mark.parametrize("name", ["nowhere.csv", "folder.csv"])
def test_no_file(tmp_path, name):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match="no such file"):
        read(tmp_path / name, rounds=100)


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
