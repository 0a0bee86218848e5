"""A way into a memory without a model, and a process that runs one until it is killed."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

from headwater.devices.intake import Intake
from headwater.devices.intake.dead_letters import DeadLetters
from headwater.devices.intake.mapping import SampleMapping
from headwater.devices.intake.seen import SeenIds
from headwater.devices.intake.waiting import WaitingSamples
from headwater.devices.memory import DurableMemory
from headwater.devices.memory.database import Database
from headwater.devices.node.stream import Stream
from headwater.devices.settings import node_file
from headwater.devices.sources import source_of


def open_intake(settings, pages=None):
    """The part of a node that takes in samples."""
    mapping = SampleMapping(settings.samples, settings.limits.message_bytes)
    database = Database(settings.folder / "memory.db", settings.memory.survives, pages)
    memory = DurableMemory(
        database, settings.memory.make(), mapping.schema, settings.m, settings.seed
    )
    waiting = WaitingSamples(database, mapping.schema.features, settings.samples.late_labels)
    letters = DeadLetters(database, settings.limits.dead_letters)
    once = settings.samples.once
    seen = SeenIds(database, once) if once else None
    return Intake(memory, mapping, waiting, letters, seen)


class Taking:
    """A stream that runs while the test waits for what it does."""

    def __init__(self, settings, pages=None, watch=lambda intake: None):
        self.settings = settings
        self.intake = open_intake(settings, pages)
        self.stop = threading.Event()
        self._news = threading.Condition()
        self._take = self.intake.take
        self.intake.take = self._tell
        self._watch = watch
        self.stream = Stream(
            source_of(settings), self.intake, settings, self.stop, ended=self.stop.set
        )

    def __enter__(self):
        self.stream.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.stream.join(60)
        assert not self.stream.is_alive()
        self.intake.memory.database.close()

    def _tell(self, *arguments):
        try:
            self._take(*arguments)
        finally:
            with self._news:
                self._watch(self.intake)
                self._news.notify_all()

    def until(self, condition):
        """Until a condition on the intake holds; it is looked at after each batch."""
        with self._news:
            assert self._news.wait_for(lambda: condition(self.intake), timeout=120)

    def until_arrived(self, count):
        self.until(lambda intake: intake.memory.arrived >= count)

    def until_ended(self):
        self.stream.join(120)
        assert not self.stream.is_alive()


def held(intake):
    """The first feature of each sample held, in order of arrival."""
    return intake.memory.snapshot().x[:, 0].tolist()


def main(path):
    """Take in what the settings' source brings, and tell after each batch how many are safe."""

    def tell(intake):
        print(intake.memory.arrived, flush=True)

    with Taking(node_file.read(Path(path)), watch=tell) as taking:
        print("ready", flush=True)
        taking.stream.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
