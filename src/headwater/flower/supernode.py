"""``python -m headwater.flower.supernode``: Flower's SuperNode, as a process that ends with it.

The options are those of ``flower-supernode``. It ends with its helper (:mod:`.shared_fate`); and
when the SuperLink answers with an error, as it does while its database is locked, the main thread
of Flower's SuperNode (1.41) ends, but the thread that serves its ClientApps stays, and with it the
process. Nobody would start it again, and its client would be gone for good. Here the process ends,
too, and systemd or ``headwater fleet`` starts another.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from importlib.metadata import entry_points

from headwater.flower.shared_fate import end_with_helper


def flowers_own(name: str) -> Callable[[], object]:
    """What a command of Flower's runs."""
    (command,) = entry_points(group="console_scripts", name=name)
    program: Callable[[], object] = command.load()
    return program


def main(program: Callable[[], object] | None = None) -> None:
    """Run the SuperNode; whatever ends it ends the process, with its threads."""
    code = 1
    end_with_helper()
    try:
        (program or flowers_own("flower-supernode"))()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # sys.exit() would wait for Flower's threads.
        os._exit(code & 0xFF)


if __name__ == "__main__":
    main()
