"""Numbers kept beside the samples: how fast they come, and how well they were predicted."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from headwater.devices.intake.prequential import Prequential
from headwater.devices.intake.rate import RecentRate
from headwater.devices.memory.database import Database
from headwater.devices.memory.state import State


def test_a_rate_is_told_while_samples_come():
    rate = RecentRate(now=0.0)
    adding = threading.Thread(target=rate.add, args=(1, 2.0))

    class Count(int):
        """Another thread adds a sample at the very moment in which this one is summed up."""

        def __radd__(self, other):
            adding.start()
            adding.join(0.2)
            return int(self) + other

    rate.add(Count(3), now=1.0)
    rate.add(4, now=1.0)
    assert rate.per_second(now=1.0) == 7
    adding.join()


@pytest.mark.parametrize("wrong", [np.inf, np.nan])
@pytest.mark.parametrize("of", ["loss", "metric"])
def test_a_prediction_that_is_no_number_is_counted_and_forgotten(tmp_path, wrong, of):
    database = Database(tmp_path / "m.db")
    state = State(database)
    prequential = Prequential(state)
    scores = {"loss": np.array([0.5, 2.0, 0.5]), "metric": np.array([1.0, 1.0, 1.0])}
    scores[of][1] = wrong
    prequential.add(scores["loss"], scores["metric"])
    prequential.add(np.array([wrong]), np.array([0.0]))
    assert state.number("not_finite") == 2
    assert prequential.report() == {
        "count": 2,
        "loss": 0.5,
        "recent_loss": pytest.approx(0.5),
        "metric": 1,
        "recent_metric": pytest.approx(1),
    }
    database.close()
