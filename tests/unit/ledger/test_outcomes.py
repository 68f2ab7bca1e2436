"""Each gate run has one row of what became of it, written with the events that say so, and derived from them again."""

from __future__ import annotations

import pytest

from sluice.contracts.base import BlobRef
from sluice.contracts.budget import Spend
from sluice.contracts.event import Done, Next
from sluice.contracts.gate import CoverageProbed, FeedbackGiven
from sluice.contracts.ingest import CrawlDirected, PageCrawled, PageUnchanged
from sluice.contracts.learning.control import Control, Defence, ModelUse
from sluice.contracts.learning.run_outcome import RunOutcome
from sluice.contracts.plan import Plan
from sluice.contracts.trust import GateCheck
from sluice.ledger.learning.outcomes import Place
from sluice.ledger.retention import Pruning
from tests.support.ledger_story import Story
from tests.support.outcome_story import CONFIG, answers, asks_and_decides, cites, days, decided, hit, moment, says

A, B, C, D = (f"https://example.org/{letter}" for letter in "abcd")
DAY = 86_400.0


def outcome(story: Story, run_id: str) -> RunOutcome:
    found = story.ledger.outcomes.of_run(run_id)
    assert found is not None
    return RunOutcome.model_validate(found.model_dump())


def derived_alike(story: Story, run_id: str) -> None:
    """The row that was written is the one that follows from the events."""
    before = outcome(story, run_id)
    assert story.ledger.outcomes.rebuild() >= 1
    assert outcome(story, run_id) == before


def asks_and_answers(story: Story, age: float = 60.0) -> str:
    decision = asks_and_decides(story)
    answers(story, decision[-1], cites({A: age}))
    return decision[0].run_id


def test_a_run_that_was_not_decided_has_no_outcome(story: Story) -> None:
    asked = story.asks()
    assert story.ledger.outcomes.of_run(asked.run_id) is None
    story.ledger.cancel(asked.run_id)
    assert story.ledger.outcomes.of_run(asked.run_id) is None


def test_a_decision_opens_the_outcome_with_all_that_steered_it(story: Story) -> None:
    model = ModelUse(version="m7", model_sha256="a" * 64, arm="canary", bucket=0.04, propensity=0.1)
    stepped_back = Defence(
        name="cost", step="retrieve_only", profile="default", since=moment(story), why="dear", lifted_by="tomorrow"
    )
    control = Control(flags_off=("search", "crawl"), is_trickle=True, model=model, defences=(stepped_back,))
    run_id = asks_and_decides(story, Plan.SEARCH, crawls=[A], control=control)[0].run_id
    found = outcome(story, run_id)
    assert (found.status, found.plan, found.config_hash, found.profile) == ("open", Plan.SEARCH, CONFIG, "default")
    assert (found.model_version, found.arm, found.propensity, found.bucket) == ("m7", "canary", 0.1, 0.04)
    assert (found.flags, found.is_trickle, found.is_stepped_back) == ("crawl,search", True, False)
    assert found.decided_at == moment(story)
    derived_alike(story, run_id)


def test_a_second_decision_takes_the_place_of_the_first(story: Story) -> None:
    first, closing = asks_and_decides(story)
    story.clock.passes(2.0)
    probe = CoverageProbed(generation="g1", model_fingerprint="m", probed_at=moment(story), abstained="nothing")
    [probed] = story.handles(closing, Done((Next(probe),))).emitted
    second, crawl = story.handles(probed, Done((Next(decided(story)), Next(CrawlDirected(url=A))))).emitted
    found = outcome(story, first.run_id)
    assert (found.plan, found.decided_at) == (Plan.FULL_LOOP, moment(story))
    [answering] = story.handles(crawl, Done()).emitted
    answers(story, answering, cites({A: 1.0}))
    assert outcome(story, first.run_id).external_calls == 1
    derived_alike(story, second.run_id)


def test_a_run_that_a_step_back_steered_says_so(story: Story) -> None:
    stepped_back = Defence(
        name="latency", step="lower_plan", profile="default", since=moment(story), why="slow", lifted_by="a faster web"
    )
    run_id = asks_and_decides(story, control=Control(defences=(stepped_back,)))[0].run_id
    assert outcome(story, run_id).is_stepped_back
    derived_alike(story, run_id)


