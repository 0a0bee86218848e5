"""What separates the values of a CSV file."""

from __future__ import annotations

from collections.abc import Sequence

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
"""Each separator, and its name in messages."""


def separator_of(first: str, names: Sequence[str]) -> str:
    """What separates a file's values: whichever makes the most of the first line's names known.

    Args:
        first: The first line.
        names: Columns that the file is expected to have.

    Example:
        >>> separator_of("time;device", ["device", "time"]), separator_of("?", ["device"])
        (';', ',')
    """

    def known(separator: str) -> int:
        return sum(word.strip(' \r"') in names for word in first.split(separator))

    return max(SEPARATORS, key=known)
