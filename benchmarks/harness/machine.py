"""On what, when and with what command something was measured."""

import os
import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from headwater.processes import cores


@dataclass(frozen=True)
class Machine:
    """What a reader needs to judge the numbers."""

    command: str
    date: str
    processor: str
    cores: int
    memory_gb: float
    system: str
    python: str

    def words(self) -> str:
        """One line for people."""
        return (
            f"`{self.command}`, {self.date}; {self.processor}, {self.cores} cores, "
            f"{self.memory_gb:.0f} GB, "
            f"{self.system}, Python {self.python}"
        )


def describe(command: str) -> Machine:
    """This machine, now."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Machine(
        command=command,
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        processor=processor(Path("/proc/cpuinfo").read_text()),
        cores=cores(),
        memory_gb=pages / 2**30,
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
    )


def processor(information: str) -> str:
    """The processor's name as /proc/cpuinfo gives it.

    >>> processor("vendor_id : A\\nmodel name\\t: Fast 3000\\nmodel name\\t: Fast 3000\\n")
    'Fast 3000'
    """
    names = (
        line.partition(":")[2].strip()
        for line in information.splitlines()
        if line.startswith("model name")
    )
    return next(names, platform.machine())
