"""Errors that tools told on the console: what, of which type, in which file and line."""

from sluice.memory.extraction.errors.find import find_errors
from sluice.memory.extraction.errors.found import FoundError

__all__ = ["FoundError", "find_errors"]
