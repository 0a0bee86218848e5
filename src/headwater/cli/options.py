"""Options that several commands share: one name, one meaning, one line of help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Rounds = Annotated[int | None, typer.Option(help="Communication rounds; default: the task's.")]
LocalSteps = Annotated[
    int | None, typer.Option(help="Gradient steps of a client in a round; default: the task's.")
]
BatchSize = Annotated[
    int | None,
    typer.Option(help="Samples a gradient step; 0: the whole memory; default: the task's."),
]
Cores = Annotated[int | None, typer.Option(min=1, help="Runs at a time; default: one per core.")]
DataDir = Annotated[
    Path | None, typer.Option(help="Where data sets are; default: the user's cache.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print only JSON on standard output.")]
