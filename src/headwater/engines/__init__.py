"""How a round's work is executed. The plain loop is the specification; the others give its numbers faster."""

from headwater.engines.batched import Batched
from headwater.engines.choice import choose
from headwater.engines.engine import Engine
from headwater.engines.fused import Fused
from headwater.engines.lockstep import Lockstep
from headwater.engines.loop import Loop
from headwater.engines.sequential import Sequential
from headwater.engines.workers import Workers

__all__ = ["Batched", "Engine", "Fused", "Lockstep", "Loop", "Sequential", "Workers", "choose"]
