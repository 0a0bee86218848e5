"""The one kind of error that a user can cause and mend."""

from __future__ import annotations


class InputError(ValueError):
    """Something that was handed in cannot be used as it is.

    The message names the setting, its value, what is allowed, and where it came from (a file's
    line, a client's number). The command line prints it without a traceback and ends with exit code
    2.
    """
