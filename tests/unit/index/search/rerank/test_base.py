"""A reranker may be slow, wrong or away: the search goes on, says why, and leaves it alone for a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import pytest

from sluice.contracts.errors import Fenced, Unavailable
from sluice.contracts.retrieval import Query, RetrievedChunk, Strategy
from sluice.index.local.reader import IndexReader
from sluice.index.local.writer import IndexWriter
from sluice.index.search.reranker import NotReranked, Reranker, compose_text
from sluice.index.settings import QuerySettings, RerankSettings


class Scripted:
    """A scorer that gives or raises what it is told to."""

    def __init__(self, *script: object) -> None:
        self.script = list(script)
        self.asked: list[tuple[str, list[str], float]] = []

    def scores(self, query: str, texts: Sequence[str], timeout_seconds: float) -> Sequence[float]:
        self.asked.append((query, list(texts), timeout_seconds))
        said = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(said, BaseException):
            raise said
        return said  # type: ignore[return-value]


class Counting:
    """A breaker that opens after some failures."""

    def __init__(self, most_failures: int = 1_000) -> None:
        self.outcomes: list[bool] = []
        self._most = most_failures

    def admit(self) -> bool:
        return sum(self.outcomes) < self._most

    def record(self, *, failed: bool) -> None:
        self.outcomes.append(failed)


@pytest.fixture
def chunks(tmp_path, make) -> Sequence[RetrievedChunk]:
    with IndexWriter(tmp_path, "c") as writer:
        writer.append(*make.batch([make.document(f"d{i}", f"ferrets sleep {i}", title="On ferrets") for i in range(3)]))
        writer.publish()
    reader = IndexReader(tmp_path, "c", QuerySettings())
    found = reader.search(Query(query="ferrets", strategy=Strategy.BM25)).chunks
    reader.close()
    return found


def _ids(chunks: Sequence[RetrievedChunk]) -> list[str]:
    return [chunk.document_id for chunk in chunks]


def test_the_order_is_that_of_the_scores_and_equals_keep_theirs(chunks) -> None:
    scorer = Scripted([0.1, 0.9, 0.1])
    reranked = Reranker(scorer, 5, 2.0, Counting()).rerank("why", chunks)
    assert _ids(reranked) == [_ids(chunks)[i] for i in (1, 0, 2)]
    assert [chunk.rerank_score for chunk in reranked] == [0.9, 0.1, 0.1]
    assert scorer.asked == [("why", [f"On ferrets\n{chunk.text}" for chunk in chunks], 2.0)]
    assert compose_text(chunks[0].model_copy(update={"title": None})) == chunks[0].text


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (Unavailable("the endpoint is away"), "the endpoint is away"),
        (RuntimeError("secret-key in a library's words"), "RuntimeError"),
        ([0.1, 0.2], "2 scores for 3 texts"),
        ([0.1, 0.2, float("nan")], "no finite number"),
    ],
)
def test_whatever_goes_wrong_is_one_error_with_its_reason(chunks, said, reason) -> None:
    breaker, outcomes = Counting(), []
    reranker = Reranker(Scripted(said), 5, 1.0, breaker, on_outcome=outcomes.append)
    with pytest.raises(NotReranked, match=reason) as caught:
        reranker.rerank("q", chunks)
    assert caught.value.was_asked
    assert "secret" not in str(caught.value)
    assert (breaker.outcomes, outcomes) == ([True], ["failed"])


def test_what_keeps_failing_is_left_alone_and_costs_nothing(chunks) -> None:
    scorer, outcomes = Scripted(Unavailable("away")), []
    reranker = Reranker(scorer, 5, 1.0, Counting(most_failures=2), on_outcome=outcomes.append)
    for _ in range(2):
        with pytest.raises(NotReranked, match="away"):
            reranker.rerank("q", chunks)
    with pytest.raises(NotReranked, match="not asked") as caught:
        reranker.rerank("q", chunks)
    assert not caught.value.was_asked
    assert len(scorer.asked) == 2
    assert outcomes == ["failed", "failed", "left_alone"]


def test_without_money_nobody_is_asked(chunks) -> None:
    scorer, outcomes = Scripted([1.0, 2.0, 3.0]), []
    daily_budget = iter([True, False])
    reranker = Reranker(scorer, 5, 1.0, Counting(), lambda: next(daily_budget), outcomes.append)
    reranker.rerank("q", chunks)
    with pytest.raises(NotReranked, match="budget") as caught:
        reranker.rerank("q", chunks)
    assert not caught.value.was_asked
    assert (len(scorer.asked), outcomes) == (1, ["ok", "no_budget"])


def test_work_that_is_no_longer_wanted_ends_and_speaks_against_nobody(chunks) -> None:
    breaker = Counting()
    with pytest.raises(Fenced):
        Reranker(Scripted(Fenced("cancelled")), 5, 1.0, breaker).rerank("q", chunks)
    assert breaker.outcomes == [False]


def test_a_search_tells_how_reranking_went(tmp_path, make, chunks) -> None:
    scorer = Scripted([0.0, 0.0, 1.0], Unavailable("away"))
    reader = IndexReader(tmp_path, "c", QuerySettings(), Reranker(scorer, 5, 1.0, Counting()))
    query = Query(query="ferrets", strategy=Strategy.BM25)
    good, bad = reader.search(query), reader.search(query)
    reader.close()
    assert _ids(good.chunks) == [_ids(chunks)[i] for i in (2, 0, 1)]
    assert (good.metadata.reranked, good.metadata.rerank_failure, good.metadata.rerank_asked) == (True, None, True)
    assert _ids(bad.chunks) == _ids(chunks)
    assert (bad.metadata.reranked, bad.metadata.rerank_failure) == (False, "away")


def test_nothing_is_asked_about_nothing(tmp_path, make, chunks) -> None:
    scorer = Scripted([1.0])
    reader = IndexReader(tmp_path, "c", QuerySettings(), Reranker(scorer, 5, 1.0, Counting()))
    found = reader.search(Query(query="zebra", strategy=Strategy.BM25))
    reader.close()
    assert (found.chunks, found.metadata.reranked, scorer.asked) == ((), False, [])


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"provider": "http", "model": "m"}, "url"),
        ({"provider": "http", "url": "http://localhost/v1"}, "model's name"),
        ({"provider": "onnx"}, "model_dir"),
    ],
)
def test_settings_that_lack_something_are_refused(settings: dict[str, str], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        RerankSettings.model_validate(settings)


def test_threads_share_a_reranker(chunks) -> None:
    class Slow:
        def scores(self, query: str, texts: Sequence[str], timeout_seconds: float) -> Sequence[float]:
            time.sleep(0.02)
            return [float(query)] * len(texts)

    reranker = Reranker(Slow(), 5, 1.0, Counting())
    got: dict[int, float | None] = {}
    threads = [
        threading.Thread(target=lambda i=i: got.update({i: reranker.rerank(str(i), chunks)[0].rerank_score}))
        for i in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == {i: float(i) for i in range(8)}
