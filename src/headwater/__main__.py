"""``python -m headwater``: the command, where its script is not on the path."""

from headwater.cli import main

main()
