"""What a client keeps on disk: one file, a schema, and the memory's rules as rows of a table."""

from headwater.devices.memory.durable import Batch, DurableMemory, Snapshot

__all__ = ["Batch", "DurableMemory", "Snapshot"]
