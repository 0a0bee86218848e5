"""A real ``headwater node`` process, and how to wait for what it does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager

from headwater.devices.wire import Frame, ask

TOML = """
client = "a"
number = 0
folder = "n"
[memory]
rule = "{rule}"
capacity = 40
[samples]
features = ["a", "b", "c"]
label = "label"
classes = 3
{samples}
{source}
[log]
format = "json"
"""


class NodeProcess:
    """The process; its log is read while it runs, and every entry kept."""

    def __init__(self, path, stdin=None):
        self.socket = path.parent / "n" / "run" / "node.sock"
        self.entries = []
        self._news = threading.Condition()
        command = [sys.executable, "-m", "headwater", "node", str(path)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, stdin=stdin, text=True, env=environment
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stderr:
            entry = json.loads(line) if line.startswith("{") else {"message": line.rstrip()}
            with self._news:
                self.entries.append(entry)
                self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def wait_for(self, message, count=1):
        """Until the log has had a message so many times."""

        def there():
            return sum(entry["message"] == message for entry in self.entries) >= count

        with self._news:
            self._news.wait_for(lambda: there() or self.process.poll() is not None, timeout=120)
            assert there(), self.entries
        return next(entry for entry in self.entries if entry["message"] == message)

    def describe(self):
        return ask(self.socket, Frame({"do": "describe"}), timeout=60).header

    def until(self, condition: Callable[[dict], bool], seconds=120):
        """Until a description satisfies a condition: the node is asked, the answer is the event."""
        deadline = time.monotonic() + seconds
        while not condition(about := self.describe()):
            assert time.monotonic() < deadline, (about, self.entries)
            time.sleep(0.02)
        return about

    def end(self, number=signal.SIGTERM):
        """Send a signal and wait; the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(timeout=120)
        self._reader.join(timeout=120)
        self.process.stderr.close()
        return code


@contextmanager
def running(path, stdin=None):
    """A node that is ready, and gone afterwards."""
    node = NodeProcess(path, stdin)
    try:
        node.wait_for("ready")
        yield node
    finally:
        node.end(signal.SIGKILL)


def write_toml(folder, source, rule="fifo", samples=""):
    """A NODE.toml in a folder."""
    path = folder / "NODE.toml"
    path.write_text(TOML.format(source=source, rule=rule, samples=samples))
    return path
