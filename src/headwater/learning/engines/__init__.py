"""How a round's orders are executed.

The plain loop is the specification; the others give its numbers faster.
"""

from headwater.learning.engines.batched import Batched
from headwater.learning.engines.choice import choose, manner
from headwater.learning.engines.engine import Engine
from headwater.learning.engines.fused import Fused
from headwater.learning.engines.lockstep import Lockstep
from headwater.learning.engines.loop import Loop
from headwater.learning.engines.ranks import Ranks
from headwater.learning.engines.sequential import Sequential
from headwater.learning.engines.threads import OneThread
from headwater.learning.engines.workers import Workers

__all__ = [
    "Batched",
    "Engine",
    "Fused",
    "Lockstep",
    "Loop",
    "OneThread",
    "Ranks",
    "Sequential",
    "Workers",
    "choose",
    "manner",
]
