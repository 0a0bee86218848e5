"""Databases of a SuperLink's process: Flower's settings, and then ours."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
from sqlalchemy import create_engine, event, text
from headwater.flower.patient_database import be_patient

def flowers_own(connection, _):
    connection.execute("PRAGMA busy_timeout = 5000")
    connection.execute("PRAGMA secure_delete = ON")

{patient}
engine = create_engine("sqlite:///{path}")
event.listen(engine, "connect", flowers_own)
for _ in range(2):  # a connection that is used again, too
    with engine.connect() as connection:
        asked = ("busy_timeout", "secure_delete")
        print(*(connection.execute(text("PRAGMA " + name)).scalar() for name in asked))
"""


def settings(path, patient):
    """In a process of its own: what is listened for is so for all of it."""
    code = PROGRAM.format(patient=patient, path=path)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_who_finds_a_database_locked_waits_and_nothing_is_overwritten(tmp_path):
    assert settings(tmp_path / "a.db", "") == ["5000 1"] * 2
    assert settings(tmp_path / "b.db", "be_patient()") == ["60000 0"] * 2
