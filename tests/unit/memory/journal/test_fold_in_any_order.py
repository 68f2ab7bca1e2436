"""Whatever entries follow each other: the state is consistent, and reading piece by piece gives the same one."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as some

from sluice.contracts.memory.learning import LearningSource, LearningState
from sluice.memory.journal import FeatureMemory, Journal, JournalEntry
from sluice.memory.journal import entry as entries
from sluice.memory.journal.feature_memory import fold
from sluice.memory.journal.file import differences, state_sha256
from tests.support.memory.entries import added, iteration, learning, said

TEXTS = ("Use the pool", "Do not use the pool", "Prefer the pool", "Tests need a database")
IDS = [learning(text).id for text in TEXTS]
learning_ids, sources = some.sampled_from(IDS), some.sampled_from(LearningSource)
repetitions = some.builds(
    entries.LearningRepeated,
    learning_id=learning_ids,
    text=some.sampled_from(TEXTS),
    reason=some.just("again"),
    source=sources,
)
bodies = some.one_of(
    repetitions,
    repetitions.map(lambda one: entries.RepetitionUndone(entry_id=numbered(one, 0).id)),
    some.builds(entries.LearningPatched, learning_id=learning_ids, source=sources, text=some.sampled_from(TEXTS)),
    some.builds(entries.LearningReviewed, learning_id=learning_ids, rejected=some.booleans(), source=sources),
    some.builds(entries.ConflictFound, learning_id=learning_ids, other_id=learning_ids),
    some.builds(
        entries.ConflictResolved,
        learning_id=learning_ids,
        other_id=learning_ids,
        kept=some.none() | learning_ids,
        source=sources,
    ),
    some.builds(
        entries.BlockPrinted,
        iteration_number=some.integers(1, 3),
        learning_ids=some.lists(learning_ids, max_size=3).map(tuple),
        lines=some.just(("x",)),
    ),
    some.builds(
        entries.LearningWeighed,
        learning_id=learning_ids,
        entry_id=some.integers(1, 3).map(lambda number: iteration(number).id),
        used=some.booleans(),
    ),
    some.builds(
        entries.LearningsPruned, learning_ids=some.lists(learning_ids, max_size=3).map(tuple), why=some.just("old")
    ),
)
told = some.one_of(
    some.tuples(bodies, some.integers(0, 2)).map(lambda one: numbered(*one)),
    some.sampled_from(TEXTS).map(added),
    some.integers(1, 3).map(iteration),
)


def numbered(body: entries.EntryBody, number: int) -> JournalEntry:
    """The same thing may be told more than once."""
    return said(body, f"{body.model_dump_json()} {number}")


def after(story: list[JournalEntry]) -> FeatureMemory:
    state = FeatureMemory("auth")
    for one in story:
        fold(state, one)
    return state


@given(some.lists(told, max_size=40))
def test_conflicts_and_counts_agree_with_each_other_after_any_entries(story: list[JournalEntry]) -> None:
    state = after(story)
    assert not state.conflicts.keys() & state.dormant_conflicts.keys()
    for one, other in state.conflicts:
        assert {state.learnings[one].state, state.learnings[other].state} == {LearningState.ACTIVE}
    repeated = Counter(one.learning_id for one in state.repetitions.values())
    shown = Counter(one for one, _ in state.shown_in)
    for name, found in state.learnings.items():
        others = sorted(one for pair in state.conflicts if name in pair for one in pair if one != name)
        assert list(found.conflicts_with) == others
        assert (found.hit_count, found.shown) == (1 + repeated[name], shown[name])
    assert all(one.state is LearningState.ACTIVE for one in state.active())


@given(some.lists(told, max_size=30), some.lists(some.booleans(), min_size=30, max_size=30))
def test_a_reader_that_looks_at_any_time_holds_the_state_of_a_reading_from_the_start(
    story: list[JournalEntry], looks: list[bool]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder), "auth")
        with journal.path.open("w") as file:
            for one, is_looked_at in zip(story, looks, strict=False):
                print(one.to_json_line(), file=file, flush=True)
                if is_looked_at:
                    journal.read()
        expected = after(story)
        assert differences(journal.read(), expected) == ()
        assert state_sha256(journal.read()) == state_sha256(expected)
