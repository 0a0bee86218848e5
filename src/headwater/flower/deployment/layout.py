"""A fleet's folder: what it is made of, written before anything is started.

fleet.json    the fleet's settings, ports and page token; the supervisor reads nothing else
tls/ keys/    certificates, and one key per node
data/ nodes/  recorded streams, one NODE.toml and one memory per client
broker/       mosquitto's configuration, passwords and access list
app/          the Flower app; run/ its checkpoint and journal
logs/         what every process says
"""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import asdict, dataclass, field
from pathlib import Path

from headwater.devices.node.server import LONGEST_PATH
from headwater.errors import InputError
from headwater.files import replace
from headwater.flower.deployment.certificates import ServerFiles, make_server_files
from headwater.flower.deployment.streams import Recorded
from headwater.flower.deployment.superlink import free_port

ROW = "headwater-row"  # the field with a row's number in its stream
_KNOWN = 10_000  # of a stream's newest rows, by which one that comes again is known
_TESTED = 0.2  # of each stream, its end, is never learned from
_ARCHIVE = 1000  # samples that a historical client has
_APP = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "headwater-fleet"
version = "1.0.0"
description = "A fleet on one machine"
license = "Apache-2.0"

[tool.hatch.build.targets.wheel]
packages = ["fleet_app"]

[tool.flwr.app]
publisher = "headwater"

[tool.flwr.app.components]
serverapp = "fleet_app.server:app"
clientapp = "fleet_app.client:app"

[tool.flwr.app.config]
checkpoint = ""
node = ""
num-rounds = 0
strategy = ""
local-steps = 1
batch-size = 0
learning-rate = 0.1
seed = 0
norm-limit = 0.0
min-clients = 1
deadline = 60.0
ask-again = 15.0
evaluate-every = 5
"""


@dataclass(frozen=True)
class Learning:
    """How the fleet learns; :class:`headwater.flower.StreamFedAvg` explains the settings."""

    strategy: str = "uniform"
    rounds: int = 0  # 0: no end
    local_steps: int = 5
    batch_size: int = 32
    learning_rate: float = 0.1
    seed: int = 0
    evaluate_every: int = 5
    deadline: float = 60.0  # seconds
    ask_again: float = 15.0  # seconds


@dataclass(frozen=True)
class Fleet:
    """All that there is to know about a fleet on this machine.

    Attributes:
        folder: where it lives.
        clients: names of the clients; those in ``historical`` have all samples from the start.
        capacity: of the streams' memories.
        per_second: samples that each stream brings.
        broker: whether streams come over MQTT, or are replayed by the nodes themselves.
        secure: TLS and node keys.
        link_port, broker_port, page_port: on 127.0.0.1.
        token: who has it may look at the page.
        learning: how it learns.
    """

    folder: Path
    clients: tuple[str, ...]
    historical: tuple[str, ...] = ()
    capacity: int = 128
    per_second: float = 5.0
    broker: bool = True
    secure: bool = True
    link_port: int = field(default_factory=free_port)
    broker_port: int = field(default_factory=free_port)
    page_port: int = field(default_factory=free_port)
    token: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    learning: Learning = field(default_factory=Learning)

    def __post_init__(self) -> None:
        paths = [os.fsencode(self.socket(name).absolute()) for name in self.clients]
        beyond = max(map(len, paths), default=0) - LONGEST_PATH
        if beyond > 0:
            raise InputError(
                f"folder {self.folder}: the nodes' sockets in it would have paths that are "
                f"{beyond} bytes too long for the operating system; choose a shorter one"
            )

    @property
    def server_files(self) -> ServerFiles | None:
        """Certificates of SuperLink and broker."""
        tls = self.folder / "tls"
        files = ServerFiles(tls / "ca.crt", tls / "server.pem", tls / "server.key")
        return files if self.secure else None

    @property
    def page(self) -> str:
        """The address of the live page."""
        return f"http://127.0.0.1:{self.page_port}/?token={self.token}"

    @property
    def streams(self) -> tuple[str, ...]:
        """Clients whose samples come in all the time."""
        return tuple(name for name in self.clients if name not in self.historical)

    def node_file(self, client: str) -> Path:
        """A client's NODE.toml."""
        return self.folder / "nodes" / f"{client}.toml"

    def socket(self, client: str) -> Path:
        """Where a client's node listens."""
        return self.folder / "nodes" / client / "run" / "node.sock"

    def save(self) -> None:
        """Write fleet.json, for its owner only: the token is in it."""
        path = self.folder / "fleet.json"
        replace(path, json.dumps(asdict(self) | {"folder": str(self.folder)}, indent=2).encode())
        path.chmod(0o600)

    @classmethod
    def load(cls, folder: Path) -> Fleet:
        """The fleet in a folder."""
        path = folder.resolve() / "fleet.json"
        if not path.exists():
            raise InputError(f"{folder}: there is no fleet here; headwater fleet up makes one")
        found = json.loads(path.read_text())
        found["folder"] = folder.resolve()
        for name in ("clients", "historical"):
            found[name] = tuple(found[name])
        found["learning"] = Learning(**found["learning"])
        return cls(**found)


