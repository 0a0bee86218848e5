"""Which releases of Flower this room was tested with; others are refused in plain words."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from headwater.errors import InputError

TESTED = ((1, 41), (1, 42))
"""Flower's minor releases that the tests ran with."""


def check(found: str | None = None) -> None:
    """Refuse a Flower that is missing or untested, before it fails in a way nobody understands.

    >>> check("1.41.0")
    >>> check("1.20.0")
    Traceback (most recent call last):
    ...
    headwater.errors.InputError: Flower 1.20.0 is installed; headwater.flower was tested with ...
    """
    found = _installed() if found is None else found
    numbers = tuple(int(part) for part in found.split(".")[:2] if part.isdigit())
    if numbers not in TESTED:
        known = " and ".join(".".join(map(str, pair)) for pair in TESTED)
        raise InputError(
            f"Flower {found} is installed; headwater.flower was tested with {known} only: "
            "pip install 'headwater[flower]' brings one of them"
        )


def _installed() -> str:
    try:
        return version("flwr")
    except PackageNotFoundError:
        raise InputError(
            "Flower is not installed; pip install 'headwater[flower]' brings it"
        ) from None
