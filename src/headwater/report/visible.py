"""Words from files and command lines, made fit for a terminal."""

from __future__ import annotations


def visible(text: str) -> str:
    r"""Write out what cannot be seen: control characters, and marks that turn text around.

    A name in a file must not be able to colour, move or reverse what a terminal shows.

    >>> visible("cam\x1b[31m3\tZürich")
    'cam\\x1b[31m3\\tZürich'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
