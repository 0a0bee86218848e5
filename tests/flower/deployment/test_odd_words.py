"""Words that are not ours, Flower's and a table's, do not end a fleet."""

from __future__ import annotations

import tomllib
from types import SimpleNamespace

import pytest

from headwater.errors import InputError
from headwater.flower.deployment.layout import _node_toml
from headwater.flower.deployment.superlink import _last_json


@pytest.mark.parametrize("text", ["", "Loading project configuration...", "note {no json"])
def test_an_answer_of_flower_without_json_is_one_line(text):
    with pytest.raises(InputError, match="flwr prints no JSON"):
        _last_json(text)


def test_notes_before_flowers_json_are_passed_over():
    assert _last_json('a note\n{"runs": []}') == {"runs": []}


def test_a_columns_name_may_have_quotes_and_backslashes():
    names = ('tem"p', "a\\b", "ok")
    recorded = SimpleNamespace(features=names, scaling=([0.0] * 3, [1.0] * 3), classes=(0, 1))
    fleet = SimpleNamespace(historical=["a"], broker=None, streams=[], capacity=4, speed=1.0)
    settings = tomllib.loads(_node_toml(fleet, recorded, "a"))
    assert settings["samples"]["features"] == list(names)
    assert set(settings["samples"]["scaling"]) == set(names)
