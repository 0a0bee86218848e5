"""What an experiment is made of: settings, cells, results; and how they are read back."""

from __future__ import annotations

import json
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from headwater.errors import InputError
from headwater.learning.algorithm import Record
from headwater.ledger.strategies import Strategy


@dataclass(frozen=True)
class Setup:
    """What all cells of an experiment share.

    Attributes:
        historical: the fraction of the samples that is there before round 1.
        rounds, local_steps, batch_size: T, E, K.
    """

    historical: float
    rounds: int
    local_steps: int
    batch_size: int | None


@dataclass(frozen=True)
class Cell:
    """One training run.

    Attributes:
        label: the strategy's name in tables and folders.
        tuning: learn from the training part and test on the validation part; else from both, and
            test on the test part.
    """

    label: str
    strategy: Strategy
    seed: int
    learning_rate: float
    tuning: bool

    @property
    def name(self) -> str:
        """Its folder among the cells."""
        kind = (
            f"tune-{self.learning_rate:.6g}" if self.tuning else f"final-{self.learning_rate:.6g}"
        )
        return f"{self.label}/seed-{self.seed}/{kind}"


@dataclass(frozen=True)
class Result:
    """What came out of a cell; accuracies are means over clients, from 0 to 1.

    Attributes:
        accuracy, loss: of the last iterate.
        average_accuracy: of the q-weighted average, Algorithm 1's output.
        historical_share, effective_samples, variability: of its ledger.
        samples: gradients computed.
        seconds, cpu_seconds: of training and testing, in one thread.
        machine: where.
        diverged: what was said if it diverged; its accuracy is 0 then.
    """

    accuracy: float
    loss: float
    average_accuracy: float
    historical_share: float
    effective_samples: float
    variability: float
    samples: int
    seconds: float
    cpu_seconds: float
    machine: str
    diverged: str | None = None


def machine() -> str:
    """What a cell runs on, in a few words."""
    try:
        cpu = [
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ]
    except OSError:
        cpu = []
    name = cpu[0] if cpu else platform.machine()
    return f"{name}, one thread, Python {platform.python_version()}, torch {torch.__version__}"


def read_settings(file: Path) -> dict[str, Any]:
    """A JSON file with names and values."""
    try:
        content = json.loads(file.read_text())
    except (ValueError, UnicodeDecodeError) as error:
        raise InputError(
            f"{file}: cannot be read ({error}); delete it and run the same command again"
        ) from error
    if not isinstance(content, dict):
        raise InputError(
            f"{file}: expected settings in braces; delete it and run the same command again"
        )
    return content


def read_records(file: Path) -> list[Record]:
    """A file of rounds."""
    return [Record(**json.loads(line)) for line in file.read_text().splitlines()]
