"""A fleet of devices before any training: its file, its strategies side by side, and what-ifs."""

from headwater.fleet.change import Scenario
from headwater.fleet.comparison import Comparison, compare
from headwater.fleet.fleet import Device, Fleet
from headwater.fleet.fleet_file import read
from headwater.fleet.outlook import Outlook
from headwater.fleet.what_if import Outcome, what_if

__all__ = [
    "Comparison",
    "Device",
    "Fleet",
    "Outcome",
    "Outlook",
    "Scenario",
    "compare",
    "read",
    "what_if",
]
