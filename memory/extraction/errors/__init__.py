"""Errors that tools told on the console: what, of which type, in which file and line."""

from sluice.memory.extraction.errors.find import FoundError, find_errors, last_lines

__all__ = ["FoundError", "find_errors", "last_lines"]
