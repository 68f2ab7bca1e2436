"""The suite can see a loss, and it can see what came twice."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tests.chaos.delivery.truth import CorpusTruth, Row, Truth
from tests.chaos.delivery.verdict import Verdict, judge_truth
from tests.chaos.delivery.work import Sent

RUN, CORPUS = "run_1", "chaos"
SENT = [Sent(RUN, "documents", CORPUS, ("d1",))]


def row(kind: str, name: str, cause: str | None = None, **facts: Any) -> Row:
    payload = json.dumps({"cause_id": cause, "body": facts.pop("body", {})})
    tried = {"attempts": 0, "deaths": 0, "due_at": None, "worker": None}
    return {"id": name, "kind": kind, "status": "settled", "payload": payload} | tried | facts


def story() -> list[Row]:
    return [
        row("DocumentsSubmitted", "e1"),
        row("DocumentChunked", "e2", "e1"),
        row("ChunksEmbedded", "e3", "e2"),
        row("DocumentIndexed", "e4", "e3"),
        row("RunFinished", "e5", "e4", status="recorded"),
    ]


def truth(events: list[Row] | None = None, corpus: CorpusTruth | None = None, **run: Any) -> Truth:
    facts = {"status": "finished", "settled_events": 4, "dead_letters": 0, "reserved_pages": 0, "retrying": 0} | run
    found = CorpusTruth(Counter(d1=1), Counter(), Counter(d1=1), Counter(c1=1))
    return Truth({RUN: facts}, {RUN: events or story()}, {RUN: []}, {CORPUS: corpus or found})


def verdict(of: Truth, sent: list[Sent] = SENT, settled: str = "e1 e2 e3 e4") -> Verdict:
    return judge_truth(of, sent, settled.split())


def test_what_went_well_is_neither_lost_nor_doubled() -> None:
    assert verdict(truth()).is_good


@pytest.mark.parametrize("status", ["open", "answering", "failed", "cancelled"])
def test_an_accepted_run_that_did_not_finish_is_lost(status: str) -> None:
    assert status in verdict(truth(status=status)).lost[0]


def test_an_accepted_run_that_is_not_recorded_is_lost() -> None:
    assert "not recorded" in verdict(truth(), [*SENT, Sent("run_2", "gate", CORPUS)]).lost[0]


def test_a_run_with_a_dead_letter_is_lost() -> None:
    events = [*story()[:3], row("DocumentIndexed", "e4", "e3", status="dead"), story()[4]]
    assert "1 dead letters" in verdict(truth(events, dead_letters=1, settled_events=3)).lost[0]


def test_a_question_without_an_answer_is_lost() -> None:
    assert "no answer" in verdict(truth(), [Sent(RUN, "gate", CORPUS)]).lost[0]


def test_an_answered_question_whose_outcome_is_not_that_of_its_run_is_lost() -> None:
    answered = truth([*story(), row("AnswerReady", "e6", "e5", status="recorded")])
    assert "its outcome None" in verdict(answered, [Sent(RUN, "gate", CORPUS)]).lost[0]
    assert "its outcome open" in verdict(replace(answered, outcomes={RUN: "open"}), [Sent(RUN, "gate", CORPUS)]).lost[0]
    known = replace(answered, outcomes={RUN: "finished"})
    assert not any("outcome" in told for told in verdict(known, [Sent(RUN, "gate", CORPUS)]).lost)


def test_a_document_that_cannot_be_searched_is_lost() -> None:
    found = CorpusTruth(Counter(d1=1), Counter(), Counter(), Counter())
    assert "d1" in verdict(truth(corpus=found)).lost[0]


def test_a_journal_that_cannot_be_read_is_a_loss() -> None:
    damaged = replace(truth().corpora[CORPUS], damage="offset 3 stands where 4 belongs")
    assert "damaged" in verdict(truth(corpus=damaged)).lost[0]


def test_an_event_that_nobody_will_ever_handle_is_lost() -> None:
    events = [*story()[:3], row("DocumentIndexed", "e4", "e3", status="claimed", due_at=1.0), story()[4]]
    assert "e4" in verdict(truth(events, settled_events=3)).lost[0]


def test_an_event_that_was_settled_twice_is_doubled() -> None:
    assert "e3" in verdict(truth(), settled="e1 e2 e3 e3 e4").doubled[0]


def test_two_events_of_a_kind_from_one_cause_are_doubled() -> None:
    events = [*story(), row("DocumentChunked", "e6", "e1", status="recorded")]
    assert "2 DocumentChunked" in verdict(truth(events)).doubled[0]


def test_several_pages_directed_by_one_cause_are_not_doubled_unless_they_are_the_same() -> None:
    def directed(*urls: str) -> list[Row]:
        pages = [
            row("CrawlDirected", f"p{n}", "e1", status="recorded", body={"url": url}) for n, url in enumerate(urls)
        ]
        return [*story(), *pages]

    assert verdict(truth(directed("a", "b"))).is_good
    assert "2 CrawlDirected" in verdict(truth(directed("a", "b", "a"))).doubled[0]


def test_a_run_that_ended_twice_is_doubled() -> None:
    events = [*story(), row("RunFinished", "e6", "e3", status="recorded")]
    assert "2 RunFinished" in verdict(truth(events)).doubled[0]


def test_a_run_that_counts_more_than_it_has_settled_is_doubled() -> None:
    assert "counts 5 settled_events and has 4" in verdict(truth(settled_events=5)).doubled[0]


def test_a_reservation_that_is_held_for_ever_is_doubled() -> None:
    assert "reserved_pages" in verdict(truth(reserved_pages=3)).doubled[0]


@pytest.mark.parametrize(
    ("place", "told"), [("upserts", "in the journal"), ("documents", "generation"), ("chunks", "generation")]
)
def test_what_stands_twice_in_journal_or_generation_is_doubled(place: str, told: str) -> None:
    corpus = truth().corpora[CORPUS]
    getattr(corpus, place).update(["d1", "d1"] if place == "chunks" else ["d1"])
    [problem] = verdict(truth(corpus=corpus)).doubled
    assert told in problem
    assert "2 times" in problem
