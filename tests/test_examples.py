"""The examples run, and show what they say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_own_federation_learns_and_more_samples_help():
    script = [sys.executable, str(EXAMPLES / "own_federation.py")]
    answer = subprocess.run(script, capture_output=True, text=True, check=True)
    words = [line.split() for line in answer.stdout.splitlines()]
    errors = {line[0]: float(line[2].rstrip(",")) for line in words}
    assert list(errors) == ["Historical", "Fresh", "Uniform"]
    # the noise alone is 0.01; a forecast that knows nothing is off by 0.5
    assert 0.01 < errors["Uniform"] < errors["Historical"] < 0.05
    assert [line[5] for line in words] == ["40", "800", "840"]
    assert not answer.stderr
