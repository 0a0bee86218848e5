"""Tasks by name, and tasks of one's own by module and class."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.errors import InputError
from headwater.experiments.tasks import TASKS, fractions_in_words
from headwater.experiments.tasks.find import find_task

OWN = """
from headwater.experiments.tasks.synthetic import Synthetic

class Mine(Synthetic):
    name = "mine"

class WithData(Mine):
    def __init__(self, data_dir):
        super().__init__()
        object.__setattr__(self, "where", data_dir)

class NotEnough:
    name = "half a task"
    def split(self, historical, rounds, seed): ...

ready = Mine(samples=100)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"own_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    return name


def test_the_list_says_what_the_tasks_themselves_say() -> None:
    found = {name: find_task(name) for name in TASKS}
    assert {name: task.name for name, task in found.items()} == {name: name for name in TASKS}
    assert {name: task.fraction_of for name, task in found.items()} == {
        name: entry.fraction_of for name, entry in TASKS.items()
    }
    assert all(name in fractions_in_words() for name in TASKS)


def test_a_task_is_given_the_data_folder_and_loads_nothing_yet(tmp_path: Path) -> None:
    assert find_task("femnist", tmp_path).data_dir == tmp_path  # type: ignore[attr-defined]


def test_a_class_of_ones_own_in_the_current_folder(module: str, tmp_path: Path) -> None:
    assert find_task(f"{module}:Mine").name == "mine"
    assert find_task(f"{module}:WithData", tmp_path).where == tmp_path  # type: ignore[attr-defined]
    assert find_task(f"{module}:ready").samples == 100  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cifar", "unknown task 'cifar'; there are: synthetic, cifar10.*module:Class"),
        ("no_such_module:Mine", "cannot import no_such_module.*current folder"),
        ("math:Mine", "module math has no 'Mine'"),
        ("{module}:NotEnough", "it has no fraction_of, defaults, complete, model; a task needs"),
    ],
)
def test_what_is_no_task_is_refused_with_the_way_out(module: str, text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        find_task(text.format(module=module))
