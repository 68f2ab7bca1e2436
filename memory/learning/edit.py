"""Changes to learnings, reviews and pruning: one at a time, each an entry that is appended.

So every change can be seen and undone. Nothing replaces all learnings at once: a list of them is refused (F1).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NoReturn

from pydantic import ValidationError

from sluice.contracts.errors import InvalidInput, NotFound, PolicyRefused, first_problem
from sluice.contracts.memory.api import LearningPatch
from sluice.contracts.memory.learning import FeatureLearning, LearningSource, LearningState
from sluice.memory.journal.entry import (
    JournalEntry,
    LearningAdded,
    LearningPatched,
    LearningReviewed,
    LearningsPruned,
    RepetitionUndone,
)
from sluice.memory.journal.feature_memory import FeatureMemory
from sluice.memory.learning.add import Candidate, Compare, as_learning, check, conflict, refusals, resolved, why_refused
from sluice.memory.learning.deduplication import Conflict
from sluice.memory.ports import Sanitise

REPLACEMENT_REMEDY = (
    "add each learning by itself (POST /v1/memory/learnings, `sluice memory learn`, Memory.learn), and change one by "
    "its id (PATCH /v1/memory/learnings/{id}, `sluice memory review`, Memory.patch)"
)
_MOST_PROOFS = 2
"""Iterations in which one learning must help, and the other fail, before outcomes decide between them."""


def refuse_replacement() -> NoReturn:
    """Raise `InvalidInput` for a replacement of all learnings; the error names the way to change one."""
    raise InvalidInput(
        "learnings", "learnings are not replaced as a whole: that would lose what others learned", REPLACEMENT_REMEDY
    )


def read_patch(data: object) -> LearningPatch:
    """Read a patch from JSON.

    Raises `InvalidInput` if it is a list or holds one of learnings, which would replace them, or if a field is wrong.
    """
    if isinstance(data, list | tuple) or (isinstance(data, Mapping) and {"learnings", "replace", "items"} & {*data}):
        refuse_replacement()
    try:
        return LearningPatch.model_validate(data)
    except ValidationError as error:
        raise InvalidInput(
            *first_problem(error), "give text, reason, task_id, reviewed, rejected or keep_over"
        ) from error


def patch_learning(
    state: FeatureMemory, learning_id: str, patch: LearningPatch, *, compare: Compare, sanitise: Sanitise, at: datetime
) -> list[JournalEntry]:
    """Return the entries of a change to one learning. `patch` may be JSON; a list, which would replace all, is refused.

    Raises:
        NotFound: the feature has no such learning.
        InvalidInput: the patch changes nothing, or its text commands its reader.
        PolicyRefused: the patch's source may not change this learning (see `_check_source`).
    """
    patch = patch if isinstance(patch, LearningPatch) else read_patch(patch)
    learning = find_learning(state, learning_id)
    key = f"{learning_id}\0{at.isoformat()}\0{patch.model_dump_json()}"
    note = sanitise(patch.note).text if patch.note else ""
    said: dict[str, Any] = {"learning_id": learning_id, "source": patch.source, "note": note}
    entries: list[JournalEntry] = []
    if patch.text is not None or patch.reason is not None or patch.task_id is not None:
        _check_source(learning, patch.source, deciding=False)
        check(
            learning.text if patch.text is None else patch.text,
            learning.reason if patch.reason is None else patch.reason,
        )
        text, reason = _sanitised("text", patch.text, sanitise), _sanitised("reason", patch.reason, sanitise)
        changed = LearningPatched(text=text, reason=reason, task_id=patch.task_id, **said)
        entries.append(JournalEntry.of(changed, key=key, at=at))
        if text is not None:
            entries += _differing(state, learning, text, compare, at)
    if patch.reviewed is not None or patch.rejected is not None:
        _check_source(learning, patch.source, deciding=True)
        rejected = patch.rejected if patch.rejected is not None else learning.state is LearningState.REJECTED
        entries.append(JournalEntry.of(LearningReviewed(rejected=rejected, **said), key=key, at=at))
    if patch.keep_over is not None:
        pair = (learning_id, patch.keep_over)
        entries += resolve_conflict(state, *pair, kept=learning_id, source=patch.source, note=note, at=at)
    if not entries:
        raise InvalidInput("patch", "it changes nothing", "give text, reason, task_id, reviewed, rejected or keep_over")
    return entries


def undo_repetition(state: FeatureMemory, entry_id: str, *, at: datetime) -> list[JournalEntry]:
    """Return the entries that make a learning of its own from a text that was counted as a repetition.

    Raises `NotFound` if there is no such repetition, or it was undone before.
    """
    repeated = state.repetitions.get(entry_id)
    if repeated is None:
        raise NotFound(f"no repetition {entry_id} in feature {state.feature}, or it was undone before")
    entries = [JournalEntry.of(RepetitionUndone(entry_id=entry_id), key=entry_id, at=at)]
    candidate = Candidate(repeated.text, repeated.reason, repeated.source, repeated.iteration, repeated.task_id)
    learning = as_learning(state.feature, candidate, at).model_copy(update={"near_to": (repeated.learning_id,)})
    if learning.id not in state.learnings:
        entries.append(JournalEntry.of(LearningAdded(learning=learning), key=learning.id, at=at))
    return entries


def resolve_conflict(
    state: FeatureMemory, one: str, other: str, *, kept: str | None, source: LearningSource, note: str, at: datetime
) -> list[JournalEntry]:
    """Return the entry that decides between two learnings shown side by side. `kept` None: both stay.

    Raises `NotFound` if one of them does not exist or they are in no open conflict, `PolicyRefused` if the source is
    neither a person nor a reviewing model, `InvalidInput` if `kept` is another learning.
    """
    for learning_id in (one, other):
        _check_source(find_learning(state, learning_id), source, deciding=True)
    first, second = sorted((one, other))
    if (first, second) not in state.conflicts:
        raise NotFound(f"{one} and {other} are in no open conflict of feature {state.feature}")
    if kept not in (None, one, other):
        raise InvalidInput("kept", f"{kept} is none of the two", f"give {one}, {other}, or nothing")
    return [resolved(first, second, kept, source, note, at)]


def resolve_by_outcome(state: FeatureMemory, at: datetime) -> list[JournalEntry]:
    """Return decisions that later iterations made: one learning helped, the other was shown and failed again.

    Each at least twice, and never the other way round. A person decides on learnings that a person stated or reviewed.
    """
    entries: list[JournalEntry] = []
    for pair in state.conflicts:
        first, second = (state.learnings[one] for one in pair)
        if any(one.reviewed or one.source.priority >= LearningSource.HUMAN.priority for one in (first, second)):
            continue
        proved = [one for one in (first, second) if one.helped >= _MOST_PROOFS and not one.failed_again]
        disproved = [one for one in (first, second) if one.failed_again >= _MOST_PROOFS and not one.helped]
        kept = proved[0] if proved and disproved else None
        if kept:
            note = f"helped in {kept.helped} iterations, while the other failed again"
            entries.append(resolved(*pair, kept.id, LearningSource.AUTO, note, at))
    return entries


def find_learning(state: FeatureMemory, learning_id: str) -> FeatureLearning:
    """Return a learning of this feature. Raises `NotFound`."""
    if (learning := state.learnings.get(learning_id)) is None:
        raise NotFound(f"no learning {learning_id} in feature {state.feature}")
    return learning


def _check_source(learning: FeatureLearning, source: LearningSource, *, deciding: bool) -> None:
    """Raise `PolicyRefused` for a source below the learning's, or a decision by neither person nor reviewing model."""
    if source is LearningSource.HUMAN:
        return
    if deciding and source is not LearningSource.OPUS_REVIEWED:
        problem = f"source {source} reviews no learnings and decides no conflicts"
        raise PolicyRefused("memory.review", problem, "a person (source Human) or a reviewing model (OpusReviewed)")
    if source.priority < learning.source.priority:
        problem = f"learning {learning.id} is of source {learning.source}, which {source} does not overwrite"
        raise PolicyRefused(
            "memory.source-order", problem, f"source {learning.source} or Human; or add a learning beside it"
        )


