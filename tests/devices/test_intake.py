"""Numbers kept beside the samples: how fast they come, and how well they were predicted."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

from headwater.devices.intake.rate import RecentRate


@pytest.fixture
def eager_threads():
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("eager_threads")
def test_a_rate_is_told_while_samples_come():
    rate, stop = RecentRate(now=0.0), threading.Event()

    def add():
        for now in np.arange(0.0, 1e6, 0.1):
            if stop.is_set():
                return
            rate.add(1, float(now))

    adding = threading.Thread(target=add)
    adding.start()
    try:
        for _ in range(3000):
            assert rate.per_second(now=1.0) >= 0
    finally:
        stop.set()
        adding.join()
