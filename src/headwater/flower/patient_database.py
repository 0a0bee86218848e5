"""The SuperLink's database: who finds it locked waits, and a large message does not lock it long.

Flower (1.41) deletes a message that was received in one transaction. Debian's SQLite overwrites
what it deletes with zeros (``secure_delete``, off in SQLite itself), so that a message of a
gigabyte locks the database for many seconds; and who waits for more than five, which are hard-coded
in Flower, is answered with an error. A ServerApp, a SuperNode or a ``flower-superexec`` that gets
one ends. So nothing is overwritten here, and whoever has to wait does.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import event
from sqlalchemy.pool import Pool

_PATIENCE = 60_000  # milliseconds
_SETTINGS = (f"busy_timeout = {_PATIENCE}", "secure_delete = OFF")


def be_patient() -> None:
    """From now on, for every database of this process."""
    # Flower sets its own when it connects; a connection that is handed out is past that.
    event.listen(Pool, "checkout", _set)


def _set(connection: Any, *_: object) -> None:
    cursor = connection.cursor()
    for setting in _SETTINGS:
        cursor.execute(f"PRAGMA {setting}")
    cursor.close()
