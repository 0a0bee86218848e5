"""The first trials of the campaign (``make soak``): none is wrong, stuck or ends in a traceback."""

import pytest
from tests.soak import damage, inputs, kills, simulation, tables
from tests.soak.trial import BAD


@pytest.mark.parametrize("part", range(2))
def test_bad_inputs_are_answered(part: int) -> None:
    for number in range(25 * part, 25 * (part + 1)):
        verdict, what = inputs.trial(number)
        assert verdict not in BAD, f"{number}: {what}"


@pytest.mark.parametrize("number", range(8))
def test_tables_and_node_files_are_read_or_named(number: int) -> None:
    verdict, what = tables.trial(number)
    assert verdict not in BAD, what


@pytest.mark.parametrize("number", range(10))
def test_damaged_files_are_mended_or_named(number: int) -> None:
    verdict, what = damage.trial(number)
    assert verdict not in BAD, what


@pytest.mark.parametrize("number", [0])
def test_killed_runs_go_on_and_end_with_the_same_bits(number: int) -> None:
    verdict, what = kills.trial(number)
    assert verdict == "fine", what


@pytest.mark.parametrize("number", range(5))
def test_killed_programs_go_on_and_end_with_the_same_bits(number: int) -> None:
    verdict, what = simulation.trial(number)
    assert verdict == "fine", what


@pytest.mark.parametrize("number", [153, 181])
def test_inputs_that_once_ended_in_a_traceback(number: int) -> None:
    verdict, what = inputs.trial(number)
    assert verdict not in BAD, what
