"""Adds one learning, sanitised and compared with the existing ones, none of which it overwrites."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sluice.contracts.errors import InvalidInput
from sluice.contracts.memory.api import LearningResult
from sluice.contracts.memory.learning import MAX_LEARNING_CHARACTERS, FeatureLearning, LearningSource, learning_id
from sluice.memory.journal.entry import (
    ConflictFound,
    ConflictResolved,
    JournalEntry,
    LearningAdded,
    LearningRepeated,
    LearningReviewed,
    LearningsPruned,
)
from sluice.memory.journal.feature_memory import FeatureMemory
from sluice.memory.learning.deduplication import Conflict, DeduplicationResult, Duplicate, Unique, find_corrected
from sluice.memory.learning.echo import MOST_VARIATIONS, is_echo, is_variation, without_frame
from sluice.memory.ports import Sanitise, Sanitised

Compare = Callable[[str, Sequence[FeatureLearning]], DeduplicationResult]
"""`check_deduplication` with the available judge."""


def add_learning(
    state: FeatureMemory, candidate: Candidate, *, compare: Compare, sanitise: Sanitise, at: datetime
) -> tuple[LearningResult, list[JournalEntry]]:
    """Return the verdict on `candidate`, and the entries that record it; `state` is not changed.

    Refused: it commands its reader, or nothing of it is left. Echo: an agent repeats its prompt. Duplicate: the earlier
    one is counted once more and keeps its text. Conflict: both are kept, until somebody decides. A new one that names
    an earlier one as wrong takes its place. Raises `InvalidInput` if the text or the reason is missing or too long.
    """
    check(candidate.text, candidate.reason)
    if not candidate.iteration and candidate.source is not LearningSource.HUMAN:
        candidate = replace(candidate, iteration=state.next_iteration())
    text, reason = sanitise(candidate.text), sanitise(candidate.reason)
    if refusing := refusals(text, reason, sanitise(f"{candidate.text} {candidate.reason}")):
        return LearningResult(verdict="refused", why=why_refused(refusing)), []
    candidate = replace(candidate, text=text.text[:MAX_LEARNING_CHARACTERS], reason=reason.text[:500])
    said = candidate.text if _is_agents_own(candidate) else candidate.words
    printed = [one.lines for one in state.printed if one.iteration_number == candidate.iteration] if said else []
    if said and is_echo(said, [line for lines in printed for line in lines]):
        if not candidate.without_words:
            return LearningResult(verdict="echo", why="the prompt of its iteration had said it"), []
        candidate = replace(candidate, text=candidate.without_words)
    if _is_agents_own(candidate):
        candidate = replace(candidate, text=without_frame(candidate.text) or candidate.text)
    if _is_agents_own(candidate) and is_variation(candidate.text, _variations(state, candidate)):
        return LearningResult(verdict="echo", why=f"{MOST_VARIATIONS} learnings say nearly the same"), []
    is_harmful = text.is_harmful or reason.is_harmful
    result, entries = _compared(state, candidate, compare, at, may_retire=not is_harmful)
    if _is_agents_own(candidate) and repeats_shown(state, result, candidate.iteration):
        return LearningResult(verdict="echo", learning=result.learning, why="its prompt had shown what it repeats"), []
    cut = f"cut: {', '.join(sorted({*text.cut, *reason.cut}))}" if text.cut or reason.cut else ""
    to_review = "to be reviewed: it looks like harmful advice" if is_harmful else ""
    why = "; ".join(filter(None, (result.why, cut, to_review)))
    return result.model_copy(update={"why": why}), entries


def check(text: str, reason: str) -> None:
    """Raise `InvalidInput`, which names the field, if the text or the reason is missing or too long."""
    if not text.strip():
        raise InvalidInput("text", "it is empty", "say in one sentence what was observed")
    if len(text) > MAX_LEARNING_CHARACTERS:
        remedy = f"say it in at most {MAX_LEARNING_CHARACTERS} characters, or as several learnings"
        raise InvalidInput("text", f"it has {len(text)} characters", remedy)
    if not reason.strip():
        raise InvalidInput("reason", "it is empty", "say by what it was observed, so that others can verify it")
    if len(reason) > 500:
        raise InvalidInput("reason", f"it has {len(reason)} characters", "say it in at most 500 characters")


_NOTHING_LEFT = "nothing is left of it"


def why_refused(rules: Sequence[str]) -> str:
    """Return why a text is refused, for a person, from the guard's rules that it matched."""
    if list(rules) == [_NOTHING_LEFT]:
        return _NOTHING_LEFT
    hidden = all(rule.startswith("hidden.") for rule in rules)
    return f"it {'has hidden characters' if hidden else 'commands its reader'}: {', '.join(rules)}"


