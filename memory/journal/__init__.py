"""The journal of a feature: a JSON line for each thing that happened, the truth that all else is built from."""

from memory.journal.entry import ENTRY_VERSION, JournalEntry
from memory.journal.paths import journal_path

__all__ = ["ENTRY_VERSION", "JournalEntry", "journal_path"]