def test_gates_of_severity_p0_that_an_answer_did_not_pass_are_counted(story: Story) -> None:
    decision = asks_and_decides(story)
    checks = [
        GateCheck(id=f"gate-{number}", passed=passed, severity=severity, value=0.1, threshold=0.5)  # type: ignore[arg-type]
        for number, (passed, severity) in enumerate([(False, "P0"), (True, "P0"), (False, "P1")])
    ]
    ready = cites({A: 1.0})
    failing = ready.answer.model_copy(update={"checks": tuple(checks)})
    answers(story, decision[-1], ready.model_copy(update={"answer": failing}))
    assert outcome(story, decision[0].run_id).failed_checks == 1
    derived_alike(story, decision[0].run_id)


def test_the_end_of_a_run_completes_its_outcome(story: Story) -> None:
    decision, to_a, to_b = asks_and_decides(story, crawls=[A, B], hits=[hit(C, moment(story) - days(2))])
    crawled = PageCrawled(
        url=A,
        final_url=A,
        status=200,
        blob=BlobRef(sha256="a" * 64, size_bytes=1),
        media_type="text/html",
        depth=0,
        fetched_at=moment(story),
    )
    page = story.handles(to_a, Done((Next(crawled),), spend=Spend(pages=1, usd=0.02))).emitted[0]
    story.clock.passes(2.5)
    story.handles(page, Done(spend=Spend(tokens=40)))
    closing = story.handles(to_b, Done()).emitted[0]
    answers(story, closing, cites({A: 10.0, D: DAY}, own=[A], run_id=decision.run_id), Spend(usd=0.01))
    found = outcome(story, decision.run_id)
    assert found.status == "finished"
    assert found.usd == pytest.approx(0.03)
    assert found.milliseconds == pytest.approx(2_500)
    assert (found.external_calls, found.pages_asked, found.pages_read) == (2, 2, 1)
    assert (found.tokens, found.cited, found.used) == (40 + 200, 2, None)
    assert found.cited_age_seconds == pytest.approx((10 + DAY) / 2)
    assert found.cited_age_without_crawl_seconds == pytest.approx((2 * DAY + 2.5 + DAY) / 2)
    derived_alike(story, decision.run_id)


def test_a_page_that_the_run_found_unchanged_is_as_old_without_it_as_the_probe_saw_it(story: Story) -> None:
    decision, to_a = asks_and_decides(story, crawls=[A], hits=[hit(A, moment(story) - days(3))])
    unchanged = PageUnchanged(url=A, final_url=A, depth=0, by="not_modified", fetched_at=moment(story))
    closing = story.handles(to_a, Done((Next(unchanged),))).emitted[-1]
    answers(story, closing, cites({A: 0.0}))
    found = outcome(story, decision.run_id)
    assert found.freshness_gain_seconds == pytest.approx(3 * DAY)
    assert (found.pages_asked, found.pages_read) == (1, 1)
    derived_alike(story, decision.run_id)


def test_an_answer_that_owes_nothing_to_its_run_has_no_gain_in_freshness(story: Story) -> None:
    run_id = asks_and_answers(story, age=DAY)
    assert outcome(story, run_id).freshness_gain_seconds == 0.0
    derived_alike(story, run_id)


def test_where_the_corpus_had_nothing_before_the_gain_is_not_known(story: Story) -> None:
    decision, to_a = asks_and_decides(story, crawls=[A])
    closing = story.handles(to_a, Done()).emitted[-1]
    answers(story, closing, cites({A: 5.0}, own=[A], run_id=decision.run_id))
    found = outcome(story, decision.run_id)
    assert (found.cited_age_seconds, found.cited_age_without_crawl_seconds) == (5.0, None)
    assert found.freshness_gain_seconds is None


def test_a_cancelled_run_has_an_outcome_without_an_answer(story: Story) -> None:
    decision = asks_and_decides(story, crawls=[A])[0]
    story.ledger.cancel(decision.run_id)
    found = outcome(story, decision.run_id)
    assert (found.status, found.cited, found.pages_asked) == ("cancelled", 0, 0)
    derived_alike(story, decision.run_id)


def test_feedback_counts_when_it_is_settled_and_not_before(story: Story) -> None:
    run_id = asks_and_answers(story)
    event = says(story, run_id, outcome="partial", chunk_ids_used=[f"{A}-1"])
    assert outcome(story, run_id).signals == {}
    came_at = moment(story)
    story.clock.passes(30)
    story.handles(event, Done())
    found = outcome(story, run_id)
    assert (found.signals, found.used, found.precision) == ({"task_satisfaction": 0.5}, 1, 1.0)
    assert found.judged_at == came_at
    derived_alike(story, run_id)


