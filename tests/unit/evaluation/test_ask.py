"""Asking: bounded, patient, complete, and in order."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest

from sluice.contracts.errors import Forbidden, Overloaded, TimedOut
from sluice.contracts.retrieval import Query, Retrieval, Strategy
from sluice.evaluation.retrieval.ask import TOP_K, TRIES, ask_all, retry_when_overloaded
from tests.support.evaluation_samples import cases, chunk, retrieval


def test_every_question_is_asked_by_every_strategy_in_order_and_never_more_at_once_than_allowed() -> None:
    under_way, most, guard = 0, 0, threading.Lock()

    def search(query: Query) -> Retrieval:
        nonlocal under_way, most
        with guard:
            under_way += 1
            most = max(most, under_way)
        threading.Event().wait(0.005)
        with guard:
            under_way -= 1
        return retrieval(query, ["a"])

    asked = list(ask_all(cases(10), [Strategy.BM25, Strategy.VECTOR], "docs", search, at_once=3))
    assert [(one.case.id, one.strategy) for one in asked] == [
        (f"q{number}", strategy) for number in range(10) for strategy in (Strategy.BM25, Strategy.VECTOR)
    ]
    assert 1 < most <= 3


def test_a_ranking_that_the_limit_of_chunks_cut_short_is_marked() -> None:
    def search(query: Query) -> Retrieval:
        documents = 99 if query.query == "question 0" else 100
        found = retrieval(query, [])
        chunks = tuple(chunk(f"c{n}", f"d{n % documents}", n + 1) for n in range(TOP_K))
        return found.model_copy(update={"chunks": chunks})

    short, whole = ask_all(cases(2), [Strategy.HYBRID], "docs", search, at_once=1)
    assert (len(short.names), short.is_truncated) == (99, True)
    assert (len(whole.names), whole.is_truncated) == (100, False)


def test_a_corpus_with_few_chunks_cuts_nothing_short() -> None:
    (asked,) = ask_all(cases(1), [Strategy.HYBRID], "docs", lambda query: retrieval(query, ["a"]), at_once=1)
    assert (asked.is_truncated, asked.index_ms, asked.generation) == (False, 2.0, "g1")


def test_an_error_that_no_second_try_can_help_ends_the_asking_at_once() -> None:
    tried: list[str] = []

    def search(query: Query) -> Retrieval:
        tried.append(query.query)
        threading.Event().wait(0.002)
        raise Forbidden("no key")

    with pytest.raises(Forbidden):
        list(ask_all(cases(1_000), [Strategy.HYBRID], "docs", search, at_once=2))
    assert len(tried) < 1_000


def test_an_asking_that_is_left_early_asks_nothing_more() -> None:
    tried: list[str] = []

    def search(query: Query) -> Retrieval:
        tried.append(query.query)
        threading.Event().wait(0.002)
        return retrieval(query, ["a"])

    with closing(ask_all(cases(1_000), [Strategy.HYBRID], "docs", search, at_once=2)) as asking:
        next(asking)
    after = len(tried)
    threading.Event().wait(0.05)
    assert len(tried) == after < 1_000


def test_a_full_server_is_asked_again_when_it_said() -> None:
    errors = [Overloaded("full", 7.0), Overloaded("full", 900.0), TimedOut("slow"), TimedOut("slow")]
    pauses: list[float] = []

    def call() -> str:
        if errors:
            raise errors.pop(0)
        return "answer"

    assert retry_when_overloaded(call, pauses.append) == "answer"
    assert pauses == [7.0, 60.0, 1.0, 2.0]


def test_patience_ends() -> None:
    tries = 0

    def call() -> str:
        nonlocal tries
        tries += 1
        raise TimedOut("slow")

    with pytest.raises(TimedOut):
        retry_when_overloaded(call, lambda seconds: None)
    assert tries == TRIES
