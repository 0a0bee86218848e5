"""The documents' code runs, and the README's commands do what it says."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent


def call(*words: object, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command as a newcomer would, on a wide terminal without colours."""
    wide = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
    words = [str(word) for word in words]
    return subprocess.run(
        words, cwd=folder, env=wide, capture_output=True, text=True, timeout=300, check=False
    )


def code(document: str) -> str:
    """All Python blocks of a document, as one program."""
    return "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), re.S))


def commands() -> list[str]:
    """The README's indented lines that call headwater."""
    return re.findall(r"^    (headwater .*?)(?:\s+#.*)?$", (ROOT / "README.md").read_text(), re.M)


@pytest.mark.parametrize(
    "document",
    [
        "README.md",
        "CONTRIBUTING.md",
        *(f"docs/{n}.md" for n in ("tutorial", "own_data", "daily_use")),
    ],
)
def test_python_blocks_run(document, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(code(document))
    done = call(sys.executable, program, folder=tmp_path)
    assert done.returncode == 0, done.stderr


def test_readme_federation_prints_what_it_says(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(code("README.md"))
    out = call(sys.executable, program, folder=tmp_path).stdout
    accuracy, importance, effective = re.match(r"(\S+) \[(.*?)\] (\S+)", out).groups()
    assert float(accuracy) > 0.9
    assert [float(p) for p in importance.split()] == pytest.approx([0.1, 0.9])
    assert float(effective) == pytest.approx(400)
    assert out.splitlines()[1].startswith("0.4522")


@pytest.mark.parametrize("command", commands())
def test_commands_exist_and_explain_themselves(command, tmp_path):
    """Every command of the README is there, with the options it is shown with."""
    words = shlex.split(command)
    names = [w for w in words if not w.startswith("-")]
    sub = names[1:3] if names[1] == "paper" else names[1:2]
    help_text = call(BIN / "headwater", *sub, "--help", folder=tmp_path)
    assert help_text.returncode == 0, help_text.stderr
    for option in (w for w in words if w.startswith("--")):
        assert option in help_text.stdout


def test_make_demo_is_the_command_of_the_readme():
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(
        r"^demo:.*\n\t\$\(BIN\)/headwater run synthetic --out runs/demo$", makefile, re.M
    )


def test_the_demo_command_gives_table_picture_and_folder(tmp_path):
    few = ("--seeds", "1", "--learning-rate", "0.03,0.1")
    done = call(BIN / "headwater", "run", "synthetic", *few, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "uniform" in done.stdout
    folder = tmp_path / "runs" / "synthetic-20"
    assert {"runs.jsonl", "results.json", "accuracy.png", "work"} == {
        p.name for p in folder.iterdir()
    }
