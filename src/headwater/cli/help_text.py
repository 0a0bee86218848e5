"""Help that is wrapped by the terminal, not by the editor."""

from __future__ import annotations

from collections.abc import Callable
from inspect import cleandoc
from typing import TypeVar

Command = TypeVar("Command", bound=Callable[..., object])


def flowing(text: str) -> str:
    """A docstring whose paragraphs are one line each; indented lines, such as commands, stay.

    Example:
        >>> print(flowing("One\\ntwo.\\n\\n  headwater run\\n  headwater plan"))
        One two.
        <BLANKLINE>
          headwater run
          headwater plan
    """
    paragraphs = cleandoc(text).split("\n\n")
    return "\n\n".join(p if p.startswith(" ") else p.replace("\n", " ") for p in paragraphs)


def with_flowing_help(command: Command) -> Command:
    """A command whose help is its docstring, wrapped where the reader's terminal ends."""
    command.__doc__ = flowing(command.__doc__ or "")
    return command
