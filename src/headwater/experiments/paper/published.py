"""What the paper prints: its three tables of accuracies and its table of constants.

Numbers as they stand in the TeX, mistakes included; accuracies in percent.
"""

from __future__ import annotations

from dataclasses import dataclass

FRACTIONS = (0.05, 0.2, 0.5)
GRID = (0.0, 0.2, 0.5, 0.8, 1.0)
"""The values of p_hist among which the paper's Optimal is the best."""
DATASETS = {
    "synthetic": "Synthetic",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "femnist": "FEMNIST",
    "shakespeare": "Shakespeare",
}


@dataclass(frozen=True)
class Published:
    """One line of a table of accuracies: ĉ2/ĉ1, p̂_hist, and (mean, ±) for each strategy."""

    ratio: float
    share: float
    fresh: tuple[float, float]
    historical: tuple[float, float]
    uniform: tuple[float, float]
    ours: tuple[float, float]
    optimal: tuple[float, float]


@dataclass(frozen=True)
class PublishedConstants:
    """One line of the appendix's table: D, G, B and d."""

    diameter: float
    gradient_norm: float
    loss_bound: float
    parameters: int


_Line = Published
# fmt: off
TABLES: dict[float, dict[str, Published]] = {
    0.05: {
        "synthetic": _Line(0.094, 0.06, (82.4, 1.89), (68.1, 2.39), (82.7, 1.94), (82.7, 1.90), (82.9, 2.17)),
        "cifar10": _Line(0.150, 0.12, (59.5, 0.77), (48.2, 0.21), (60.7, 0.58), (61.0, 0.42), (63.7, 0.57)),
        "cifar100": _Line(0.284, 0.08, (23.5, 0.65), (13.5, 0.41), (24.4, 0.54), (25.2, 0.66), (27.8, 0.39)),
        "femnist": _Line(0.001, 1.00, (55.2, 1.79), (65.7, 0.09), (58.4, 1.80), (65.7, 0.09), (65.7, 0.09)),
        "shakespeare": _Line(0.064, 1.00, (40.2, 0.34), (49.0, 0.06), (41.0, 1.33), (49.0, 0.06), (49.0, 0.06)),
    },
    0.2: {
        "synthetic": _Line(0.092, 0.20, (84.7, 1.44), (77.3, 3.15), (85.5, 1.60), (85.5, 1.60), (85.5, 1.60)),
        "cifar10": _Line(0.150, 0.45, (59.6, 0.94), (59.8, 2.16), (61.5, 0.63), (66.9, 0.81), (67.7, 0.91)),
        "cifar100": _Line(0.284, 0.32, (22.4, 0.57), (22.6, 0.50), (25.3, 0.43), (28.5, 0.57), (31.5, 0.25)),
        "femnist": _Line(0.001, 1.00, (53.3, 1.85), (66.1, 0.20), (55.4, 0.80), (66.1, 0.20), (66.1, 0.80)),
        "shakespeare": _Line(0.064, 1.00, (38.4, 0.43), (49.0, 0.26), (39.3, 0.38), (49.0, 0.26), (49.0, 0.26)),
    },
    0.5: {
        "synthetic": _Line(0.085, 0.50, (84.2, 1.27), (84.8, 1.58), (86.5, 1.20), (86.5, 1.20), (86.5, 1.20)),
        "cifar10": _Line(0.150, 0.95, (52.1, 2.98), (64.1, 5.60), (65.1, 0.66), (68.7, 0.37), (69.4, 0.25)),
        "cifar100": _Line(0.284, 0.69, (17.5, 0.57), (29.4, 1.40), (29.7, 0.55), (34.4, 0.31), (34.4, 0.31)),
        "femnist": _Line(0.001, 1.00, (48.3, 2.98), (66.2, 0.23), (57.8, 1.93), (66.2, 0.23), (66.2, 0.23)),
        "shakespeare": _Line(0.095, 1.00, (30.9, 0.51), (44.1, 0.27), (41.1, 0.56), (44.1, 0.27), (44.1, 0.27)),
    },
}
CONSTANTS: dict[str, PublishedConstants] = {
    "synthetic": PublishedConstants(1.9, 0.4, 0.7, 21),
    "cifar10": PublishedConstants(1.0, 5.5, 2.3, 3_353_034),
    "cifar100": PublishedConstants(1.0, 4.7, 4.6, 3_537_444),
    "femnist": PublishedConstants(5.9, 12.9, 3.5, 867_390),
    "shakespeare": PublishedConstants(2.6, 1.4, 6.1, 226_180),
}
# fmt: on
