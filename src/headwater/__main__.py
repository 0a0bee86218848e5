"""The command ``headwater``, and ``python -m headwater`` where its script is not on the path."""

from headwater.interrupts import stop_at_once


def main() -> None:
    """Run a command; signals are answered from the first moment, also during the imports."""
    stop_at_once()
    from headwater.cli.main import main as command

    command()


if __name__ == "__main__":
    main()
