"""Mosquitto for a fleet: TLS, one password per client, and each client reads its own topic only."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from base64 import b64encode
from pathlib import Path

from headwater.errors import InputError
from headwater.files import replace
from headwater.flower.deployment.layout import Fleet
from headwater.flower.deployment.names import FEEDER
from headwater.flower.deployment.processes import Part, environment, launch
from headwater.flower.deployment.superlink import answers, until, wait_until_free

_ITERATIONS = 101


def write_configuration(fleet: Fleet) -> None:
    """Users, what they may do, and where the broker listens."""
    folder = fleet.folder / "broker"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    users, rights = [], [f"user {FEEDER}", "topic write streams/#"]
    for name in (FEEDER, *fleet.streams):
        password = secrets.token_urlsafe(18)
        _private(folder / f"{name}.password", password)
        users.append(f"{name}:{hashed(password)}")
        rights += [f"user {name}", f"topic read streams/{name}"] if name != FEEDER else []
    _private(folder / "users", "\n".join(users) + "\n")
    _private(folder / "rights", "\n".join(rights) + "\n")
    lines = [
        f"listener {fleet.broker_port} 127.0.0.1",
        "allow_anonymous false",
        f"password_file {folder / 'users'}",
        f"acl_file {folder / 'rights'}",
        "persistence true",
        f"persistence_location {folder}/",
        "autosave_interval 5",
        "max_packet_size 65536",  # a sample is small; nothing else has a place here
        "max_queued_messages 100000",
    ]
    if os.geteuid() == 0:
        lines.append("user root")  # as nobody it could not read these files, which are ours alone
    if fleet.server_files is not None:
        lines += [f"certfile {fleet.server_files.certificate}"]
        lines += [f"keyfile {fleet.server_files.key}"]
    _private(folder / "mosquitto.conf", "\n".join(lines) + "\n")


def start(fleet: Fleet) -> Part:
    """Start the broker and wait until it answers."""
    program = find()
    if program is None:
        raise InputError("mosquitto is not installed; headwater fleet up --no-broker does without")
    surroundings = environment(fleet.folder)
    command = [program, "-c", str(fleet.folder / "broker" / "mosquitto.conf")]
    wait_until_free(fleet.broker_port)
    part = launch(fleet.folder, "broker", command, surroundings)
    until(lambda: answers(fleet.broker_port), part, 20.0)
    return part


def find() -> str | None:
    """Where mosquitto is; Debian puts it where ordinary users do not look."""
    return shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")


def hashed(password: str) -> str:
    """A password as mosquitto stores it: PBKDF2 with SHA-512."""
    salt = os.urandom(12)
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _ITERATIONS)
    return f"$7${_ITERATIONS}${b64encode(salt).decode()}${b64encode(digest).decode()}"


def _private(path: Path, content: str) -> None:
    replace(path, content.encode())
    path.chmod(0o600)
