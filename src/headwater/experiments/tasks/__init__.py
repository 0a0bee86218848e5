"""The learning tasks by name; each is loaded when it is asked for (:func:`find.find_task`).

On the command line a task goes by its name here, or by ``module:Class`` if it is your own. What it
must have says :class:`headwater.experiments.tasks.task.Task`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """A task that comes with Headwater, described without loading it or PyTorch.

    Attributes:
        name: What it is called on the command line and in tables.
        description: What is learned from whom, in a few words.
        fraction_of: What ``historical`` is a fraction of: "samples" or "clients".
        place: Where its class is, as ``module:Class``.
    """

    name: str
    description: str
    fraction_of: str
    place: str


_HERE = "headwater.experiments.tasks."
_ALL = (
    Entry(
        "synthetic", "coins flipped by logistic clients", "samples", _HERE + "synthetic:Synthetic"
    ),
    Entry("cifar10", "photographs of ten kinds", "samples", _HERE + "cifar:Cifar10Task"),
    Entry("cifar100", "photographs of a hundred kinds", "samples", _HERE + "cifar:Cifar100Task"),
    Entry("femnist", "characters by their writers", "clients", _HERE + "femnist:FemnistTask"),
    Entry("shakespeare", "next letters by role", "clients", _HERE + "shakespeare:ShakespeareTask"),
    Entry("activity", "what phone users do", "clients", _HERE + "activity:ActivityTask"),
    Entry("air", "fine dust six hours ahead", "clients", _HERE + "air:AirTask"),
)
TASKS = {entry.name: entry for entry in _ALL}
"""All tasks that come with Headwater, by name, in the order in which they are listed."""


def fractions_in_words() -> str:
    """What ``historical`` means for which task, for a help text.

    Example:
        >>> fractions_in_words()
        'of the samples (synthetic, cifar10, cifar100) or of the clients (femnist,
        shakespeare, activity, air)'
    """
    kinds = dict.fromkeys(entry.fraction_of for entry in _ALL)
    names = {k: ", ".join(e.name for e in _ALL if e.fraction_of == k) for k in kinds}
    return " or ".join(f"of the {kind} ({names[kind]})" for kind in kinds)
