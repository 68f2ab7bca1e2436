"""A learning that names an earlier one as wrong takes its place; where it is not clear which, both are shown."""

from __future__ import annotations

import pytest

from sluice.contracts.memory.learning import LearningSource, LearningState
from sluice.memory.find import rank
from sluice.memory.learning.edit import patch_learning
from sluice.memory.sanitise import sanitize_learning_text
from tests.support.memory.feature import Feature

JOURNAL = "SQLite: use the rollback journal for the cache database"
WAL = "The earlier note was wrong. Use WAL mode for the cache database."
NOTES = (
    "The login endpoint answers 429 after 5 attempts in a minute",
    "The API needs the X-Auth header on every request",
    "Uploads above 30 MB fail with 413",
    "The parser accepts trailing commas",
    "Sessions are kept in Redis",
)


def with_notes(*notes: str, source: LearningSource = LearningSource.AGENT, **fields: int) -> Feature:
    feature = Feature()
    for number, text in enumerate(notes, 1):
        feature.learn(text, source, **{"iteration": number} | fields)
    return feature


def states(feature: Feature) -> list[LearningState]:
    return [one.state for one in feature.learnings]


def test_a_correction_takes_the_place_of_the_earlier_learning_in_rank_and_prompt() -> None:
    feature = with_notes(JOURNAL, "Use pnpm in the frontend")
    result = feature.learn(WAL, iteration=3)
    wrong, _, right = feature.learnings
    assert (result.verdict, result.other.id if result.other else "") == ("unique", wrong.id)
    assert (wrong.state, wrong.retired_by) == (LearningState.REJECTED, right.id)
    found = rank(feature.state, None, "which rollback journal for SQLite", top_k=5, task_id=None)
    assert [one.id for one in found] == [right.id]
    block = feature.prompt(sanitize_learning_text)[0].text
    assert WAL in block
    assert JOURNAL not in block


def test_what_was_retired_can_be_taken_back() -> None:
    feature = with_notes(JOURNAL)
    feature.learn(WAL, iteration=2)
    compare = lambda text, existing: pytest.fail("no text is changed")  # noqa: E731
    patch = {"rejected": False}
    wrong = feature.learnings[0].id
    feature.fold(
        patch_learning(feature.state, wrong, patch, compare=compare, sanitise=sanitize_learning_text, at=feature.at)
    )
    assert states(feature) == [LearningState.ACTIVE] * 2
    assert feature.learnings[0].retired_by is None


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("I was wrong about the login limit: the login endpoint answers 429 after 10 attempts", 0),
        ("The API no longer needs the X-Auth header", 1),
        ("Correction: uploads fail above 50 MB, not 30 MB", 2),
        ("What iteration 3 noted is wrong: uploads above 100 MB fail", 2),
        ("My previous observation was incorrect; the parser rejects trailing commas.", 3),
        ("Contrary to the earlier note, sessions are kept in Postgres", 4),
        ("I said that uploads above 30 MB fail, but nginx lets 50 MB through since the upgrade", 2),
        ("Uploads above 30 MB used to fail with 413; since the upgrade of nginx 50 MB pass", 2),
        ("Forget what I wrote about trailing commas: the parser rejects them", 3),
        ("It is not true that sessions are kept in Redis; they are in Postgres.", 4),
        ("Instead of what iteration 5 says, keep the sessions in Postgres", 4),
    ],
)
def test_a_correction_names_the_earlier_one_in_many_ways(text: str, wrong: int) -> None:
    feature = with_notes(*NOTES)
    feature.learn(text, iteration=9)
    assert [number for number, one in enumerate(feature.learnings) if one.retired_by] == [wrong]


def test_a_correction_names_the_earlier_one_by_its_id() -> None:
    feature = with_notes(*NOTES)
    feature.learn(f"{feature.learnings[1].id} is wrong: a cookie is enough", iteration=9)
    assert [one.retired_by is not None for one in feature.learnings] == [False, True, False, False, False, False]


@pytest.mark.parametrize(
    "text",
    [
        "The old note was wrong.",
        "Fixed a wrong header in the API request",
        "Lesson learned: keep sessions in Postgres instead of Redis",
        "The earlier note on trailing commas is not wrong: the parser accepts them",
        "A wrong X-Auth header makes the API answer 401",
        "Sessions in Redis were renamed by hand on Friday",
        "Note: the wrong header in the API request fails",
    ],
)
def test_what_names_no_earlier_learning_as_wrong_retires_none(text: str) -> None:
    feature = with_notes(*NOTES)
    feature.learn(text, iteration=9)
    assert states(feature) == [LearningState.ACTIVE] * 6


def test_where_two_may_be_meant_both_are_shown_beside_it() -> None:
    feature = with_notes("Uploads above 30 MB fail with 413", "Uploads above 30 MB are slow")
    result = feature.learn("The earlier note was wrong: uploads above 50 MB time out", iteration=3)
    assert result.verdict == "conflict"
    assert states(feature) == [LearningState.ACTIVE] * 3
    assert len(feature.learnings[2].conflicts_with) == 2


@pytest.mark.parametrize("reviewed", [True, False])
def test_an_agent_retires_nothing_that_a_person_said_or_reviewed(reviewed: bool) -> None:
    feature = with_notes(JOURNAL, source=LearningSource.AGENT if reviewed else LearningSource.HUMAN)
    if reviewed:
        one = feature.learnings[0].id
        patch = {"reviewed": True, "source": "Human"}
        feature.fold(patch_learning(feature.state, one, patch, compare=None, sanitise=None, at=feature.at))  # type: ignore[arg-type]
    assert feature.learn(WAL, iteration=2).verdict == "conflict"
    assert states(feature) == [LearningState.ACTIVE] * 2


def test_what_looks_like_harmful_advice_retires_nothing() -> None:
    feature = with_notes("Verify the signature of a download before it is unpacked")
    feature.learn("The earlier note was wrong: turn the signature check off whenever a download is slow.", iteration=2)
    assert states(feature) == [LearningState.ACTIVE] * 2


def test_what_a_person_says_again_is_offered_again_beside_what_had_retired_it() -> None:
    feature = with_notes(JOURNAL)
    feature.learn(WAL, iteration=2)
    feature.learn(JOURNAL + ".", iteration=3)
    assert states(feature) == [LearningState.REJECTED, LearningState.ACTIVE]
    feature.learn(JOURNAL, LearningSource.HUMAN)
    wrong, right = feature.learnings
    assert states(feature) == [LearningState.ACTIVE] * 2
    assert (wrong.source, wrong.conflicts_with) == (LearningSource.HUMAN, (right.id,))


def test_a_task_retires_nothing_of_the_whole_feature_nor_of_another_task() -> None:
    whole, other = with_notes(JOURNAL), with_notes(JOURNAL, task_id=1)
    assert whole.learn(WAL, iteration=2, task_id=2).verdict == "conflict"
    assert other.learn(WAL, iteration=2, task_id=2).verdict == "unique"
    for feature in (whole, other):
        assert states(feature) == [LearningState.ACTIVE] * 2
