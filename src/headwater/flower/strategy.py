"""``StreamFedAvg``: Algorithm 1 as a Flower strategy, for streams that never stop."""

from __future__ import annotations

import logging
import signal
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from headwater import ledger as _ledger
from headwater.flower import messages
from headwater.flower.checkpoint import Checkpoint
from headwater.flower.journal import Entry
from headwater.flower.session import Session
from headwater.flower.settings import Rate, Settings
from headwater.flower.state import Projection
from headwater.flower.version import check
from headwater.ledger.strategies import Strategy as Weighting
from headwater.ledger.strategies import Uniform

log = logging.getLogger("headwater.flower")
Evaluate = Callable[[int, ArrayRecord], MetricRecord | None]