def refusals(*sanitised: Sanitised) -> list[str]:
    """Return the rules for which a learning is refused whole: the rest of a command is not worth the risk."""
    rules = {rule for one in sanitised for rule in one.commands}
    if any(one.blocked for one in sanitised):
        rules = rules or {_NOTHING_LEFT}
    return sorted(rules)


def _variations(state: FeatureMemory, candidate: Candidate) -> list[str]:
    """Return the learnings that a text may vary; none if its iteration's prompt showed no learning."""
    shown = any(block.learning_ids for block in state.printed if block.iteration_number == candidate.iteration)
    return [one.text for one in state.learnings.values()] if shown else []


def repeats_shown(state: FeatureMemory, result: LearningResult, iteration: int) -> bool:
    """Return whether a text only repeats a learning that the prompt of its iteration showed."""
    if result.verdict != "duplicate" or result.learning is None:
        return False
    shown = (block.learning_ids for block in state.printed if block.iteration_number == iteration)
    return any(result.learning.id in ids for ids in shown)


def _is_agents_own(candidate: Candidate) -> bool:
    return candidate.source in (LearningSource.AUTO, LearningSource.AGENT) and not candidate.observed


def _compared(
    state: FeatureMemory, candidate: Candidate, compare: Compare, at: datetime, *, may_retire: bool
) -> tuple[LearningResult, list[JournalEntry]]:
    new = as_learning(state.feature, candidate, at)
    if known := state.learnings.get(new.id):
        return LearningResult(verdict="duplicate", learning=known, why="it was added before"), []
    verdict, existing = _verdict(state, candidate, compare)
    if not isinstance(verdict, Duplicate) and (corrected := _corrected(state, candidate, new, at, may_retire)):
        return corrected
    match verdict:
        case Duplicate(existing_index=index, why=why):
            return _repeated(existing[index], candidate, why, at)
        case Conflict(existing_index=index, why=why):
            other = existing[index]
            entries = [
                JournalEntry.of(LearningAdded(learning=new), key=new.id, at=at),
                conflict(new.id, other.id, why, at),
            ]
            shown = new.model_copy(update={"conflicts_with": (other.id,)})
            return LearningResult(verdict="conflict", learning=shown, other=other, why=why), entries
        case Unique(near_index=index) if index is not None:
            new = new.model_copy(update={"near_to": (existing[index].id,)})
    added = JournalEntry.of(LearningAdded(learning=new), key=new.id, at=at)
    return LearningResult(verdict="unique", learning=new), [added, *_narrower_set_aside(state, new, at)]


def _corrected(
    state: FeatureMemory, candidate: Candidate, new: FeatureLearning, at: datetime, may_retire: bool
) -> tuple[LearningResult, list[JournalEntry]] | None:
    """Return what becomes of a learning that names an earlier one as wrong; None if it names none.

    The earlier one is retired if it is clear which one is meant and the new one may do so; else both are shown. Advice
    that looks harmful may not.
    """
    scope = [] if candidate.observed else _scope(state, candidate)
    corrected = find_corrected(candidate.text, scope)
    if corrected is None:
        return None
    others = [scope[index] for index in corrected.indices]
    added = JournalEntry.of(LearningAdded(learning=new), key=new.id, at=at)
    if may_retire and corrected.is_clear and _may_retire(new, others[0]):
        why = f"it names {others[0].id} as wrong, which is retired"
        retired = resolved(new.id, others[0].id, new.id, new.source, f"named as wrong by {new.id}", at)
        return LearningResult(verdict="unique", learning=new, other=others[0], why=why), [added, retired]
    why = "it names an earlier learning as wrong"
    shown = new.model_copy(update={"conflicts_with": tuple(sorted(one.id for one in others))})
    result = LearningResult(verdict="conflict", learning=shown, other=others[0], why=why)
    return result, [added, *(conflict(new.id, one.id, why, at) for one in others)]


def _may_retire(new: FeatureLearning, other: FeatureLearning) -> bool:
    """Return whether a correction may put an earlier learning aside, rather than stand beside it.

    It may not if it is of a lower source, of one task where the other is of the whole feature, or of an earlier
    iteration; and only a person or a reviewing model overrules what was reviewed.
    """
    outranks = new.source.priority >= (LearningSource.HUMAN if other.reviewed else other.source).priority
    is_later = not new.iteration or other.iteration <= new.iteration
    return outranks and is_later and new.task_id in (None, other.task_id)


def as_learning(feature: str, candidate: Candidate, at: datetime) -> FeatureLearning:
    """Return a candidate as a learning; its id derives from its text, source, iteration and task."""
    return FeatureLearning(
        id=learning_id(feature, candidate.source, candidate.iteration, candidate.task_id, candidate.text),
        feature=feature,
        text=candidate.text,
        reason=candidate.reason,
        source=candidate.source,
        iteration=candidate.iteration,
        timestamp=at,
        task_id=candidate.task_id,
    )


