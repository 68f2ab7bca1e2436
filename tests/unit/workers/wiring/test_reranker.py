"""The configured reranker is asked through the egress rules, within its price and its patience, or not at all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sluice.contracts.budget import Ceiling, Ceilings, Spend
from sluice.contracts.document import Chunk, ChunkBatch, ChunkedDocument, Provenance, sha256_text
from sluice.contracts.event import Done, Event, Next, new_run_id
from sluice.contracts.gate import GateRequested
from sluice.contracts.index import AnswerDirected, AnswerReady
from sluice.contracts.retrieval import Query, RetrievedChunk, Strategy
from sluice.ingest.embed.port import Embedded
from sluice.ledger.ledger import NewRun
from sluice.otel import metrics
from sluice.workers.context import Context
from sluice.workers.settings import Settings
from sluice.workers.steps.answer import Answering
from sluice.workers.wiring import models
from sluice.workers.wiring.inject import assemble
from sluice.workers.wiring.models import DailyBudget
from tests.support.metric import value_of
from tests.support.rerank_endpoint import KEY, Endpoint
from tests.support.searching import searched

QUERY = Query(query="ferrets", corpus="c", strategy=Strategy.BM25)


def _document(number: int) -> ChunkedDocument:
    text = f"in burrow {number} ferrets sleep all day and eat all night and play in the morning until {number}"
    chunk = Chunk(
        chunk_id=f"c{number}",
        document_id=f"d{number}",
        ordinal=0,
        text=text,
        start_line=1,
        end_line=1,
        token_estimate=5,
        checksum=sha256_text(text),
    )
    provenance = Provenance(source="file", fetched_at=datetime.now(UTC))
    return ChunkedDocument(document_id=f"d{number}", checksum=sha256_text(text), provenance=provenance, chunks=(chunk,))


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    endpoint.says({"results": [{"index": number, "relevance_score": number / 10} for number in range(3)]})
    yield endpoint
    endpoint.close()


@pytest.fixture
def make_parts(tmp_path: Path, endpoint: Endpoint) -> Iterator[Callable[..., Context]]:
    """An instance without processes that holds three documents and reranks at the endpoint."""
    with ExitStack() as opened:

        def make(*, allowed: bool = True, budget: dict[str, Any] | None = None, **rerank: Any) -> Context:
            chosen = {"provider": "http", "url": endpoint.url, "model": "m", "key": KEY, "timeout_seconds": 5.0}
            address = endpoint.url.removeprefix("http://").removesuffix("/v1")
            settings = {
                "data_dir": tmp_path,
                "rerank": {**chosen, **rerank},
                "egress": {"allow": [f"rerank={address}"] if allowed else []},
                "budget": budget or {},
            }
            context = Context(Settings.model_validate(settings))
            opened.callback(context.close)
            with context.writers.writing("c") as writer:
                writer.append(
                    ChunkBatch(documents=tuple(map(_document, range(3)))), np.eye(3, dtype=np.float32), "model"
                )
                writer.publish()
            return context

        yield make


def answered_in(context: Context, run_id: str) -> Done:
    return assemble(Answering, context).answer(Event.of(AnswerDirected(), run_id=run_id, corpus="c"))


def chunks_of(answered: Done) -> tuple[RetrievedChunk, ...]:
    (ready,) = (emit.body for emit in answered.emits)
    assert isinstance(ready, AnswerReady)
    return ready.answer.chunks


def _counted(outcome: str) -> float:
    return value_of(metrics.RERANKS, outcome=outcome)


def test_the_endpoint_has_the_last_word_and_its_price_is_the_query_s(make_parts, endpoint) -> None:
    before = _counted("ok")
    found, spend = searched(QUERY, make_parts(usd_per_search=0.002))
    assert [chunk.rerank_score for chunk in found.chunks] == [0.2, 0.1, 0.0]
    assert found.metadata.reranked
    assert spend == Spend(usd=0.002)
    assert endpoint.headers[0]["authorization"] == f"Bearer {KEY}"
    assert _counted("ok") == before + 1


def test_an_address_that_egress_does_not_allow_is_never_reached(make_parts, endpoint) -> None:
    found, _ = searched(QUERY, make_parts(allowed=False))
    assert len(found.chunks) == 3
    assert not found.metadata.reranked
    assert "egress" in found.metadata.rerank_failure
    assert endpoint.requests == []


def test_a_slow_endpoint_costs_a_query_its_time_limit_and_no_more(make_parts, endpoint) -> None:
    context = make_parts(timeout_seconds=0.3)
    plain, _ = searched(QUERY.model_copy(update={"rerank": False}), context)
    endpoint.says({"results": []}, delay_seconds=60.0)
    started = time.perf_counter()
    found, _ = searched(QUERY, context)
    assert time.perf_counter() - started < 20
    assert [chunk.chunk_id for chunk in found.chunks] == [chunk.chunk_id for chunk in plain.chunks]
    assert "did not answer within 0.3 s" in found.metadata.rerank_failure


def test_what_keeps_failing_is_left_alone_until_its_pause_is_over(
    make_parts, endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "PAUSE_SECONDS", 0.5)
    context = make_parts(usd_per_search=0.002)
    good = endpoint.body
    endpoint.says({"error": KEY}, status=500)
    before = _counted("left_alone")
    reasons = []
    for _ in range(7):
        found, spend = searched(QUERY, context)
        reasons.append((found.metadata.rerank_failure, spend.usd))
    assert reasons[:5] == [("the reranker answers with status 500", 0.002)] * 5
    assert all("not asked" in why and usd == 0 for why, usd in reasons[5:])
    assert len(endpoint.requests) == 5
    assert _counted("left_alone") == before + 2
    endpoint.says(good)
    time.sleep(0.6)
    assert searched(QUERY, context)[0].metadata.reranked
    assert searched(QUERY, context)[0].metadata.reranked


def test_once_the_day_s_money_is_spent_the_fused_order_stands(make_parts, endpoint) -> None:
    context = make_parts(usd_per_search=0.002, budget={"day_usd": 0.005})
    found = [searched(QUERY, context) for _ in range(3)]
    assert [one.metadata.reranked for one, _ in found] == [True, True, False]
    assert "budget" in found[2][0].metadata.rerank_failure
    assert len(endpoint.requests) == 2


def _run(context: Context, ceilings: Ceilings, **options: Any) -> str:
    run_id, request = new_run_id(), GateRequested.model_validate({"query": "ferrets", **options})
    event = Event.of(request, run_id=run_id, corpus="c")
    context.ledger.create_run(NewRun(run_id, "gate", "c", "0" * 64, ceilings=ceilings), [(event, Next(request))])
    return run_id


class _Embedder:
    """Gives every question the first document's vector."""

    fingerprint, dimension = "model", 3

    def embed(self, texts: Sequence[str], required_fingerprint: str | None = None) -> Embedded:
        return Embedded(np.eye(3, dtype=np.float32)[:1], self.fingerprint)


