"""Arrivals that a client declares: its stream follows them round by round.

What a client says of itself may be anything. A server that believed it would build a ledger of as
many samples as somebody likes to claim, so it is checked before a client is taken in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwater.errors import InputError
from headwater.ledger.arrivals import Arrivals, Constant, Once, Poisson, Trace

_MOST = 10_000_000  # samples that a client may declare: some 100 MB of a server's ledger
_FIELDS = ("kind", "samples", "rate", "counts")
_KINDS = ("once", "constant", "poisson", "trace")


def check_declared(client: str, declared: object) -> dict[str, Any] | None:
    """A declaration that makes sense; None if there is none.

    >>> check_declared("a", {"kind": "constant", "rate": 4, "samples": 40, "more": 1})
    {'kind': 'constant', 'samples': 40, 'rate': 4}
    """
    if declared is None:
        return None
    if not isinstance(declared, dict) or declared.get("kind") not in _KINDS:
        raise InputError(f"client {client}: declared arrivals are one of {', '.join(_KINDS)}")
    samples = declared.get("samples")
    if not isinstance(samples, int) or isinstance(samples, bool) or not 1 <= samples <= _MOST:
        raise InputError(
            f"client {client} declares {samples!r:.40} samples; from 1 to {_MOST:,} are believed"
        )
    kept = {name: declared[name] for name in _FIELDS if name in declared}
    try:
        arrivals(kept)
    except (InputError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"client {client}: declared arrivals that cannot be: {error}") from None
    return kept


def arrivals(declared: Mapping[str, Any]) -> Arrivals:
    """The arrival process of a declaration."""
    match declared["kind"]:
        case "once":
            return Once()
        case "constant":
            return Constant(declared["rate"])
        case "poisson":
            return Poisson(float(declared["rate"]))
    return Trace(declared["counts"])
