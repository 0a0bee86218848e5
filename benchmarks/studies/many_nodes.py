"""How many nodes one SuperLink carries, and what a node costs it.

    python -m benchmarks.studies.many_nodes --nodes 10,30,100

The SuperLink, ``flwr run`` and the server with ``StreamFedAvg`` are real. The nodes are threads of
this process: each has Flower's own connection to the SuperLink, with heartbeats and its polling
every three seconds, and answers with the package's own client app, but computes no gradient and
starts no process per message. So what is measured is what a SuperLink and a server have to bear:
bytes on the wire, and CPU seconds, which a busy machine does not distort.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context, Message, RecordDict
from flwr.proto.message_pb2 import ObjectTree
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.inflatable.inflatable_utils import (
    pull_and_inflate_object_from_tree,
    push_objects,
)
from flwr.supernode.fleet_http_connection import http_request_response
from httpcore._backends.sync import SyncStream

from benchmarks.harness import machine
from headwater.devices.wire import Frame
from headwater.flower import client
from headwater.flower.deployment.layout import _write_app
from headwater.flower.deployment.processes import end, members
from headwater.flower.deployment.superlink import SuperLink, free_port
from headwater.flower.journal import Journal

POLL = 3.0  # seconds, as in Flower's SuperNode
LINK, SERVER = "headwater.flower.superlink", "flwr-serverapp"
NODE = """\
client = "model"
[memory]
rule = "keep"
[samples]
features = [{features}]
label = "y"
classes = 2
[model]
kind = "perceptron"
hidden = [{hidden}]
"""


def answer(path: Path, frame: Frame, patience: float = 0.0) -> Frame:  # noqa: ARG001 (a node's)
    """What a node would say that has a hundred samples and need not move."""
    counts: dict[str, Any] = {"arrived": 100, "held": 100, "rate": 0.0, "prequential": {"count": 0}}
    header = frame.header
    if header["do"] == "describe":
        about = {"memory": "Fifo", "capacity": 100, "historical": False, "declared": None}
        return Frame(about | counts)
    reply = {"run": header["run"], "round": header["round"], "samples": 100}
    return Frame(reply | counts, {"move": np.zeros_like(frame.arrays["parameters"])})


class WireCount:
    """Bytes that this process's HTTP connections have sent and received, headers and all.

    They are counted by threads: a sum that many threads add to would lose some.
    """

    def __init__(self) -> None:
        self._by_thread: dict[int, int] = {}
        read, write = SyncStream.read, SyncStream.write

        def counted_read(stream: SyncStream, most: int, timeout: float | None = None) -> bytes:
            data = read(stream, most, timeout)
            self._add(len(data))
            return data

        def counted_write(stream: SyncStream, data: bytes, timeout: float | None = None) -> None:
            self._add(len(data))
            write(stream, data, timeout)

        SyncStream.read, SyncStream.write = counted_read, counted_write

    @property
    def total(self) -> int:
        return sum(list(self._by_thread.values()))

    @property
    def mine(self) -> int:
        """Those of the thread that asks."""
        return self._by_thread.get(threading.get_ident(), 0)

    def _add(self, count: int) -> None:
        self._by_thread[threading.get_ident()] = self.mine + count


class ThreadNode(threading.Thread):
    """A SuperNode's loop without its processes.

    Attributes:
        here: it has asked for messages at least once.
        polled: bytes of looking for messages in vain.
    """

    def __init__(self, number: int, address: str, stop: threading.Event, wire: WireCount) -> None:
        super().__init__(daemon=True)
        self.config: dict[str, bool | float | int | str] = {
            "client-id": f"node{number}",
            "socket": "/none",
        }
        self._address, self._stop_event, self._wire = address, stop, wire
        self.here = threading.Event()
        self.polled = 0

    def run(self) -> None:
        app = client.node_app()
        with http_request_response(self._address, True) as connection:
            node, receive, send, _, _, pull, push, confirm = connection
            while not self._stop_event.is_set():
                before = self._wire.mine
                received = receive()
                self.here.set()
                if received is None:
                    self.polled += self._wire.mine - before
                    self._stop_event.wait(POLL)
                    continue
                message = self._whole(received, pull, confirm)
                context = Context(
                    message.metadata.run_id, node, self.config, RecordDict(), run_config={}
                )
                self._reply(app(message, context), send, push)

    def _whole(
        self,
        received: tuple[Message, ObjectTree],
        pull: Callable[[int, str], bytes],
        confirm: Callable[[int, str], None],
    ) -> Message:
        head, tree = received
        run = head.metadata.run_id
        message = pull_and_inflate_object_from_tree(
            tree, lambda id: pull(run, id), lambda id: confirm(run, id), return_type=Message
        )
        message.metadata.__dict__["_message_id"] = tree.object_id
        return message

    def _reply(
        self,
        reply: Message,
        send: Callable[[Message, ObjectTree, float], tuple[set[str], str]],
        push: Callable[[int, str, str, bytes], None],
    ) -> None:
        run = reply.metadata.run_id
        reply.metadata.__dict__["_message_id"] = reply.object_id
        wanted, session = send(reply, get_object_tree(reply), 0.1)
        push_objects(
            get_all_nested_objects(reply),
            lambda id, content: push(run, session, id, content),
            object_ids_to_push=wanted,
        )


@contextmanager
def federation(
    folder: Path, nodes: int, wire: WireCount
) -> Iterator[tuple[SuperLink, list[ThreadNode]]]:
    """A SuperLink with so many nodes; all is over afterwards."""
    link, stop = SuperLink(folder, free_port(), None), threading.Event()
    link.start()
    threads = [ThreadNode(number, link.address, stop, wire) for number in range(nodes)]
    try:
        for thread in threads:
            thread.start()
        yield link, threads
    finally:
        stop.set()
        for thread in threads:
            thread.join(10)
        end(folder)


def cpu_seconds(folder: Path, program: str) -> float:
    """What a program of this federation has used of the processors."""
    return sum(_stat(pid)[0] for pid in _find(folder, program))


def resident(folder: Path, program: str) -> float:
    """Megabytes in RAM."""
    return sum(_stat(pid)[1] for pid in _find(folder, program))


def _find(folder: Path, program: str) -> list[int]:
    return [
        pid
        for pid in members(folder)
        if program in Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    ]


def _stat(pid: int) -> tuple[float, float]:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    pages = int(fields[21])
    return ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def measure(nodes: int, args: argparse.Namespace, wire: WireCount) -> str:
    """One line of the table. What polling costs is measured first, and taken off the rounds."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hw")))
        link, threads = stack.enter_context(federation(folder, nodes, wire))
        features = ", ".join(f'"f{k}"' for k in range(args.features))
        node = folder / "model.toml"
        node.write_text(NODE.format(features=features, hidden=args.hidden))
        _write_app(folder / "app")
        while not all(thread.here.is_set() for thread in threads):
            time.sleep(0.2)
        before = _mark(folder, wire, threads)
        time.sleep(args.idle)
        idle = _mark(folder, wire, threads) - before
        polling = idle / idle[0]  # a second
        run: dict[str, str | int | float] = {
            "checkpoint": str(folder / "run"),
            "node": str(node),
            "min-clients": nodes,
        }
        run |= {"deadline": args.deadline, "ask-again": args.deadline}
        link.submit(folder / "app", run | {"num-rounds": args.rounds, "evaluate-every": 0})
        # the first round has the server's own start in it: those after it are looked at
        marks = list(_rounds(folder, wire, threads, args.rounds))
        whole = marks[-1] - marks[0]
        times = nodes * (args.rounds - 1)
        # Looking in vain is counted as such; of heartbeats and of the processors' time we take off
        # what they take while nothing else happens.
        heartbeats = (polling[1] - polling[2]) * whole[0]
        traffic = (whole[1] - whole[2] - heartbeats) / times
        link_cpu, server_cpu = (whole - polling * whole[0])[3:] / times
        memory = [resident(folder, name) for name in (LINK, SERVER)]
        entries = Journal(folder / "run" / "rounds.jsonl").read()
        came = sum(share > 0 for entry in entries for share in entry.counted)
        cells = [
            f"{nodes}",
            f"{came} of {nodes * args.rounds}",
            f"{whole[0] / (args.rounds - 1):.0f}",
            f"{traffic / 1e3:.1f}",
            f"{1e3 * link_cpu:.0f}",
            f"{1e3 * server_cpu:.0f}",
            f"{polling[1] / nodes:.0f}",
            f"{1e3 * polling[3] / nodes:.1f}",
            *(f"{megabytes:.0f}" for megabytes in memory),
        ]
        return f"| {' | '.join(cells)} |"


