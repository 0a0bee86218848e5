"""From messages to samples in the memory, in one transaction per batch."""

from headwater.devices.intake.intake import Intake

__all__ = ["Intake"]