def test_a_run_pays_for_reranking_out_of_its_own_budget_and_names_what_it_went_without(make_parts, endpoint) -> None:
    context = make_parts(usd_per_search=0.002)
    context.__dict__["embedder"] = _Embedder()
    poor, rich = (_run(context, Ceilings(run=Ceiling(usd=usd))) for usd in (0.001, 0.1))
    answered = answered_in(context, poor)
    assert [(gap.subject, gap.reason) for gap in answered.gaps] == [("rerank", "budget_exhausted")]
    assert (answered.spend.usd, endpoint.requests) == (0.0, [])
    answered = answered_in(context, rich)
    assert (answered.gaps, answered.spend.usd) == ((), 0.002)
    assert [chunk.rerank_score for chunk in chunks_of(answered)] == [0.2, 0.1, 0.0]
    endpoint.says(b"garbage")
    answered = answered_in(context, rich)
    assert [gap.reason for gap in answered.gaps] == ["not_reranked"]
    assert answered.spend.usd == 0.002


def test_what_a_request_says_of_its_results_reaches_the_query(make_parts, endpoint) -> None:
    context = make_parts()
    context.__dict__["embedder"] = _Embedder()
    run_id = _run(context, Ceilings(), duplicate_threshold=0.3, rerank=False, neighbours=1, max_per_domain=1)
    answered = answered_in(context, run_id)
    assert [len(chunk.duplicates) for chunk in chunks_of(answered)] == [2]
    assert endpoint.requests == []


def test_without_a_provider_nothing_is_built(tmp_path: Path) -> None:
    context = Context(Settings(data_dir=tmp_path))
    assert context.reranker is None
    context.close()


def test_a_purse_is_full_again_the_next_day() -> None:
    now = [datetime(2026, 1, 1, 23, tzinfo=UTC)]
    daily_budget = DailyBudget(0.1, 0.3, lambda: now[0])
    assert [daily_budget.take() for _ in range(4)] == [True, True, True, False]
    now[0] += timedelta(hours=2)
    assert daily_budget.take()
    assert all(DailyBudget(0.0, 0.0, lambda: now[0]).take() for _ in range(3))
    assert all(DailyBudget(9.0, None, lambda: now[0]).take() for _ in range(3))
    assert not DailyBudget(0.1, 0.0, lambda: now[0]).take()


def test_an_endpoint_never_sees_what_is_masked() -> None:
    seen: list[str] = []

    class Scorer:
        def scores(self, query: str, texts: Sequence[str], timeout_seconds: float) -> Sequence[float]:
            seen.extend([query, *texts])
            return [0.0] * len(texts)

    masked = models.MaskedScorer(Scorer(), lambda text: text.replace("secret", "[secret]"))
    assert masked.scores("a secret?", ["the secret"], 1.0) == [0.0]
    assert seen == ["a [secret]?", "the [secret]"]
