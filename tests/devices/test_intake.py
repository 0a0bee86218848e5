"""Numbers kept beside the samples: how fast they come, and how well they were predicted."""

from __future__ import annotations

import threading

from headwater.devices.intake.rate import RecentRate


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
