"""Derives from iterations that are new what follows from them: learnings, and how those that stood in prompts fared."""

from __future__ import annotations

import time
from datetime import datetime

from sluice.memory.journal.entry import JournalEntry
from sluice.memory.journal.feature_memory import FeatureMemory
from sluice.memory.journal.file import Journal
from sluice.memory.learning.distil import distil
from sluice.memory.models_asked import Models, transact_with
from sluice.memory.ports import Sanitise
from sluice.memory.recall.weigh import weigh

DISTILLED_AT_ONCE = 100
"""Iterations that are looked through for learnings between two looks at the clock: some 5 ms each."""
FEW_ITERATIONS = 50
"""A question waits until so many were looked through. An iteration brings one; an import may have brought thousands."""


def count_new(state: FeatureMemory) -> int:
    """Iterations that were not looked through."""
    return len(state.iterations.keys() - state.distilled)


def catch_up(
    journal: Journal, models: Models, *, sanitise: Sanitise, at: datetime, seconds: float | None
) -> list[JournalEntry]:
    """Append what follows from new iterations, in portions between which others may write; returns the new entries.

    After `seconds` (None: never) the rest is left for another time. A prompt tells the last iterations either way.
    """

    def decide(state: FeatureMemory, asked: Models) -> list[JournalEntry]:
        distilled = distil(
            state,
            compare=asked.compare,
            sanitise=sanitise,
            at=at,
            ask=asked.ask,
            model=asked.name,
            most=DISTILLED_AT_ONCE,
        )
        return [*distilled, *weigh(state, at)]

    started = time.monotonic()
    derived: list[JournalEntry] = []
    state = journal.read()
    while count_new(state) > 0:
        state, entries = transact_with(models, journal, decide)
        derived += entries
        if seconds is not None and time.monotonic() - started > seconds:
            break
    return derived