def _mark(folder: Path, wire: WireCount, nodes: list[ThreadNode]) -> np.ndarray:
    """Now: seconds, bytes of all and of polling, CPU seconds of SuperLink and server."""
    polled = sum(node.polled for node in nodes)
    cpu = [cpu_seconds(folder, name) for name in (LINK, SERVER)]
    return np.array([time.monotonic(), wire.total, polled, *cpu])


def _rounds(
    folder: Path, wire: WireCount, nodes: list[ThreadNode], rounds: int
) -> Iterator[np.ndarray]:
    """A mark after each round."""
    journal = Journal(folder / "run" / "rounds.jsonl")
    for number in range(1, rounds + 1):
        while len(journal.read()) < number:
            time.sleep(0.2)
        yield _mark(folder, wire, nodes)


def main() -> None:
    about = argparse.ArgumentParser(
        prog="python -m benchmarks.studies.many_nodes",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    about.add_argument("--nodes", default="10,30,100")
    about.add_argument("--rounds", type=int, default=4)
    about.add_argument("--features", type=int, default=8)
    about.add_argument("--hidden", type=int, default=32, help="units; parameters follow from it")
    about.add_argument("--idle", type=float, default=20.0, help="seconds of idle polling looked at")
    about.add_argument("--deadline", type=float, default=3600.0, help="seconds for a round")
    args = about.parse_args()
    client.ask_node = answer
    parameters = (args.features + 1) * args.hidden + (args.hidden + 1) * 2
    command = "python -m benchmarks.studies.many_nodes --nodes " + args.nodes
    print(machine.describe(command).words())
    print(f"{parameters} parameters, {4 * parameters / 1e3:.1f} kB, {args.rounds} rounds\n")
    head = [
        "nodes",
        "updates",
        "s a round",
        "kB a node and round",
        "SuperLink, CPU ms a node and round",
        "server, CPU ms a node and round",
        "polling, bytes a node and second",
        "polling, SuperLink CPU ms a node and second",
        "SuperLink, MB",
        "server, MB",
    ]
    print(f"| {' | '.join(head)} |\n{'|--:' * len(head)}|")
    wire = WireCount()
    for nodes in map(int, args.nodes.split(",")):
        print(measure(nodes, args, wire), flush=True)


if __name__ == "__main__":
    main()
