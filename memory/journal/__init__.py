"""The journal of a feature: a JSON line for each thing that happened, the truth that all else is built from."""

from memory.journal.entry import ENTRY_VERSION, JournalEntry
from memory.journal.feature_memory import FeatureMemory
from memory.journal.file import Journal
from memory.journal.paths import journal_path
from memory.journal.read import features_in, read_journal

__all__ = ["ENTRY_VERSION", "FeatureMemory", "Journal", "JournalEntry", "features_in", "journal_path", "read_journal"]
