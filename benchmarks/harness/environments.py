"""A virtual environment per peer, pinned by ``peers/NAME.txt``.

It is made on first use and when the pins change.
"""

import hashlib
import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).parents[1]
ENVIRONMENTS = BENCHMARKS / ".envs"


class Unavailable(Exception):
    """The environment could not be made; says why in one line."""


def interpreter(name: str) -> Path:
    """Python of the environment of that name, installing it first where needed."""
    pins = BENCHMARKS / "peers" / f"{name}.txt"
    folder = ENVIRONMENTS / name
    stamp = folder / "pins.sha256"
    python = folder / "bin" / "python"
    digest = hashlib.sha256(pins.read_bytes()).hexdigest()
    if not (stamp.exists() and stamp.read_text() == digest and python.exists()):
        run([sys.executable, "-m", "venv", "--clear", str(folder)])
        install(python, pins)
        stamp.write_text(digest)
    return python


def install(python: Path, pins: Path) -> None:
    """The first pin alone, so that nothing installed after it chooses another build of it; then
    all."""
    first = next(
        line for line in pins.read_text().splitlines() if line and not line.startswith("#")
    )
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run([*pip, first])
    run([*pip, "-r", str(pins)])


def run(command: list[str]) -> None:
    """Run to the end; a failure becomes the last line that says why."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(reason(done.stderr + done.stdout))


def reason(output: str) -> str:
    """The line of a failed command's output that names the cause, as far as one can tell.

    >>> reason("WARNING: slow\\nERROR: No matching distribution found for fedjax==0.0.17\\n")
    'No matching distribution found for fedjax==0.0.17'
    >>> reason("")
    'it said nothing'
    """
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    chosen = (errors or lines or ["it said nothing"])[-1]
    return chosen.removeprefix("ERROR:").strip()
