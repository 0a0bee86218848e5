"""The command line: ``headwater run``, ``report``, ``plan``, ``paper``, ``node``."""

from headwater.cli import fleet as fleet
from headwater.cli import node as node
from headwater.cli import paper as paper
from headwater.cli import plan as plan
from headwater.cli import report as report
from headwater.cli import run as run
from headwater.cli.main import main

__all__ = ["main"]
