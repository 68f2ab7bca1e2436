from __future__ import annotations

from typing import Any

import pytest

from sluice.contracts.memory.learning import FeatureLearning, LearningSource, LearningState
from sluice.memory.journal import FeatureMemory
from sluice.memory.journal import entry as entries
from sluice.memory.journal.entry import JournalEntry
from sluice.memory.journal.feature_memory import fold
from tests.support.memory.entries import added, folded, iteration, learning, said

ONE, OTHER = learning("Use the pool"), learning("Do not use the pool")
BOTH = (added(ONE.text), added(OTHER.text))
PAIR = tuple(sorted((ONE.id, OTHER.id)))
CONFLICT = said(entries.ConflictFound(learning_id=ONE.id, other_id=OTHER.id, evidence="not"))


def reviewed(rejected: bool = False, source: str = "Human", learning_id: str = ONE.id) -> JournalEntry:
    body = entries.LearningReviewed(learning_id=learning_id, rejected=rejected, source=LearningSource(source))
    return said(body)


def repeated(text: str = "use the pool!") -> JournalEntry:
    body = entries.LearningRepeated(learning_id=ONE.id, text=text, reason="again", source=LearningSource.AGENT)
    return said(body)


def resolved(kept: str | None, source: str = "Human") -> JournalEntry:
    body = entries.ConflictResolved(learning_id=OTHER.id, other_id=ONE.id, kept=kept, source=LearningSource(source))
    return said(body)


def one_after(*told: JournalEntry) -> FeatureLearning:
    return folded(added(ONE.text), *told).learnings[ONE.id]


PRUNED = said(entries.LearningsPruned(learning_ids=(ONE.id,), why="nothing came of it"))


def test_an_iteration_is_kept_by_the_id_of_its_entry_and_a_second_entry_of_that_id_adds_nothing() -> None:
    entry = iteration(4)
    state = folded(entry, entry)
    assert list(state.iterations) == [entry.id]
    assert state.next_iteration() == 5
    distilled = said(entries.IterationsDistilled(entry_ids=(entry.id,)))
    assert folded(entry, distilled).distilled == {entry.id}


def test_a_repetition_counts_and_can_be_undone_once() -> None:
    undone = said(entries.RepetitionUndone(entry_id=repeated().id))
    assert one_after(repeated()).hit_count == 2
    state = folded(added(ONE.text), repeated(), repeated("the pool, use it"), undone)
    assert state.learnings[ONE.id].hit_count == 2
    assert repeated().id not in state.repetitions
    assert fold(state, said(undone.body, "again")) == (f"no repetition {repeated().id}, or it was undone before",)


@pytest.mark.parametrize("attention", [repeated(), reviewed()])
def test_a_pruned_learning_is_not_offered_until_it_is_repeated_or_reviewed(attention: JournalEntry) -> None:
    assert folded(added(ONE.text), PRUNED).active() == []
    assert one_after(PRUNED).state is LearningState.PRUNED
    assert one_after(PRUNED, attention).state is LearningState.ACTIVE


def test_a_rejected_learning_stays_rejected_when_it_is_repeated_or_pruned() -> None:
    assert one_after(reviewed(True), repeated(), PRUNED).state is LearningState.REJECTED
    assert one_after(reviewed(True), reviewed(False)).state is LearningState.ACTIVE


def test_a_review_raises_the_source_unless_it_rejects() -> None:
    assert one_after(reviewed(source="OpusReviewed")).source is LearningSource.OPUS_REVIEWED
    assert one_after(reviewed(True, "OpusReviewed")).source is LearningSource.AUTO
    assert one_after(reviewed(source="Agent")).reviewed
    assert one_after(reviewed(source="OpusReviewed"), reviewed()).source is LearningSource.OPUS_REVIEWED


@pytest.mark.parametrize(
    ("changes", "edited"), [({"text": "Use a pool"}, True), ({"text": ONE.text}, False), ({"reason": "so"}, False)]
)
def test_a_patch_changes_what_it_names_and_nothing_else(changes: dict[str, Any], edited: bool) -> None:
    patch = entries.LearningPatched(learning_id=ONE.id, source=LearningSource.HUMAN, **changes)
    expected = ONE.model_copy(update={**changes, "edited": edited, "source": LearningSource.HUMAN})
    assert one_after(said(patch)) == expected


def test_a_conflict_is_shown_on_both_until_it_is_resolved() -> None:
    state = folded(*BOTH, CONFLICT)
    assert state.conflicts == {PAIR: "not"}
    assert [state.learnings[one].conflicts_with for one in (ONE.id, OTHER.id)] == [(OTHER.id,), (ONE.id,)]
    assert len(state.active()) == 2
    state = folded(*BOTH, CONFLICT, resolved(None))
    assert state.conflicts == {}
    assert [(one.state, one.reviewed, one.conflicts_with) for one in state.learnings.values()] == [
        (LearningState.ACTIVE, True, ())
    ] * 2


