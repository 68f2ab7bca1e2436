"""Errors that a later run of their check ended: across iterations, in prompts, as learnings on what solved them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice

from sluice.contracts.memory.learning import LearningSource
from sluice.contracts.memory.model import MAX_MESSAGE_CHARACTERS, CheckRun, ErrorEntry, IterationRecord
from sluice.memory.extraction.checks import is_missing, is_same, takes_place
from sluice.memory.extraction.result import fit
from sluice.memory.journal.entry import JournalEntry
from sluice.memory.journal.feature_memory import FeatureMemory, fold
from sluice.memory.learning import wording
from sluice.memory.learning.add import Candidate, Compare
from sluice.memory.learning.distil import learn_all
from sluice.memory.learning.observations import Fingerprint, fingerprint
from sluice.memory.learning.wording import excluded, the_error
from sluice.memory.ports import Sanitise
from sluice.memory.sanitise import sanitise_record

LOOKED_BACK = 10
"""Iterations whose standing errors a green check may end; older changes have little to do with it."""
MOST_NAMED = 3
MOST_LEARNED = 5
"""Most learnings of one iteration: a broken import makes hundreds of errors, and one fix."""


def sanitise_all(record: IterationRecord, sanitise: Sanitise) -> IterationRecord:
    """Return a record with all its texts sanitised, those of its checks and its solved errors too."""
    clean = sanitise_record(record, sanitise)
    of_solved = sanitise_record(record.model_copy(update={"errors": record.solved, "decisions": ()}), sanitise)

    def told(text: str | None) -> str:
        found = sanitise(text) if text else None
        return found.text[:MAX_MESSAGE_CHARACTERS] if found and not found.blocked else ""

    def run(one: CheckRun) -> CheckRun | None:
        is_clean = all(told(text) == text for text in (one.program, *one.targets))
        return one.model_copy(update={"after": told(one.after) or None}) if is_clean else None

    def error(one: ErrorEntry) -> ErrorEntry:
        solved_by = told(one.solved_by) or None
        return one.model_copy(update={"check": one.check and run(one.check), "solved_by": solved_by})

    return clean.model_copy(
        update={
            "errors": tuple(map(error, clean.errors)),
            "solved": tuple(map(error, of_solved.errors)),
            "checks": tuple(one for one in map(run, record.checks) if one),
        }
    )


def with_earlier(record: IterationRecord, earlier: Sequence[IterationRecord]) -> IterationRecord:
    """Return a record in the light of those before it, oldest first: errors that its checks ended count as solved.

    Such an error has no `solved_by` where another one took its place. An error that stood before, and is
    printed in another form now, is named as it was.
    """
    standing = [one for before in reversed(standing_in(earlier)[-LOOKED_BACK:]) for one in before.errors]
    errors = tuple(_as_before(one, standing) for one in record.errors)
    known = {fingerprint(one) for one in (*errors, *record.solved)}
    solved = list(record.solved)
    for error in standing:
        run = next((one for one in reversed(record.checks) if error.check and one.covers(error.check)), None)
        if run is None or fingerprint(error) in known:
            continue
        others = [one for one in errors if one.check and one.check.program == run.program]
        if run.passed or is_missing(error, others):
            known.add(fingerprint(error))
            is_solved = run.passed or not any(takes_place(one, error) for one in others)
            how = run.after if is_solved else None
            solved.append(error.model_copy(update={"evidence": None, "solved_by": how}))
    return record.model_copy(update={"errors": errors, "solved": fit(solved, "solved", Counter())})


def _as_before(error: ErrorEntry, standing: Sequence[ErrorEntry]) -> ErrorEntry:
    same = next((one for one in standing if is_same(one, error)), None)
    if same is None or fingerprint(same) == fingerprint(error):
        return error
    named = {"message": same.message, "error_type": same.error_type, "file_path": same.file_path, "line": None}
    return error.model_copy(update=named)


def standing_in(records: Sequence[IterationRecord]) -> list[IterationRecord]:
    """Return the records, oldest first, each without the errors that a later one of them solved."""
    solved: set[Fingerprint] = set()
    found: list[IterationRecord] = []
    for record in reversed(records):
        errors = tuple(one for one in record.errors if fingerprint(one) not in solved)
        found.append(record.model_copy(update={"errors": errors}) if errors != record.errors else record)
        solved.update(map(fingerprint, record.solved))
    return found[::-1]


def with_standing_errors(state: FeatureMemory) -> FeatureMemory:
    """Return a state whose iterations have only the errors that still stand: those to print, and to learn from yet."""
    iterations = state.in_order()
    standing = standing_in([one.record for one in iterations])
    changed = {
        one.entry_id: replace(one, record=record)
        for one, record in zip(iterations, standing, strict=True)
        if record is not one.record
    }
    return replace(state, iterations=state.iterations | changed) if changed else state


def learn_solutions(
    state: FeatureMemory, distilled: Iterable[JournalEntry], *, compare: Compare, sanitise: Sanitise, at: datetime
) -> list[JournalEntry]:
    """Return the learnings on errors solved in the iterations that the entries `distilled` search, to follow these."""
    after, entries = state.copy(), list(distilled)
    for entry in entries:
        fold(after, entry)
    waiting = after.distilled - state.distilled
    solutions = (found for one in state.in_order() if one.entry_id in waiting for found in _solutions(one.record))
    learned, _ = learn_all(after, solutions, compare, sanitise, at)
    return [*entries, *learned]


def _solutions(record: IterationRecord) -> Iterator[Candidate]:
    """Yield what solved an iteration's errors, not the slips with the agent's own tools.

    Errors that one change solved are told together: the first of them may only be a consequence of another.
    """
    by_change: defaultdict[str, list[ErrorEntry]] = defaultdict(list)
    for error in record.solved:
        if (how := (error.solved_by or "").rstrip(".")) and error.tool not in excluded("agents_tools"):
            by_change[how].append(error)
    for how, (error, *others) in islice(by_change.items(), MOST_LEARNED):
        named = (error, *others)[:MOST_NAMED]
        reason = f"seen and solved by iteration {record.iteration_number}"
        if error.check:
            reason += f", where {' '.join((error.check.program, *error.check.targets[:2]))} met it no more"
        done, _, said = how.partition(": ")
        errors = [the_error(one, min(200, 300 // len(named))) for one in named]
        gone = f"{wording.listed(errors)} {'were' if others else 'was'} solved"
        yield Candidate(
            wording.fit(f"{gone}: {how}."),
            reason,
            LearningSource.AUTO,
            record.iteration_number,
            record.task_id or None,
            observed=True,
            words=said,
            without_words=wording.fit(f"{gone}: {done}."),
        )
