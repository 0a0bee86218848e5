"""Questions of our own, each a command: ``python -m benchmarks.studies.NAME``."""
