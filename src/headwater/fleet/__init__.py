"""A fleet of devices before any training: its file, its strategies side by side, and what would
change if …"""

from headwater.fleet.comparison import Comparison, compare
from headwater.fleet.fleet import Fleet
from headwater.fleet.fleet_file import read
from headwater.fleet.outlook import Outlook
from headwater.fleet.what_if import Outcome, Scenario, what_if

__all__ = ["Comparison", "Fleet", "Outcome", "Outlook", "Scenario", "compare", "read", "what_if"]
