"""Makes learnings of iterations that were not looked through yet: by rule, and by a language model if there is one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from sluice.memory.journal.entry import IterationsDistilled, JournalEntry
from sluice.memory.journal.feature_memory import FeatureMemory, RecordedIteration
from sluice.memory.journal.fold import fold
from sluice.memory.learning.add import Compare, add_learning
from sluice.memory.learning.candidate import Candidate
from sluice.memory.learning.edit import resolve_by_outcome
from sluice.memory.learning.history import History
from sluice.memory.learning.observations import observe
from sluice.memory.learning.propose import propose
from sluice.memory.ports import AskModel, Sanitise

_MOST_IDS = 1_000
"""Iterations that one entry names: its line stays short."""


def distil(
    state: FeatureMemory,
    *,
    compare: Compare,
    sanitise: Sanitise,
    at: datetime,
    ask: AskModel | None = None,
    model: str = "",
    proposed: Sequence[Candidate] = (),
    most: int | None = None,
) -> list[JournalEntry]:
    """The learnings of all iterations that were not distilled, conflicts that outcomes decided, and what was looked at.

    To be appended together, so that an iteration counts as distilled only with its learnings. `state` is not changed;
    distilling twice adds nothing. `ask` is called here, which may take long: a caller that holds a lock calls
    `memory.learning.propose.propose` before, and hands in what it `proposed`. Where the model fails, the learnings of
    the rules stand. `most`: only so many iterations, the oldest first.
    """
    entries = resolve_by_outcome(state, at)
    waiting = undistilled(state)[:most]
    if not waiting:
        return entries
    if ask is not None:
        proposed = [*proposed, *propose([one.record for one in waiting], ask, model)]
    after = state.copy()
    for entry in entries:
        fold(after, entry)
    learned, echoes = _learn(after, [*_observed(state, waiting), *proposed], compare, sanitise, at)
    return [*entries, *learned, *_looked_at(waiting, echoes, at)]


def undistilled(state: FeatureMemory) -> list[RecordedIteration]:
    """Iterations that were not looked through for learnings yet, the oldest first."""
    return [one for one in state.latest(len(state.iterations)) if one.entry_id not in state.distilled]


def _observed(state: FeatureMemory, waiting: Sequence[RecordedIteration]) -> Iterable[Candidate]:
    iterations = state.latest(len(state.iterations))
    history = History(iterations)
    ids = {one.entry_id for one in waiting}
    for at, one in enumerate(iterations):
        if one.entry_id in ids:
            yield from observe(history, at)


def _learn(
    after: FeatureMemory, candidates: Iterable[Candidate], compare: Compare, sanitise: Sanitise, at: datetime
) -> tuple[list[JournalEntry], int]:
    """The entries of all candidates, each compared with those before it; and how many were echoes."""
    learned: list[JournalEntry] = []
    echoes = 0
    for candidate in candidates:
        result, entries = add_learning(after, candidate, compare=compare, sanitise=sanitise, at=at)
        echoes += result.verdict == "echo"
        new = [entry for entry in entries if entry.id not in after.entry_ids]
        for entry in new:
            fold(after, entry)
        learned += new
    return learned, echoes


def _looked_at(waiting: Sequence[RecordedIteration], echoes: int, at: datetime) -> list[JournalEntry]:
    entries: list[JournalEntry] = []
    for start in range(0, len(waiting), _MOST_IDS):
        ids = tuple(one.entry_id for one in waiting[start : start + _MOST_IDS])
        body = IterationsDistilled(entry_ids=ids, echoes=echoes if not start else 0)
        entries.append(JournalEntry.of(body, key="\0".join(ids), at=at))
    return entries