def _sanitised(field: str, said: str | None, sanitise: Sanitise) -> str | None:
    if said is None:
        return None
    clean = sanitise(said)
    if refusing := refusals(clean):
        raise InvalidInput(field, why_refused(refusing), "say what was observed")
    return clean.text


def _differing(
    state: FeatureMemory, learning: FeatureLearning, text: str, compare: Compare, at: datetime
) -> list[JournalEntry]:
    others = [one for one in state.active(learning.task_id) if one.id != learning.id]
    verdict = compare(text, others)
    if not isinstance(verdict, Conflict):
        return []
    pair = sorted((learning.id, others[verdict.existing_index].id))
    if (pair[0], pair[1]) in state.conflicts:
        return []
    return [conflict(pair[0], pair[1], verdict.why, at)]


OLD_ITERATIONS = 20
"""Iterations after which a learning is old: a task takes some ten, so two tasks have not met it again."""
OLD = timedelta(days=14)
"""Time after which a learning is old: iterations may take minutes, but a fortnight has several sessions."""
WHY = f"made by rule, not reviewed, observed once, not used in {OLD_ITERATIONS} iterations and {OLD.days} days"


def prunable(state: FeatureMemory, now: datetime) -> list[FeatureLearning]:
    """Return the learnings that may be pruned at `now`, the oldest first."""
    latest = state.next_iteration() - 1
    disputed = {one for pair in state.conflicts for one in pair}
    return [
        one
        for one in state.learnings.values()
        if one.state is LearningState.ACTIVE
        and one.source is LearningSource.AUTO
        and not one.reviewed
        and not one.edited
        and one.hit_count == 1
        and one.used == one.helped == 0
        and not one.conflicts_with
        and one.id not in disputed
        and latest - one.iteration >= OLD_ITERATIONS
        and now - one.timestamp >= OLD
    ]


def prune(state: FeatureMemory, now: datetime) -> list[JournalEntry]:
    """Return the entry that prunes them; no entry if there is nothing to prune."""
    ids = tuple(one.id for one in prunable(state, now))
    if not ids:
        return []
    return [
        JournalEntry.of(LearningsPruned(learning_ids=ids, why=WHY), key=f"{now.isoformat()}\0{','.join(ids)}", at=now)
    ]
