"""Importances by remembered samples: a closed form with no unknown constant but the horizon.

Near a minimum, SGD turns two errors into losses that add as they are: what is missing because a
client has only N_m samples, and what a round's gradient is off because it draws only some of them
(noise v_m, in units of the per-sample variance σ0²). A model that forgets within τ rounds averages
the noise of about τ rounds, so that together they are proportional to

    Σ_m p_m² · (1/N_m + v_m/τ) = Σ_m p_m² / n_m(τ).

n_m(τ) is the number of samples that the model can *remember* of client m: all N_m of a client that
draws enough of them, about τ rounds' worth of a stream. Clients that differ add the same two errors
between clients. Let the clients' mean gradients scatter around their common mean with the variance
ρ·σ0², let α_m be how much the error on each client matters, and let g_m be the relative variance
over the rounds of how much a client counts (1/f − 1 if it is there in a fraction f of them):

    Q(p) = Σ_m p_m² (1/N_m + v_m/τ)  +  ρ · Σ_m [ (p_m − α_m)² + p_m² g_m/τ ].

**The minimiser on the simplex is closed.** Stationarity says p_m = (ρ·α_m + ν) / d_m with
d_m = 1/N_m + v_m/τ + ρ·(1 + g_m/τ) and one number ν for all clients, which Σ p_m = 1 fixes:

    ν = (1 − Σ ρ·α_m/d_m) / Σ 1/d_m.

As d_m > ρ and Σ α_m ≤ 1, ν is positive, so that no p_m is negative and no client has to be left
out: there is nothing to search for. The numerator is computed as Σ α_m·(d_m − ρ)/d_m, in which
nothing cancels, and everything is divided by 1 + ρ, so that ρ may be infinite.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from headwater.errors import InputError
from headwater.planner.checks import Floats, counts, mask, non_negatives, number


def remembered_samples(samples: npt.ArrayLike, noise: npt.ArrayLike, horizon: float) -> Floats:
    """Give n_m(τ), how many samples of each client the model can remember.

    Args:
        samples: N_m, how many samples each client has.
        noise: v_m, the noise of each client's round, as drawn; 1/b − 1/N for a client that keeps
            its b newest samples and uses all of them, 0 for one that uses all it ever has.
        horizon: τ, over how many rounds the model forgets; above 0, may be infinite.

    Example:
        >>> remembered_samples([100, 400], [0.0, 1 / 4 - 1 / 400], horizon=25).round(1)
        array([100. ,  80.6])
    """
    counted = counts(samples)
    rounds = number(horizon, "horizon", infinite=True, positive=True)
    return 1 / (1 / counted + non_negatives(noise, counted.size, "noise") / rounds)


def remembered_importance(
    samples: npt.ArrayLike,
    noise: npt.ArrayLike,
    horizon: float,
    heterogeneity: float = 0.0,
    target: npt.ArrayLike | None = None,
    absence: npt.ArrayLike | None = None,
    clients: npt.ArrayLike | None = None,
) -> Floats:
    """Minimise Q(p) over the importances p, exactly, in a few passes over the clients.

    Only counts up to now are needed, so that it can be asked again in every round of a run without
    end.

    Args:
        samples: N_m, how many samples each client has.
        noise: v_m, the noise of each client's round, as drawn.
        horizon: τ, over how many rounds the model forgets; above 0, may be infinite.
        heterogeneity: ρ, the variance between clients over that within; 0: clients are alike;
            infinity: only the target counts, and who is away how often.
        target: α_m, how much the error on each client matters; None: every client the same.
        absence: g_m, the relative variance over the rounds of how much a client counts, 1/f − 1 for
            one that is there in a fraction f of them; None: all are always there.
        clients: how many clients each entry stands for; None: one.

    Returns:
        The importance p_m of each client. Times ``clients`` they sum to one.

    Example:
        >>> alike = remembered_importance([100, 400], [0.0, 1 / 4 - 1 / 400], horizon=25)
        >>> differ = remembered_importance([100, 400], [0.0, 0.2475], 25, heterogeneity=1.0)
        >>> alike.round(3), differ.round(3)
        (array([0.554, 0.446]), array([0.501, 0.499]))
    """
    counted = counts(samples)
    many = np.ones(counted.size) if clients is None else _numbers_of_clients(clients, counted.size)
    alpha = _target(target, many)
    within, between = _scales(heterogeneity)
    rounds = number(horizon, "horizon", infinite=True, positive=True)
    away = 0.0 if absence is None else non_negatives(absence, counted.size, "absence") / rounds
    # d_m − ρ and d_m of the docstring above, both over 1 + ρ.
    excess = within / remembered_samples(samples, noise, rounds) + between * away
    divisor = excess + between
    left = max(0.0, 1 - math.fsum(many * alpha)) + math.fsum(many * alpha * excess / divisor)
    level = left / math.fsum(many / divisor)
    return (between * alpha + level) / divisor


def remembered_share(
    samples: npt.ArrayLike,
    noise: npt.ArrayLike,
    fresh: npt.ArrayLike,
    horizon: float,
    heterogeneity: float = 0.0,
    target: npt.ArrayLike | None = None,
    absence: npt.ArrayLike | None = None,
) -> float:
    """Minimise Q over the one number that the paper's tables vary, p_hist.

    Historical clients count s together and fresh ones 1 − s, within each group by samples. Along
    that line Q is a parabola in s, whose least value within [0, 1] is closed as well.

    Args:
        samples: N_m, how many samples each client has.
        noise: v_m, the noise of each client's round, as drawn.
        fresh: True for each client that streams; there must be some of each kind.
        horizon: τ, over how many rounds the model forgets.
        heterogeneity: ρ, the variance between clients over that within; finite.
        target: α_m; None: every client the same.
        absence: g_m; None: all are always there.

    Returns:
        The share s of the historical clients.

    Example:
        >>> round(remembered_share([100, 400], [0.0, 0.2475], [False, True], horizon=25), 3)
        0.554
    """
    counted = counts(samples)
    streams = mask(fresh, counted.size)
    if streams.all() or not streams.any():
        raise InputError("fresh: a share needs clients of both kinds, historical and fresh")
    old = np.where(streams, 0.0, counted) / counted[~streams].sum()
    new = np.where(streams, counted, 0.0) / counted[streams].sum()
    alpha = _target(target, np.ones(counted.size))
    rho = number(heterogeneity, "heterogeneity")
    away = 0.0 if absence is None else non_negatives(absence, counted.size, "absence") / horizon
    curvature = 1 / remembered_samples(samples, noise, horizon) + rho * (1 + away)
    # Q(new + s·(old − new)) is Σ curvature·p² − 2ρ·Σ α·p and what s does not change.
    line = old - new
    slope = rho * math.fsum(alpha * line) - math.fsum(curvature * new * line)
    return min(1.0, max(0.0, slope / math.fsum(curvature * line * line)))


def remembered_error(
    importance: npt.ArrayLike,
    samples: npt.ArrayLike,
    noise: npt.ArrayLike,
    horizon: float,
    heterogeneity: float = 0.0,
    target: npt.ArrayLike | None = None,
    absence: npt.ArrayLike | None = None,
) -> float:
    """Evaluate Q(p), in units of σ0²/(2λ), for a finite heterogeneity.

    Args:
        importance: p_m, one number per client.
        samples: N_m, how many samples each client has.
        noise: v_m, the noise of each client's round, as drawn.
        horizon: τ, over how many rounds the model forgets.
        heterogeneity: ρ, the variance between clients over that within.
        target: α_m; None: every client the same.
        absence: g_m; None: all are always there.

    Example:
        >>> remembered_error([0.5, 0.5], [100, 400], [0.0, 0.2475], horizon=25)
        0.0056...
    """
    remembered = remembered_samples(samples, noise, horizon)
    shares = non_negatives(importance, remembered.size, "importance")
    alpha = _target(target, np.ones(remembered.size))
    away = 0.0 if absence is None else non_negatives(absence, remembered.size, "absence") / horizon
    between = np.square(shares - alpha) + np.square(shares) * away
    rho = number(heterogeneity, "heterogeneity")
    return math.fsum(np.square(shares) / remembered) + rho * math.fsum(between)


def _scales(heterogeneity: float) -> tuple[float, float]:
    """Give 1/(1 + ρ) and ρ/(1 + ρ)."""
    rho = number(heterogeneity, "heterogeneity", infinite=True)
    return 1 / (1 + rho), 1.0 if rho == math.inf else rho / (1 + rho)


def _target(target: npt.ArrayLike | None, many: Floats) -> Floats:
    """Check α, which may sum to less than one if some that matter cannot be learned from."""
    if target is None:
        return np.full(many.size, 1 / many.sum())
    alpha = non_negatives(target, many.size, "target")
    if float(many @ alpha) > 1 + 1e-6:
        raise InputError(
            f"target sums to {float(many @ alpha):.9g}; the shares of all clients sum to at most 1"
        )
    return alpha


def _numbers_of_clients(clients: npt.ArrayLike, rows: int) -> Floats:
    many = non_negatives(clients, rows, "clients")
    if not many.any():
        raise InputError("clients is 0 everywhere; there must be at least one client")
    return many
