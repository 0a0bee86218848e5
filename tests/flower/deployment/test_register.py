"""Registering a node's key at the SuperLink, also if it failed before or was done already."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from headwater.errors import InputError
from headwater.flower.deployment.certificates import make_server_files
from headwater.flower.deployment.processes import end
from headwater.flower.deployment.superlink import SuperLink, free_port


@pytest.fixture
def asked(monkeypatch):
    """Flower's answers, one for each time that it is asked; an error is raised."""
    answers = []

    def command(link, *words):
        if isinstance(answer := answers.pop(0), Exception):
            raise answer
        return answer

    monkeypatch.setattr(SuperLink, "command", command)
    return answers


def test_a_node_whose_registration_failed_is_registered_the_next_time(tmp_path, asked):
    link = SuperLink(tmp_path, 1, None)
    asked += [InputError("flwr supernode failed: no answer"), "registered"]
    with pytest.raises(InputError, match="no answer"):
        link.register("a")
    key = (tmp_path / "keys" / "a").read_bytes()
    assert link.register("a").read_bytes() == key
    assert asked == []
    link.register("a")  # and is not asked for again: it takes seconds


def test_a_key_without_its_public_half_is_made_anew(tmp_path, asked):
    link = SuperLink(tmp_path, 1, None)
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "a").write_text("half of a")  # its maker was killed
    asked += ["registered"]
    assert b"PRIVATE KEY" in link.register("a").read_bytes()


@pytest.mark.xdist_group("flower")
def test_a_key_that_the_superlink_has_already_is_no_error():
    with tempfile.TemporaryDirectory(prefix="hw-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        link = SuperLink(folder, free_port(), make_server_files(folder / "tls"))
        try:
            link.start()
            link.register("a")
            (folder / "keys" / "a.registered").unlink()  # as if killed before it was noted
            link.register("a")
            assert (folder / "keys" / "a.registered").exists()
        finally:
            end(folder)