def test_several_owners_on_one_signal_give_its_mean_and_each_signal_counts_alike(story: Story) -> None:
    run_id = asks_and_answers(story)
    for owner, fields in {
        "a": {"outcome": "success"},
        "b": {"rating": 0.5, "outcome": "failure"},
        "c": {"outcome": "failure", "signal": "tool_success"},
        "d": {"outcome": "unknown", "signal": "benchmark"},
    }.items():
        story.handles(says(story, run_id, owner, **fields), Done())
    found = outcome(story, run_id)
    assert found.signals == {"task_satisfaction": 0.75, "tool_success": 0.0}
    assert found.satisfaction == pytest.approx(0.375)
    derived_alike(story, run_id)


def test_feedback_that_says_nothing_judges_nothing(story: Story) -> None:
    run_id = asks_and_answers(story)
    story.handles(says(story, run_id, outcome="unknown", note="hm"), Done())
    assert outcome(story, run_id).judged_at is None


def test_feedback_before_the_decision_is_not_lost(story: Story) -> None:
    asked = story.asks()
    story.handles(says(story, asked.run_id, rating=0.25), Done())
    decision = asks_and_decides(story, asked=asked)
    answers(story, decision[-1], cites({A: 1.0}))
    assert outcome(story, asked.run_id).signals == {"task_satisfaction": 0.25}
    derived_alike(story, asked.run_id)


def test_runs_are_read_in_the_order_of_their_decisions_page_by_page(story: Story) -> None:
    made = []
    for _ in range(5):
        made.append(asks_and_decides(story)[0].run_id)
        story.clock.passes(60)
    began = story.clock.now - 5 * 60
    outcomes = story.ledger.outcomes
    first, place = outcomes.page(Place(began), most=2)
    second, _ = outcomes.page(place, before=began + 4 * 60, most=10)
    assert [run.run_id for run in (*first, *second)] == made[:4]
    assert outcomes.page(Place(story.clock.now)) == ((), Place(story.clock.now))
    assert [run.run_id for run in outcomes.decided_between(began + 60)] == made[1:]


def test_runs_decided_in_the_same_moment_are_each_read_once(story: Story) -> None:
    made = {asks_and_decides(story)[0].run_id for _ in range(5)}
    place, seen = Place(story.clock.now), []
    while True:
        page, place = story.ledger.outcomes.page(place, most=2)
        if not page:
            break
        seen += [run.run_id for run in page]
    assert sorted(seen) == sorted(made)


def test_a_pruned_run_leaves_no_outcome(story: Story) -> None:
    run_id = asks_and_answers(story)
    story.clock.passes(10)
    Pruning(story.ledger.database, story.clock).prune(moment(story), "me")
    assert story.ledger.outcomes.of_run(run_id) is None


def test_the_value_of_feedback_is_its_rating_else_what_its_outcome_stands_for() -> None:
    values = [
        FeedbackGiven(outcome=name).value  # type: ignore[arg-type]
        for name in ("success", "partial", "failure", "unknown")
    ]
    assert values == [1.0, 0.5, 0.0, None]
    assert FeedbackGiven(outcome="failure", rating=0.9).value == 0.9


def test_the_confidence_of_an_answer_is_kept_by_its_evidence_and_the_judged_runs_of_a_corpus_are_found(
    story: Story,
) -> None:
    def judged(confidence: float, evidence: float | None, plan: Plan = Plan.RETRIEVE) -> str:
        decision = asks_and_decides(story, plan)
        ready = cites({A: 60.0}, evidence=evidence)
        sure = ready.answer.model_copy(update={"confidence": confidence})
        answers(story, decision[-1], ready.model_copy(update={"answer": sure}))
        run_id = decision[0].run_id
        story.handles(says(story, run_id, outcome="success"), Done())
        derived_alike(story, run_id)
        return run_id

    first, shifted = judged(0.6, None), judged(0.9, 0.7)
    judged(0.8, None, Plan.SEARCH)
    asks_and_answers(story)
    found = story.ledger.outcomes.judged_from("docs", 10)
    assert [(one.run_id, one.confidence) for one in found] == [(shifted, 0.7), (first, 0.6)]
    assert len(story.ledger.outcomes.judged_from("docs", 1)) == 1
    assert story.ledger.outcomes.judged_from("others", 10) == []
