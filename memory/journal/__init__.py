"""The journal of a feature: one JSON line per event, the truth that all else is built from."""

from sluice.memory.journal.entry import ENTRY_VERSION, JournalEntry
from sluice.memory.journal.feature_memory import FeatureMemory
from sluice.memory.journal.file import Journal
from sluice.memory.journal.read import features_in, read_journal
from sluice.memory.journal.write import journal_path

__all__ = ["ENTRY_VERSION", "FeatureMemory", "Journal", "JournalEntry", "features_in", "journal_path", "read_journal"]
