"""The factor √(M − M_hist) in the paper's price of noise, which exact noise does not need.

The paper bounds the variability Σ v_m p_m² of the gradients by (M − M_hist)·Σ_fresh p_m², so its
price c1 = σ0·(D + 2/√T)·√(M − M_hist) has a factor that belongs to the inequality and not to the
noise. Whoever puts an exact v_m in the place of the paper's 1 has to take that factor out again.
"""

from __future__ import annotations

import math

from headwater.planner.checks import Floats


def slack(fresh_clients: float) -> float:
    """The factor √(M − M_hist) itself.

    >>> slack(25)
    5.0
    """
    return math.sqrt(fresh_clients)


def exact_noise(noise: Floats, fresh_clients: float) -> Floats:
    """The exact noise v_m in units of the paper's c1², so that c2/c1 can stay what it is.

    Without fresh clients nobody has noise, and nothing is to be divided.

    >>> import numpy as np
    >>> exact_noise(np.array([0.0, 0.5]), fresh_clients=2)
    array([0.  , 0.25])
    """
    return noise / max(1.0, fresh_clients)  # the slack's square


def ratio_at(ratio: float, known: float, fresh_clients: float) -> float:
    """The ratio c2/c1 for another number of fresh clients than the ``known`` one it was found at.

    Only the factor in c1 changes; what the ratio says about model and data stays.

    >>> ratio_at(0.15, known=25, fresh_clients=100)
    0.075
    """
    return ratio * slack(known) / slack(max(1.0, fresh_clients))
