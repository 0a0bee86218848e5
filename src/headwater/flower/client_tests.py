"""Tests at the clients: how good the model is on samples that never leave them."""

from __future__ import annotations

import threading
import time

from flwr.app import RecordDict

from headwater.flower import messages
from headwater.flower.presence import Presence


def ask_for_tests(
    presence: Presence, content: RecordDict, round: int, seconds: float, stop: threading.Event
) -> list[dict[str, float]]:
    """Ask all clients that are connected; whoever fails or is late has no part in the means.

    Args:
        presence: the clients, and the letters to them.
        content: the model to test.
        round: after which it is tested.
        seconds: for the answers.
        stop: set by a signal; what came until then is returned.

    Returns:
        One report for each client that answered.
    """
    began = time.monotonic()
    waiting = set(presence.clients)
    for m in sorted(waiting):
        presence.post(messages.EVALUATE, m, content, round)
    found = []
    while waiting and not stop.is_set() and time.monotonic() < began + seconds:
        for tag, reply in presence.answers():
            if tag.kind == messages.EVALUATE and tag.number in waiting:
                waiting.discard(tag.number)
                if reply.has_content():
                    found.append(messages.metrics_of(reply))
        presence.pause()
    presence.close()
    return found
