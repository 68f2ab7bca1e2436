"""The command line. `main` is the entry point of `sluice`; the commands stand by subject beside it."""

from sluice.cli.main import main

__all__ = ["main"]