def prepare(fleet: Fleet, recorded: Recorded) -> None:
    """Write the folder: streams, nodes, certificates, app."""
    folder = fleet.folder
    make_private(folder)
    for client, name in enumerate(recorded.clients):
        split = int(len(recorded.rows[client]) * (1 - _TESTED))
        learned = min(split, _ARCHIVE) if name in fleet.historical else split
        recorded.write(client, folder / "data" / f"{name}.csv", slice(0, learned))
        recorded.write(client, folder / "data" / f"{name}-test.csv", slice(split, None))
        replace(fleet.node_file(name), _node_toml(fleet, recorded, name).encode())
        fleet.node_file(name).chmod(0o600)
    if fleet.secure:
        make_server_files(folder / "tls")
    _write_app(folder / "app")
    fleet.save()


def make_private(folder: Path) -> None:
    """Other users of the machine see nothing of a fleet, whatever the modes of the files in it.

    A folder with other things in it, which others may need, is refused rather than closed.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    about = folder.stat()
    if not about.st_mode & 0o077 or about.st_uid != os.geteuid():
        return  # another's folder, as one that is mounted, is for that one to close
    if any(folder.iterdir()) and not (folder / "fleet.json").exists():
        raise InputError(
            f"--folder {folder}: there are other files in it, and other users may look into it; "
            f"name a new folder, or chmod 700 {folder}"
        )
    folder.chmod(0o700)


def _node_toml(fleet: Fleet, recorded: Recorded, name: str) -> str:
    mean, scale = recorded.scaling
    features = zip(recorded.features, mean, scale, strict=True)
    scaling = "\n".join(
        f"{json.dumps(feature)} = {{ mean = {m:.6g}, scale = {s:.6g} }}"
        for feature, m, s in features
    )
    historical = name in fleet.historical
    memory = 'rule = "keep"' if historical else f'rule = "fifo"\ncapacity = {fleet.capacity}'
    return f"""\
client = "{name}"
folder = "{name}"

[memory]
{memory}

[samples]
features = {json.dumps(list(recorded.features))}
label = "label"
classes = {len(recorded.classes)}
{_once(fleet, name)}

[samples.scaling]
{scaling}

[model]
kind = "linear"

[test]
csv = "../data/{name}-test.csv"

[log]
format = "json"

[source]
{_source(fleet, name)}
"""


def _once(fleet: Fleet, name: str) -> str:
    """What comes over the broker may come again; what a node reads itself does not."""
    over_broker = fleet.broker and name in fleet.streams
    return f'id = "{ROW}"\nonce = {_KNOWN}' if over_broker else ""


def _source(fleet: Fleet, name: str) -> str:
    csv = f'kind = "csv"\npath = "../data/{name}.csv"\n'
    if name in fleet.historical:
        return csv + 'arrivals = { kind = "once" }'
    if not fleet.broker:
        return csv + f"per_second = {fleet.per_second}"
    lines = ['kind = "mqtt"', f'topics = ["streams/{name}"]', f"port = {fleet.broker_port}"]
    lines += [f'username = "{name}"', f'password_file = "../broker/{name}.password"']
    lines.append('ca = "../tls/ca.crt"' if fleet.secure else "tls = false")
    return "\n".join(lines)


def _write_app(folder: Path) -> None:
    """A Flower app that only names the package's own server and client."""
    replace(folder / "pyproject.toml", _APP.encode())
    replace(folder / "fleet_app" / "__init__.py", b"")
    for side in ("server", "client"):
        # Flower looks for an assignment to the name before it imports anything.
        text = f"from headwater.flower import {side}\n\napp = {side}.app\n"
        replace(folder / "fleet_app" / f"{side}.py", text.encode())
