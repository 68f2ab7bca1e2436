"""Errors that tools printed on the console: message, type, file and line."""

from sluice.memory.extraction.errors.find import FoundError, find_errors, last_lines

__all__ = ["FoundError", "find_errors", "last_lines"]
