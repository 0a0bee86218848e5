"""Headwater on Flower: the strategy for the server, the thin app for the clients.

    StreamFedAvg   a Flower strategy: plans the shares, aggregates, averages, resumes
    node_app       a Flower ClientApp that hands messages to the resident node beside it
    read_ledger    who held how many samples with what share in a real run, as a ledger

Names are loaded when they are first used: the client's side never loads PyTorch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.flower.client import node_app as node_app
    from headwater.flower.realised import read_ledger as read_ledger
    from headwater.flower.strategy import StreamFedAvg as StreamFedAvg

_HOMES = {"StreamFedAvg": "strategy", "node_app": "client", "read_ledger": "realised"}
__all__ = ["StreamFedAvg", "node_app", "read_ledger"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from headwater.flower.version import check

    check()
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
