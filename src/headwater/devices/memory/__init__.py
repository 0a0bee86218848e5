"""What a client keeps on disk: one file, a schema, and the memory's rules as rows of a table."""

from headwater.devices.memory.durable import DurableMemory, Snapshot
from headwater.devices.memory.table import Batch

__all__ = ["Batch", "DurableMemory", "Snapshot"]
