"""Recall: relevance decides first; age, outcome, source and how a learning fared decide among what is alike."""

from __future__ import annotations

import time
from typing import Any

from sluice.contracts.memory.api import Recollection
from sluice.contracts.memory.learning import LearningSource, LearningState
from sluice.contracts.memory.model import IterationOutcome
from sluice.memory.find import rank
from sluice.memory.journal.entry import LearningReviewed
from sluice.memory.journal.feature_memory import FeatureMemory
from sluice.memory.ports import Hit, Hits
from tests.support.memory.iterations import BEGINNING, conflict, entry, error, iteration, learning, memory_of


def ranked(state: FeatureMemory, query: str = "", hits: Hits | None = None, **options: Any) -> list[Recollection]:
    return rank(state, hits, query, **{"top_k": 10, "task_id": None} | options)


def hits(**relevance: float) -> Hits:
    return Hits(tuple(Hit(key, value) for key, value in relevance.items()), "hybrid")


def test_an_old_memory_that_answers_goes_before_a_new_one_that_hardly_does() -> None:
    """Recency is not relevance: by the index's relevance, and by the journal's own words."""
    old = iteration(1, errors=[error("TypeError: Cannot read property 'user' of undefined", "src/auth.ts", 42)])
    others = [iteration(n, IterationOutcome.SUCCESS, summary=f"Wrote page {n} for the user") for n in range(2, 200)]
    state = memory_of(old, *others)
    assert ranked(state, hits=hits(**{others[-1].id: 0.5, old.id: 0.9}))[0].id == old.id
    assert ranked(state, "Cannot read property user of undefined")[0].id == old.id


def test_of_two_alike_the_newer_goes_first() -> None:
    older, newer = (iteration(n, summary="The login form needs a token") for n in (1, 30))
    assert [one.id for one in ranked(memory_of(older, newer), "login token")] == [newer.id, older.id]


def test_an_iteration_that_was_cut_short_counts_less() -> None:
    """What failed is worth as much as what worked."""
    state = memory_of(
        iteration(1, IterationOutcome.RATE_LIMITED, summary="login token", task_id=1),
        iteration(2, IterationOutcome.SUCCESS, summary="login token", task_id=2, timestamp=BEGINNING),
        iteration(3, IterationOutcome.FAILURE, summary="login token", task_id=3, timestamp=BEGINNING),
    )
    weights = {one.outcome: one.weight for one in ranked(state, "login token")}
    assert weights[IterationOutcome.RATE_LIMITED] < weights[IterationOutcome.FAILURE]
    assert weights[IterationOutcome.SUCCESS] == weights[IterationOutcome.FAILURE]


def test_a_person_s_learning_counts_more_and_a_failing_one_less() -> None:
    human = learning("Tokens expire after an hour", 1, source=LearningSource.HUMAN)
    plain = learning("Tokens expire after a day", 1)
    failing = learning("Tokens expire after a week", 1, shown=4, failed_again=3)
    helpful = learning("Tokens expire after a month", 1, shown=4, used=3, helped=3)
    found = ranked(memory_of(failing, plain, human, helpful), "tokens expire")
    assert [one.id for one in found] == [helpful.id, human.id, plain.id, failing.id]


def test_a_learning_that_always_helped_does_not_outrank_what_answers() -> None:
    """Reviewed by a person, observed often, of the last iteration: still half as relevant is less."""
    answer = iteration(1, summary="The proxy strips the header")
    helpful = learning(
        "Tokens expire", 60, source=LearningSource.OPUS_REVIEWED, reviewed=True, hit_count=16, used=9, helped=9
    )
    state = memory_of(answer, *(iteration(number, task_id=number) for number in range(2, 60)), helpful)
    assert ranked(state, hits=hits(**{helpful.id: 0.4, answer.id: 0.9}))[0].id == answer.id


def test_being_shown_gives_no_weight() -> None:
    shown, unseen = learning("Tokens expire", 1, shown=100), learning("Tokens expires", 1)
    weights = [one.weight for one in ranked(memory_of(shown, unseen), "tokens")]
    assert weights[0] == weights[1]


def test_what_was_rejected_or_pruned_is_not_offered() -> None:
    """Also where the index still holds it."""
    rejected, pruned = learning("Tokens never expire"), learning("Tokens are numbers", state=LearningState.PRUNED)
    state = memory_of(rejected, pruned)
    memory_of(
        entry(LearningReviewed(learning_id=rejected.id, rejected=True, source=LearningSource.HUMAN), key="1"),
        state=state,
    )
    assert ranked(state, "tokens") == []
    assert ranked(state, hits=hits(**{rejected.id: 0.9, pruned.id: 0.9, "lrn_unknown": 0.9})) == []


def test_a_learning_of_another_task_is_not_offered_to_a_task() -> None:
    """F25: without a task, all are."""
    mine, other, all_of_us = (learning(f"Tokens {n}", task_id=task) for n, task in ((1, 7), (2, 8), (3, None)))
    state = memory_of(mine, other, all_of_us)
    found = hits(**{mine.id: 0.9, other.id: 0.9, all_of_us.id: 0.9})
    assert {one.id for one in ranked(state, hits=found, task_id=7)} == {mine.id, all_of_us.id}
    assert {one.id for one in ranked(state, "tokens", task_id=7)} == {mine.id, all_of_us.id}
    assert len(ranked(state, hits=found)) == 3


def test_learnings_that_disagree_stand_side_by_side() -> None:
    """Also where only one of them was found, and where others lie between them."""
    one, other = learning("Use the cache for tokens"), learning("Never cache tokens")
    between = learning("Tokens of the cache are signed")
    state = memory_of(one, between, other, conflict(one, other))
    found = ranked(state, hits=hits(**{one.id: 0.9, between.id: 0.8, other.id: 0.1}))
    assert [each.id for each in found] == [between.id, one.id, other.id] or found[1].id == other.id
    assert {one.id, other.id} <= {each.id for each in ranked(state, hits=hits(**{one.id: 0.9}))}


def test_no_more_than_asked_for_is_given() -> None:
    state = memory_of(*(learning(f"Tokens of kind {n}") for n in range(20)))
    assert len(ranked(state, "tokens", top_k=5)) == 5
    assert ranked(state, "zebra") == []


def test_ten_thousand_records_are_searched_in_20_milliseconds() -> None:
    """By the journal's own words, after the first time; the fastest of several, as machines are busy."""
    words = [
        "parser",
        "login",
        "token",
        "cache",
        "migration",
        "schema",
        "widget",
        "button",
        "index",
        "query",
        "router",
        "session",
        "cookie",
        "header",
    ]
    state = memory_of(
        *(
            iteration(n, summary=f"{words[n % 14]} {words[n % 13]} {words[n % 11]} step {n} of the work", task_id=n)
            for n in range(1, 10_001)
        )
    )
    ranked(state, "parser")
    seconds = []
    for _ in range(7):
        started = time.perf_counter()
        found = ranked(state, "the session cookie of the router is missing in step 4711")
        seconds.append(time.perf_counter() - started)
    assert found[0].iteration == 4711
    assert min(seconds) < 0.02
