"""The ``headwater`` command."""

from __future__ import annotations

import errno
import sys
from typing import Annotated

import typer
from rich.console import Console

from headwater import __version__
from headwater.errors import InputError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    invoke_without_command=True,
)


@app.callback()
def commands(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Learn one model from many data streams, on devices that can keep only a few samples each."""
    if version:
        typer.echo(f"headwater {__version__}")
        raise typer.Exit


def main() -> None:
    """Run a command; a user's mistake is one clear line and exit code 2, never a traceback."""
    try:
        app()
    except InputError as error:
        _fail(str(error))
    except OSError as error:
        if error.errno not in (
            errno.ENOSPC,
            errno.EDQUOT,
            errno.EFBIG,
            errno.EACCES,
            errno.EROFS,
            errno.ENOTDIR,
        ):
            raise
        _fail(
            f"{error.filename or 'a file'}: {error.strerror}; what was finished is kept, mend it "
            "and run the "
            "same command again"
        )


def _fail(message: str) -> None:
    Console(stderr=True, highlight=False, soft_wrap=True).print(
        f"[bold red]error:[/] {_plain(message)}"
    )
    sys.exit(2)


def _plain(message: str) -> str:
    return message.replace("[", r"\[")
