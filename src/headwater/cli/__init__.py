"""The command line: ``headwater run``, ``headwater plan``, ``headwater paper``."""

from headwater.cli.main import main

__all__ = ["main"]
