"""Help: wrapped by the terminal, nothing cut off, every argument explained."""

from __future__ import annotations

from itertools import pairwise

import pytest
from typer.testing import CliRunner

import headwater.cli  # noqa: F401 (all commands)
from headwater.cli.main import app

PAGES = ("run", "node", "plan", "fleet", "fleet up", "fleet down", "paper", "paper table")


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "TERMINAL_WIDTH"):
        monkeypatch.setenv(name, "80")


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("page", PAGES)
def test_nothing_is_cut_off(page: str) -> None:
    said = CliRunner().invoke(app, [*page.split(), "--help"]).output
    # typer shortens what does not fit with this sign; as a word of its own it is ours
    assert not any(word.endswith("…") and word != "…" for word in said.split())


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("page", ["run", "node", "fleet up", "paper table"])
def test_paragraphs_are_filled_to_the_terminal_s_width(page: str) -> None:
    said = CliRunner().invoke(app, [*page.split(), "--help"]).output.split("╭")[0]
    paragraphs = [part.splitlines() for part in said.replace(" \n \n", "\n\n").split("\n\n")]
    lines = [line.rstrip() for part in paragraphs for line in part]
    for line, following in pairwise(lines):
        # A line ends early only where the next word did not fit, or where a paragraph ends.
        if line.strip() and following.strip() and not line.startswith("   "):
            assert len(line) + 1 + len(following.split()[0]) >= 79, (line, following)


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize(
    ("page", "argument"),
    [("run", "TASK is synthetic"), ("node", "NODE.toml has the"), ("plan", "A fleet file lists")],
)
def test_arguments_are_explained_whatever_click_shows_of_them(page: str, argument: str) -> None:
    assert argument in CliRunner().invoke(app, [page, "--help"]).output


@pytest.mark.parametrize("page", ["run", "node", "plan", "fleet", "fleet up", "paper table"])
def test_every_page_has_an_example(page: str) -> None:
    said = CliRunner().invoke(app, [*page.split(), "--help"]).output
    assert f"headwater {page} " in said.split("Example")[1]