def test_who_loses_a_conflict_is_rejected_and_an_outcome_reviews_nothing() -> None:
    state = folded(*BOTH, CONFLICT, resolved(OTHER.id, "Auto"))
    assert state.learnings[ONE.id].state is LearningState.REJECTED
    assert state.active() == [OTHER]
    state = folded(*BOTH, CONFLICT, resolved(OTHER.id), resolved(ONE.id))
    assert [one.id for one in state.active()] == [ONE.id], "the later of two decisions holds"


def test_a_conflict_with_a_learning_that_is_not_offered_sleeps_until_it_is() -> None:
    state = folded(*BOTH, CONFLICT, reviewed(True))
    assert state.conflicts == {}
    assert state.learnings[OTHER.id].conflicts_with == ()
    state = folded(*BOTH, CONFLICT, reviewed(True), reviewed(False))
    assert state.conflicts == {PAIR: "not"}


def test_a_learning_may_come_with_its_conflicts_and_neighbours() -> None:
    other = OTHER.model_copy(update={"conflicts_with": (ONE.id,), "near_to": (ONE.id,)})
    state = folded(added(ONE.text), said(entries.LearningAdded(learning=other)))
    assert state.conflicts == {PAIR: ""}
    assert state.learnings[ONE.id].conflicts_with == (OTHER.id,)
    assert state.learnings[OTHER.id].near_to == (ONE.id,)


def test_shown_counts_iterations_and_not_blocks() -> None:
    blocks = [
        said(entries.BlockPrinted(iteration_number=number, learning_ids=(ONE.id,), lines=("x",)), f"{number} {time}")
        for number, time in ((2, 1), (2, 2), (3, 1))
    ]
    state = folded(added(ONE.text), *blocks)
    assert state.learnings[ONE.id].shown == 2
    assert len(state.printed) == 3


def test_a_learning_is_weighed_once_for_an_iteration() -> None:
    def weighed(key: str) -> JournalEntry:
        body = entries.LearningWeighed(learning_id=ONE.id, entry_id=iteration(2).id, used=True, helped=True)
        return said(body, key)

    state = folded(added(ONE.text), iteration(2), weighed("a"))
    assert fold(state, weighed("b")) == (f"learning {ONE.id} was weighed before for iteration {iteration(2).id}",)
    weighed_one = state.learnings[ONE.id]
    assert (weighed_one.used, weighed_one.helped, weighed_one.failed_again) == (1, 1, 0)


NOWHERE = learning("nowhere").id
UNKNOWN: dict[str, entries.EntryBody] = {
    "repeated": entries.LearningRepeated(learning_id=NOWHERE, text="a", reason="b", source=LearningSource.AUTO),
    "patched": entries.LearningPatched(learning_id=NOWHERE, source=LearningSource.HUMAN),
    "reviewed": entries.LearningReviewed(learning_id=NOWHERE, source=LearningSource.HUMAN),
    "conflict": entries.ConflictFound(learning_id=ONE.id, other_id=NOWHERE),
    "resolved": entries.ConflictResolved(learning_id=NOWHERE, other_id=ONE.id, kept=None, source=LearningSource.HUMAN),
    "printed": entries.BlockPrinted(iteration_number=1, learning_ids=(NOWHERE,), lines=()),
    "weighed": entries.LearningWeighed(learning_id=NOWHERE, entry_id=iteration(1).id, used=True),
    "pruned": entries.LearningsPruned(learning_ids=(NOWHERE,), why="a"),
}


@pytest.mark.parametrize("kind", UNKNOWN)
def test_an_entry_about_an_unknown_learning_is_told_and_changes_none(kind: str) -> None:
    state = folded(added(ONE.text), iteration(1))
    learnings = dict(state.learnings)
    assert fold(state, said(UNKNOWN[kind])) == (f"no learning {NOWHERE}",)
    assert state.learnings == learnings


def test_what_else_does_not_apply_is_told() -> None:
    state = folded(*BOTH)
    third = said(
        entries.ConflictResolved(learning_id=ONE.id, other_id=OTHER.id, kept=NOWHERE, source=LearningSource.HUMAN)
    )
    assert "for a third" in fold(state, third)[0]
    assert "with itself" in fold(state, said(entries.ConflictFound(learning_id=ONE.id, other_id=ONE.id)))[0]
    assert "was added before" in fold(state, said(BOTH[0].body, "another key"))[0]
    assert "no iteration" in fold(state, said(entries.IterationsDistilled(entry_ids=("mem_1",))))[0]


def test_what_belongs_to_another_feature_is_told_and_kept_out() -> None:
    state = FeatureMemory("payments")
    assert fold(state, iteration(1)) == ("a record of feature 'auth' in the journal of 'payments'",)
    assert fold(state, added()) == ("a learning of feature 'auth' in the journal of 'payments'",)
    assert (state.iterations, state.learnings) == ({}, {})