def _verdict(
    state: FeatureMemory, candidate: Candidate, compare: Compare
) -> tuple[DeduplicationResult, list[FeatureLearning]]:
    """Compare with the learnings of the feature and the same task; one for the whole feature is near to any task's."""
    scope = _scope(state, candidate)
    if candidate.observed:
        return _as_observed(candidate.text, scope), scope
    verdict = compare(candidate.text, scope)
    if isinstance(verdict, Unique) and candidate.task_id is None:
        others = [one for one in state.learnings.values() if one.task_id is not None]
        if isinstance(narrower := compare(candidate.text, others), Conflict):
            return narrower, others
    return verdict, scope


def _scope(state: FeatureMemory, candidate: Candidate) -> list[FeatureLearning]:
    """Return the learnings of the whole feature, then those of the same task."""
    learnings = list(state.learnings.values())
    of_task = [one for one in learnings if one.task_id is not None and one.task_id == candidate.task_id]
    return [one for one in learnings if one.task_id is None] + of_task


def _as_observed(text: str, existing: Sequence[FeatureLearning]) -> DeduplicationResult:
    """Compare an observed event: it is a duplicate only in the same words, and two events are no pair."""
    same = (index for index, one in enumerate(existing) if one.text.casefold() == text.casefold())
    index = next(same, None)
    return Unique() if index is None else Duplicate(index, "the same words")


def _narrower_set_aside(state: FeatureMemory, new: FeatureLearning, at: datetime) -> list[JournalEntry]:
    """Set aside single tasks' learnings whose exact text now holds for the whole feature, unless of a higher source."""
    ids = tuple(
        one.id
        for one in state.active()
        if new.task_id is None
        and one.task_id is not None
        and one.text == new.text
        and one.source.priority <= new.source.priority
    )
    if not ids:
        return []
    body = LearningsPruned(learning_ids=ids, why=f"said of the whole feature by {new.id}")
    return [JournalEntry.of(body, key=f"{new.id}\0{','.join(ids)}", at=at)]


def _repeated(
    known: FeatureLearning, candidate: Candidate, why: str, at: datetime
) -> tuple[LearningResult, list[JournalEntry]]:
    body = LearningRepeated(
        learning_id=known.id,
        text=candidate.text,
        reason=candidate.reason,
        source=candidate.source,
        iteration=candidate.iteration,
        task_id=candidate.task_id,
        why=why,
    )
    key = "\0".join((known.id, candidate.source, str(candidate.iteration), str(candidate.task_id), candidate.text))
    entry = JournalEntry.of(body, key=key, at=at)
    counted = known.model_copy(update={"hit_count": known.hit_count + 1})
    return LearningResult(verdict="duplicate", learning=counted, why=why), [
        entry,
        *_restored(known, candidate, key, at),
    ]


def _restored(known: FeatureLearning, candidate: Candidate, key: str, at: datetime) -> list[JournalEntry]:
    """Return the entries that offer a retired learning again beside its successor, if a person repeats it."""
    if not known.retired_by or candidate.source.priority < LearningSource.HUMAN.priority:
        return []
    review = LearningReviewed(learning_id=known.id, source=candidate.source, note="said again after it was retired")
    beside = conflict(known.id, known.retired_by, "said again after it was retired", at)
    return [JournalEntry.of(review, key=key, at=at), beside]


def conflict(one: str, other: str, evidence: str, at: datetime) -> JournalEntry:
    """Build the entry that shows two learnings side by side."""
    first, second = sorted((one, other))
    return JournalEntry.of(
        ConflictFound(learning_id=first, other_id=second, evidence=evidence), key=f"{first}\0{second}", at=at
    )


def resolved(one: str, other: str, kept: str | None, source: LearningSource, note: str, at: datetime) -> JournalEntry:
    """Build the entry of a decision between two learnings; `kept` None: both stay."""
    first, second = sorted((one, other))
    body = ConflictResolved(learning_id=first, other_id=second, kept=kept, source=source, note=note)
    return JournalEntry.of(body, key=f"{first}\0{second}\0{kept}\0{at.isoformat()}", at=at)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate for a learning. `iteration` 0: the current one, or none if a person states it."""

    text: str
    reason: str
    source: LearningSource
    iteration: int = 0
    task_id: int | None = None
    observed: bool = False
    """Whether it is tied to an event of its iteration: then it is no echo of the prompt."""
    words: str = ""
    """The agent's own words within a text that is otherwise observed: these may be an echo."""
    without_words: str = ""
    """The text without `words`; "" if nothing is left to say."""
