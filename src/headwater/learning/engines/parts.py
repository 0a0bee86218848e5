"""A round cut into runs of clients, for those who share its work."""

from __future__ import annotations

import numpy as np

from headwater.ledger.orders import Orders


def balanced(orders: Orders, parts: int) -> list[int]:
    """Where to cut the clients into runs of about equal numbers of samples.

    Part k is the clients ``edges[k]`` … ``edges[k + 1] − 1`` (places in ``orders.clients``); there
    may be none. The cuts depend on nothing but the orders, so that everybody who sees these cuts
    them alike.

    >>> from headwater import Keep, Ledger, Once, Uniform
    >>> from headwater.ledger.orders import LocalWork
    >>> ledger = Ledger.of([10, 10, 40, 20], Once(), Keep(), Uniform(), rounds=1)
    >>> balanced(LocalWork().orders(ledger.round(1)), 2)
    [0, 2, 4]
    """
    middles = (orders.offsets[:-1] + orders.offsets[1:]) / 2
    goals = orders.offsets[-1] * np.arange(1, parts) / parts
    return [0, *np.searchsorted(middles, goals).tolist(), len(orders.clients)]
