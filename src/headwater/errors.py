"""The one kind of error that a user can cause and mend."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path


class InputError(ValueError):
    """Something that was handed in cannot be used as it is.

    The message names the setting, its value, what is allowed, and where it came from (a file's
    line, a client's number). The command line prints it without a traceback and ends with exit code
    2.
    """


def in_own_code(error: BaseException) -> InputError | None:
    """What went wrong in the user's own code, such as a task or a model, and where, in one line.

    Returns:
        None if nothing of it was the user's code: then the mistake is ours, or a library's.
    """
    ours = Path(__file__).parent
    known = (ours, Path(sys.prefix), Path(sys.base_prefix), Path(os.__file__).parent)
    theirs = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<")
        and not any(Path(frame.filename).is_relative_to(place) for place in known)
    ]
    if not theirs:
        return None
    # PyTorch's messages go on for pages; their first line says what it is.
    what = (str(error).strip() or "without a word").splitlines()[0]
    place = f"{theirs[-1].filename}, line {theirs[-1].lineno}"
    return InputError(f"{place}: {type(error).__name__}: {what}")
