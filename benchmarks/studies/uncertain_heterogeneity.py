"""``python -m benchmarks.studies.uncertain_heterogeneity``: should one believe a noisy ρ?

Few clients with few samples tell little about how much clients differ. Should a ρ within its noise
be believed, be shrunk, or count as none? Many fleets are drawn with a known ρ; each choice gets the
analysis of variance of that fleet and pays with Q at the true ρ. What counts is the worst ρ: nobody
knows the true one.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np

from headwater.planner.remembered import remembered_error, remembered_importance
from headwater.randomness import Floats

TRUTHS = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
CHOICES = {
    "as measured": lambda value, _: value,
    "shrunk by its noise": lambda value, error: _shrunk(value, error),
    "less one standard error": lambda value, error: max(0.0, value - error),
    "none below two standard errors": lambda value, error: value if value > 2 * error else 0.0,
    "always none": lambda *_: 0.0,
}


@dataclass(frozen=True)
class Fleet:
    """Historical clients with a few samples each, beside streams.

    Attributes:
        name: What it is like.
        historical: How many historical clients there are; they are all that is measured on.
        samples: What each of them has.
        streams: How many clients stream.
        arrived: What each of those collects over the run.
        held: What each of those holds.
        horizon: τ.
        directions: In how many independent directions gradients scatter.
    """

    name: str
    historical: int
    samples: int
    streams: int
    arrived: int
    held: int
    horizon: float
    directions: int

    @property
    def counts(self) -> list[int]:
        """N_m."""
        return [self.samples] * self.historical + [self.arrived] * self.streams

    @property
    def noise(self) -> list[float]:
        """v_m."""
        stream = 1 / self.held - 1 / self.arrived
        return [0.0] * self.historical + [stream] * self.streams

    def draw(self, rho: float, rng: np.random.Generator) -> Floats:
        """Gradients (clients, samples, directions) with variance 1 within and ρ between clients."""
        shape = (self.historical, self.samples, self.directions)
        means = rng.normal(size=(self.historical, 1, self.directions)) * np.sqrt(rho)
        return (means + rng.normal(size=shape)) / np.sqrt(self.directions)

    def regret(self, believed: float, rho: float) -> float:
        """By how much Q is above its least if one believes another ρ."""
        settings = self.counts, self.noise, self.horizon
        best = remembered_error(remembered_importance(*settings, rho), *settings, rho)
        chosen = remembered_importance(*settings, believed)
        return remembered_error(chosen, *settings, rho) / best - 1


FLEETS = (
    Fleet("10 × 4 samples, 1 stream", 10, 4, 1, 160, 4, 26.0, 5),
    Fleet("3 × 20 samples, 9 streams", 3, 20, 9, 400, 5, 26.0, 10),
    Fleet("20 × 40 samples, 80 streams", 20, 40, 80, 400, 2, 26.0, 20),
)


def measured(gradients: Floats) -> tuple[float, float]:
    """ρ by the analysis of variance, at least 0, and its jackknife error over clients."""
    means, within = gradients.mean(axis=1), gradients.var(axis=1, ddof=1).sum(axis=1)
    everybody = np.arange(len(means))

    def ratio(clients: np.ndarray) -> float:
        noise = within[clients].mean()
        between = means[clients].var(axis=0, ddof=1).sum() - noise / gradients.shape[1]
        return float(between / noise)

    without = np.array([ratio(np.delete(everybody, m)) for m in everybody])
    error = np.sqrt((len(means) - 1) * without.var())
    return max(0.0, ratio(everybody)), float(error)


def _shrunk(value: float, error: float) -> float:
    return value**3 / (value**2 + error**2) if value > 0 else 0.0


def worst(fleet: Fleet, draws: int) -> dict[str, float]:
    """For each choice the mean regret at the ρ where it is largest."""
    rng = np.random.default_rng(0)
    found: dict[str, list[float]] = {name: [] for name in CHOICES}
    for rho in TRUTHS:
        seen = [measured(fleet.draw(rho, rng)) for _ in range(draws)]
        for name, choose in CHOICES.items():
            found[name].append(float(np.mean([fleet.regret(choose(*one), rho) for one in seen])))
    return {name: max(values) for name, values in found.items()}


def main() -> None:
    """Print the table."""
    about = argparse.ArgumentParser(
        prog="python -m benchmarks.studies.uncertain_heterogeneity", description=__doc__
    )
    about.add_argument("--draws", type=int, default=200, help="fleets per ρ")
    draws = about.parse_args().draws
    print(f"| ρ is taken | {' | '.join(fleet.name for fleet in FLEETS)} |")
    print("|---" + "|--:" * len(FLEETS) + "|")
    columns = [worst(fleet, draws) for fleet in FLEETS]
    for name in CHOICES:
        print(f"| {name} | {' | '.join(f'{100 * c[name]:.0f} %' for c in columns)} |")


if __name__ == "__main__":
    main()
