"""``python -m tests.soak``: the campaign, for as long as you like.

    python -m tests.soak --minutes 30              all kinds in turn
    python -m tests.soak --only kills --trials 250  so many, however long it takes
    python -m tests.soak --only damage --trial 17  one trial again

Every trial has a number, which decides all that is random in it. The counts at the end are those of
docs/reliability.md; the exit code is 1 if anything was wrong, stuck or ended in a traceback.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections import Counter

from tests.soak import damage, inputs, kills, simulation, tables
from tests.soak.trial import BAD, VERDICTS

KINDS = {
    "inputs": inputs.trial,
    "tables": tables.trial,
    "damage": damage.trial,
    "kills": kills.trial,
    "programs": simulation.trial,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--trials", type=int, help="so many of each kind, instead of --minutes")
    parser.add_argument("--first", type=int, default=0, help="number of the first trial")
    parser.add_argument("--only", default=",".join(KINDS), help=f"of {', '.join(KINDS)}")
    parser.add_argument("--trial", type=int, help="only the trial of this number")
    asked = parser.parse_args()
    kinds = [kind for kind in asked.only.split(",") if kind in KINDS]
    if asked.trial is not None:
        for kind in kinds:
            print(kind, asked.trial, *KINDS[kind](asked.trial))
        return
    seconds = 60 * asked.minutes / len(kinds) if asked.trials is None else math.inf
    counts = campaign(kinds, asked.first, asked.trials or sys.maxsize, seconds)
    show(counts)
    sys.exit(any(counts[kind][verdict] for kind in kinds for verdict in BAD))


def campaign(kinds: list[str], first: int, trials: int, seconds: float) -> dict[str, Counter[str]]:
    """Each kind for some trials or seconds; what is not as it should be is said at once."""
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in kinds}
    for kind in kinds:
        latest, number = time.monotonic() + seconds, first
        while time.monotonic() < latest and number < first + trials:
            verdict, what = KINDS[kind](number)
            counts[kind][verdict] += 1
            if verdict in BAD:
                print(f"{verdict}: --only {kind} --trial {number}: {what}", flush=True)
            number += 1
            if number % 10 == 0:
                print(f"{kind}: trials {first} to {number - 1}", dict(counts[kind]), flush=True)
    return counts


def show(counts: dict[str, Counter[str]]) -> None:
    print(f"| | tried | {' | '.join(VERDICTS)} |")
    print("|---|--:|" + "--:|" * len(VERDICTS))
    for kind, found in counts.items():
        cells = " | ".join(f"{found[verdict]:,}" for verdict in VERDICTS)
        print(f"| {kind} | {found.total():,} | {cells} |")


if __name__ == "__main__":
    main()
