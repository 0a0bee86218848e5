"""All strategies by name: what a user types, a table shows and a stored run is called.

A name is a word, or a word and a number as in ``share-0.5`` or ``optimal-0.15``; the number is the
one that the strategy hangs on. Names and strategies are translated both ways, so that a label says
all there is to say about a strategy and two that differ never share one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headwater.errors import InputError
from headwater.ledger.fading import Fading
from headwater.ledger.forgetting import Forgetting
from headwater.ledger.optimal import Optimal
from headwater.ledger.remembered import Remembered
from headwater.ledger.remembered_online import RememberedOnline
from headwater.ledger.strategies import ByMemory, Fresh, Historical, Share, Strategy, Uniform


@dataclass(frozen=True)
class Entry:
    """A strategy that has a name.

    Attributes:
        name: the word that it goes by.
        about: what it does, in one line.
        kind: its class.
        number: the field that the number in a name stands for; empty if it has none.
        required: whether the name needs the number.
        fixed: fields that set it apart from other entries of the same class.
    """

    name: str
    about: str
    kind: Callable[..., Strategy]
    number: str = ""
    required: bool = False
    fixed: Mapping[str, object] = field(default_factory=dict)

    def make(self, number: float | None = None) -> Strategy:
        """The strategy, with its number where it has one."""
        given = {} if number is None else {self.number: number}
        return self.kind(**given, **self.fixed)

    def owns(self, strategy: Strategy) -> bool:
        """Whether this is the strategy's entry."""
        same = (getattr(strategy, name, None) == value for name, value in self.fixed.items())
        return type(strategy) is self.kind and all(same)

    @property
    def usage(self) -> str:
        """The name as it is typed."""
        return f"{self.name}-X" if self.required else self.name


REGISTRY: Mapping[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry("fresh", "only the clients whose memory changes", Fresh),
        Entry("historical", "only the clients whose memory stays as it is", Historical),
        Entry("memory", "every sample in memory alike, in every round", ByMemory),
        Entry("uniform", "every sample of the run alike", Uniform),
        Entry(
            "optimal",
            "the least of the paper's bound; X is c2/c1",
            Optimal,
            number="ratio",
            fixed={"bound": "paper"},
        ),
        Entry(
            "sharp",
            "the least of the bound with exact noise; X is c2/c1",
            Optimal,
            number="ratio",
            fixed={"bound": "sharp"},
        ),
        Entry(
            "remembered",
            "clients by the samples that the model can remember; X is how much clients differ",
            Remembered,
            number="heterogeneity",
            fixed={"horizon": None, "target": None},
        ),
        Entry(
            "online",
            "the same from what was seen so far, for runs without end",
            RememberedOnline,
            number="heterogeneity",
            fixed={"horizon": 0.25, "target": None},
        ),
        Entry(
            "share",
            "historical clients count X together, from 0 to 1",
            Share,
            number="historical",
            required=True,
        ),
        Entry(
            "fading",
            "as in memory, but old samples count less; X is the half-life in rounds",
            Fading,
            number="half_life",
        ),
        Entry(
            "forgetting",
            "as in memory, until ADWIN hears of a change; X is the chance of a false alarm",
            Forgetting,
            number="delta",
            fixed={"base": ByMemory(), "alarms": ()},
        ),
    )
}
"""Every strategy with a name, in the order in which they are shown."""

NAMES = ", ".join(entry.usage for entry in REGISTRY.values())
"""What can be typed, for help texts and messages."""


def named(name: str) -> Strategy:
    """The strategy of a name.

    >>> named("uniform"), named("share-0.5"), named("optimal")
    (Uniform(), Share(historical=0.5), Optimal(ratio=None, bound='paper'))
    """
    word, dash, text = name.strip().lower().partition("-")
    entry = REGISTRY.get(word)
    if entry is None:
        raise InputError(f"unknown strategy {name!r}; there are: {NAMES}")
    if dash and not entry.number:
        raise InputError(f"strategy {name!r}: {word} takes no number; write {word}")
    if not dash and entry.required:
        raise InputError(f"strategy {name!r} needs a number, as in {word}-0.5")
    return entry.make(_number(name, text) if dash else None)


def label(strategy: Strategy) -> str:
    """The name of a strategy, with its number to the last digit.

    >>> label(Optimal(ratio=0.15, bound="sharp")), label(Share(1.0)), label(Uniform())
    ('sharp-0.15', 'share-1', 'uniform')
    """
    for entry in REGISTRY.values():
        if entry.owns(strategy):
            usual = not entry.required and strategy == entry.make()
            number = getattr(strategy, entry.number) if entry.number and not usual else None
            return entry.name if number is None else f"{entry.name}-{_digits(number)}"
    raise InputError(f"{strategy!r} has no name; those that have: {NAMES}")


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"strategy {name!r}: {text!r} is not a number") from None


def _digits(number: float) -> str:
    """As short as it can be without becoming another number."""
    short = f"{number:g}"
    return short if float(short) == number else repr(float(number))
