"""Shakespeare from text files: every character predicted once, the future kept for testing, and bad
files."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import numpy as np
import pytest

from headwater.errors import InputError
from headwater.experiments.data import Shakespeare, load_shakespeare
from headwater.experiments.data.shakespeare import IGNORE, PAD, decode

LONG = "\n".join(f"Line {i} of a long speech, with  blanks   and so on." for i in range(40)) + "\n"
CLEAN = re.sub(" +", " ", LONG).strip()


def lay_out(folder: Path, **texts: str | bytes) -> Path:
    where = folder / "shakespeare" / "by_play_and_character"
    where.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (where / f"{name}.txt").write_bytes(text if isinstance(text, bytes) else text.encode())
    return where


def targets(shakespeare: Shakespeare, client: int) -> tuple[str, str]:
    """What is to be predicted of a role, in training and in testing."""
    train = shakespeare.targets[shakespeare.client == client].ravel()
    test = shakespeare.test_targets[shakespeare.test_client == client].ravel()
    return decode(train), decode(test)


def test_each_character_but_the_first_of_a_part_is_predicted_once_and_the_last_fifth_is_for_testing(
    data: Path,
) -> None:
    lay_out(data, LEAR=LONG)
    shakespeare = load_shakespeare(data)
    cut = int(0.8 * len(CLEAN))
    assert targets(shakespeare, 0) == (CLEAN[1:cut], CLEAN[cut + 1 :])
    assert decode(shakespeare.inputs.ravel())[: cut - 1] == CLEAN[: cut - 1]
    assert shakespeare.inputs.shape == (-(-(cut - 1) // 80), 80)


def test_padding_is_at_the_end_and_has_no_target(data: Path) -> None:
    lay_out(data, FOOL="Nuncle,\nnuncle.\n", LEAR=LONG)
    shakespeare = load_shakespeare(data)
    assert shakespeare.names.tolist() == ["FOOL", "LEAR"]
    (fool,) = np.flatnonzero(shakespeare.client == 0)
    assert decode(shakespeare.targets[fool]) == "uncle,\nnunc"
    assert (shakespeare.targets[fool, 11:] == IGNORE).all()
    assert (shakespeare.inputs[fool, 11:] == PAD).all()
    assert (shakespeare.targets[fool, :11] != IGNORE).all()


def test_roles_with_one_line_or_next_to_nothing_are_left_out(data: Path) -> None:
    lay_out(
        data, MUTE="One line and no more, however long it may be.\n\n \n", SHORT="A\nB\n", LEAR=LONG
    )
    assert load_shakespeare(data).names.tolist() == ["LEAR"]


def test_unknown_characters_become_blanks_and_lines_may_end_as_they_like(data: Path) -> None:
    strange = LONG.replace("Line 7", "Liné 7")
    lay_out(data, DUKE="\ufeff" + strange.replace("\n", "\r\n"))
    train, _ = targets(load_shakespeare(data), 0)
    assert train == CLEAN.replace("Line 7", "Lin  7")[1 : int(0.8 * len(CLEAN))]


@pytest.mark.needs_data
def test_real_roles(shared: Path, data: Path) -> None:
    with gzip.open(shared / "shakespeare" / "moby_roles.json.gz") as file:
        roles = json.load(file)["roles"][:40]
    texts = {f"ROLE_{i:03}": "\n".join(role["speeches"]) + "\n" for i, role in enumerate(roles)}
    lay_out(data, **texts)
    shakespeare = load_shakespeare(data)
    assert len(shakespeare.names) == 40  # the stored roles have at least two lines
    assert not shakespeare.complete
    for client, text in enumerate(texts.values()):
        lines = (" ".join(line.split()) for line in text.split("\n"))
        clean = "\n".join(line for line in lines if line)
        train, test = targets(shakespeare, client)
        cut = len(train) + 1
        assert clean == clean[0] + train + clean[cut] + test
        assert cut == int(len(clean) * 0.8)
    seen = np.unique(shakespeare.inputs)
    assert 50 <= len(seen) <= 72  # different characters in the whole edition: 72


def refused(folder: Path, *words: str) -> None:
    with pytest.raises(InputError) as error:
        load_shakespeare(folder)
    for word in words:
        assert word in str(error.value)


def test_no_data_says_how_to_make_them_and_where_to_put_them(data: Path) -> None:
    where = data / "shakespeare"
    refused(
        data,
        str(where / "by_play_and_character"),
        "TalwalkarLab/leaf",
        "by_play_and_character",
        f"to {where}",
    )
    lay_out(data, MUTE="One line.\n")
    refused(data, "no role with two lines")


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "empty"),
        (b" \n\n", "empty"),
        (b"Caf\xe9\nau lait and so on\n", "altered or no text"),
        (bytes(range(1, 32)) * 20, "unknown characters"),
    ],
)
def test_a_truncated_or_altered_file(data: Path, home: Path, content: bytes, what: str) -> None:
    path = lay_out(data, LEAR=LONG, YORICK=content) / "YORICK.txt"
    refused(data, str(path), what, f"{len(content):,} bytes", "prepare it again")
    assert not (home / "parsed").exists()
