"""The ``headwater`` command."""

from __future__ import annotations

import errno
import os
import sys
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from headwater import __version__
from headwater.errors import InputError, in_own_code
from headwater.interrupts import Interrupted, stop_at_once
from headwater.report.visible import visible

app = typer.Typer(
    no_args_is_help=True,
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
    """Run a command; what a user can mend is one clear line and exit code 2, never a traceback."""
    stop_at_once()
    try:
        app()
    except Interrupted as stop:
        where = " ".join(getattr(stop, "__notes__", []))
        _say(f"stopped {where or 'before round 1'}; the same command goes on")
        sys.exit(stop.code)
    except InputError as error:
        _fail(str(error))
    except BrokenPipeError:
        # who read our output has gone; nothing may be written on the way out either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        if error.errno is None:
            raise
        _fail(_about_file(error))
    except Exception as error:
        if _is_out_of_memory(error):
            kept = "what is finished is kept: free some, or use fewer cores"
            _fail(f"out of memory ({error}); {kept}")
        theirs = in_own_code(error)
        if theirs is None:
            raise
        _fail(str(theirs))


def _about_file(error: OSError) -> str:
    if error.errno in (errno.EMFILE, errno.ENFILE):
        advice = "raise the limit (ulimit -n) or use fewer cores, and run the same command again"
    elif error.errno in (errno.ENOMEM, errno.EAGAIN):
        advice = "free some memory or use fewer cores, and run the same command again"
    else:
        advice = "mend it and run the same command again; what was finished is kept"
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror}; {advice}"


def _is_out_of_memory(error: Exception) -> bool:
    """Whether Python or PyTorch, which has no error of its own for it, found no memory."""
    words = ("not enough memory", "out of memory", "Cannot allocate memory")
    return isinstance(error, MemoryError) or any(word in str(error) for word in words)


def _fail(message: str) -> NoReturn:
    _say(message, "[bold red]error:[/] ")
    sys.exit(2)


def _say(message: str, before: str = "") -> None:
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(before + visible(message).replace("[", r"\["))  # names come from anywhere
