"""What a client of a fleet may be called: its name becomes a file's, a broker's user's, a topic's.

So a name must not lead out of the fleet's folder, be a pattern of topics, or be taken already.
"""

from __future__ import annotations

from collections.abc import Iterable

from headwater.errors import InputError
from headwater.flower.roster import is_name

FEEDER = "feeder"  # the broker's user that may publish to all topics
_BESIDE = ("-test", ".toml", ".pub", ".registered")  # endings of files beside a client's own


def check_names(where: str, names: Iterable[str]) -> None:
    """Refuse names that a fleet cannot have; ``where`` says where they are to be changed.

    >>> check_names("rooms.csv", ["hall", "../hall"])
    Traceback (most recent call last):
    headwater.errors.InputError: rooms.csv: no client can be called '../hall'; letters, digits, ...
    """
    names = list(names)
    beside = {f"{name}{ending}" for name in names for ending in _BESIDE}
    for name in names:
        # a password file has its colons elsewhere, and a dot or dash in front is not a name's
        if not is_name(name) or ":" in name or not name[0].isalnum() or name.endswith(" "):
            raise InputError(
                f"{where}: no client can be called {name!r}; letters, digits, blanks and . @ _ -, "
                "a letter or digit first, at most 128 of them: rename it"
            )
        if name == FEEDER or name in beside:
            raise InputError(f"{where}: the name {name!r} is taken by the fleet itself; rename it")
