"""Flower's own processes, started as its documentation wants them: SuperLink, SuperNodes, runs.

Every wait is for an event (a port that answers, a node that is registered), never for a number of
seconds that was enough once.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from headwater.errors import InputError
from headwater.files import replace
from headwater.flower.deployment.certificates import ServerFiles, make_node_key
from headwater.flower.deployment.processes import Part, environment, launch

_LONGEST = 300.0  # seconds of a command; where all cores are busy its start alone takes a minute
_KNOWN = "Public key already in use"  # Flower's words for a key that it has
NAME = "headwater"  # of the connection in Flower's own configuration


@dataclass(frozen=True)
class SuperLink:
    """Where a SuperLink listens, and how to reach it.

    Attributes:
        folder: of the fleet.
        port: on 127.0.0.1; one for nodes, runs and the command line.
        files: certificates; None: without encryption and node keys.
    """

    folder: Path
    port: int
    files: ServerFiles | None

    @property
    def address(self) -> str:
        """Host and port, as Flower's options want them."""
        return f"127.0.0.1:{self.port}"

    def start(self, *options: str) -> Part:
        """Start it, with more options of Flower's if you like, and wait until it answers."""
        command: list[str | Path] = [
            *(sys.executable, "-m", "headwater.flower.superlink"),
            *("--host", "127.0.0.1", "--port", str(self.port)),
            *("--database", self.folder / "superlink.db"),
            "--disable-runtime-dependency-installation",
            *options,
        ]
        if self.files is None:
            command.append("--insecure")
        else:
            command += ["--ssl-ca-certfile", self.files.authority]
            command += ["--ssl-certfile", self.files.certificate]
            command += ["--ssl-keyfile", self.files.key, "--enable-supernode-auth"]
        self._configure()
        wait_until_free(self.port)
        part = launch(self.folder, "superlink", command, environment(self.folder))
        until(lambda: answers(self.port), part, 60.0)
        return part

    def _configure(self) -> None:
        """Tell Flower's command line where the SuperLink is."""
        lines = ["[superlink]", f'default = "{NAME}"', f"[superlink.{NAME}]"]
        lines.append(f'address = "{self.address}"')
        if self.files is None:
            lines.append("insecure = true")
        else:
            lines.append(f'root-certificates = "{self.files.authority}"')
        replace(self.folder / "flwr" / "config.toml", "\n".join(lines).encode() + b"\n")

    def register(self, client: str) -> Path:
        """Make a node's key and let the SuperLink know its public half, once."""
        key = self.folder / "keys" / client
        public, registered = (key.with_name(f"{client}{end}") for end in (".pub", ".registered"))
        if not registered.exists():
            if not public.exists():
                make_node_key(key)
            try:
                self.command("supernode", "register", str(public), NAME)
            except InputError as error:
                if _KNOWN not in str(error):  # it was told, and we were killed before we noted it
                    raise
            replace(registered, b"")
        return key

    def start_node(self, client: str, port: int, config: Mapping[str, str]) -> Part:
        """Start the SuperNode of a client; ``port`` is for its own processes on this machine."""
        settings = " ".join(f'{key}="{value}"' for key, value in config.items())
        command: list[str | Path] = [
            *(sys.executable, "-m", "headwater.flower.supernode"),
            *("--superlink", self.address, "--port", str(port), "--node-config", settings),
        ]
        if self.files is None:
            command.append("--insecure")
        else:
            command += ["--root-certificates", self.files.authority]
            command += ["--auth-supernode-private-key", self.register(client)]
        return launch(self.folder, f"supernode-{client}", command, environment(self.folder))

    def submit(
        self, app: Path, settings: Mapping[str, str | int | float | bool], *options: str
    ) -> str:
        """Start a run of a Flower app, with more options of ``flwr run``; returns its number."""
        pairs = " ".join(f"{key}={_toml(value)}" for key, value in settings.items())
        answer = self.command("run", str(app), NAME, *options, "--format", "json", "-c", pairs)
        found = _last_json(answer)
        if "run-id" not in found:
            raise InputError(f"flwr run {app} failed: {found}")
        return str(found["run-id"])

    def runs(self) -> list[dict[str, str]]:
        """What Flower knows about its runs."""
        answer = _last_json(self.command("list", NAME, "--format", "json"))
        runs = answer.get("runs", [])
        assert isinstance(runs, list)
        return runs

    def status(self, run: str) -> str:
        """What Flower says about a run, as in "running" or "finished:completed"."""
        return next((r["status"] for r in self.runs() if str(r["run-id"]) == run), "unknown")

    def command(self, *words: str) -> str:
        """Run Flower's command line; what it prints."""
        try:
            done = subprocess.run(
                ["flwr", *words],
                env=environment(self.folder),
                cwd=self.folder,
                capture_output=True,
                text=True,
                timeout=_LONGEST,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise InputError(
                f"flwr {' '.join(words[:2])} did not end within {error.timeout:.0f} s"
            ) from None
        if done.returncode:
            said = f"{done.stdout}\n{done.stderr}".strip()
            raise InputError(f"flwr {' '.join(words[:2])} failed: {said[-2000:]}")
        return done.stdout


def free_port() -> int:
    """A port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    """Does somebody listen on this port of this machine?"""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_until_free(port: int, seconds: float = 20.0) -> None:
    """Until nobody listens any more: one that was just killed may still seem to."""
    deadline = time.monotonic() + seconds
    while answers(port):
        if time.monotonic() > deadline:
            raise InputError(f"port {port} of 127.0.0.1 is taken by another program")
        time.sleep(0.05)


def until(ready: Callable[[], bool], part: Part, seconds: float) -> None:
    """Wait for an event that a process is to bring about."""
    deadline = time.monotonic() + seconds
    while not ready():
        if not part.alive or time.monotonic() > deadline:
            why = "did not answer in time" if part.alive else "ended"
            raise InputError(f"{part.name} {why}; its last words in {part.log}:\n{_tail(part.log)}")
        time.sleep(0.05)


def _tail(log: Path, lines: int = 15) -> str:
    text = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join(text[-lines:])


def _toml(value: str | int | float | bool) -> str:
    return json.dumps(value)


def _last_json(text: str) -> dict[str, object]:
    """Flower prints notes before its JSON; where there is none, its words are the error."""
    _, brace, rest = text.partition("{")
    try:
        found: dict[str, object] = json.loads(brace + rest)
    except json.JSONDecodeError as error:
        raise InputError(f"flwr prints no JSON: {text.strip()[-300:] or 'nothing'}") from error
    return found
