"""``headwater report``: one page about a run folder or a saved run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.help_text import with_flowing_help
from headwater.cli.main import app
from headwater.errors import InputError
from headwater.files import replace

if TYPE_CHECKING:
    from headwater.report.pages.page import Page


@app.command()
@with_flowing_help
def report(
    folder: Annotated[
        Path, typer.Argument(help="Run folder of headwater run or paper table, or of run.save().")
    ],
    out: Annotated[
        Path | None, typer.Option(help="The page's file; default: report.html in the folder.")
    ] = None,
) -> None:
    """Write one HTML page about a run: tables, pictures to point at, and the ledger.

    FOLDER is the run folder of headwater run or paper table, or one of run.save(). The page is a
    single file that loads nothing from anywhere: send it, print it, open it without a network. It
    shows every strategy's scores over the rounds; who held how much when, and what it counted; the
    effective samples of each round; and how each client fared in the end. Of very many clients it
    shows those who count most, those for whom the model is worst, and some others.

    Examples:

      headwater run synthetic && headwater report runs/synthetic-20

      headwater report kept --out meeting.html      (after run.save("kept") in Python)
    """
    page = _page(folder).html()
    target = folder / "report.html" if out is None else out
    if target.is_dir():
        raise InputError(f"--out: {target} is a folder; name a file, such as {target}/report.html")
    replace(target, page.encode())
    typer.echo(f"{target}  ({len(page.encode()) / 1000:,.0f} kB, one file, works offline)")


def _page(folder: Path) -> Page:
    if (folder / "runs.jsonl").is_file():
        from headwater.report.pages.table_page import table_page

        return table_page(folder)
    if (folder / "run.json").is_file():
        from headwater.report.pages.run_page import run_page

        return run_page(folder)
    raise InputError(
        f"{folder}: no run in there (neither runs.jsonl nor run.json); give the folder that "
        "headwater run named, or one that was made with run.save(folder)"
    )
