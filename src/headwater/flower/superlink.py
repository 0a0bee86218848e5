"""``python -m headwater.flower.superlink``: Flower's SuperLink, as a process that can be relied on.

The options are those of ``flower-superlink``. It ends with its helper (:mod:`.shared_fate`), and
systemd or ``headwater fleet`` starts both again; and a very large message does not make it answer
everybody with errors (:mod:`.patient_database`).
"""

from __future__ import annotations

from headwater.flower.patient_database import be_patient
from headwater.flower.shared_fate import end_with_helper
from headwater.flower.supernode import flowers_own


def main() -> None:
    """Run the SuperLink."""
    end_with_helper()
    be_patient()
    flowers_own("flower-superlink")()


if __name__ == "__main__":
    main()
