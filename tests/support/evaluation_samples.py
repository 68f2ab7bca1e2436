"""Made-up results and answers; only their order and names matter."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from sluice.contracts.document import Provenance
from sluice.contracts.retrieval import Query, Retrieval, RetrievalMetadata, RetrievedChunk, Strategy
from sluice.evaluation.retrieval.ask import Answered, ask_all
from sluice.evaluation.retrieval.cases import Case
from sluice.evaluation.retrieval.report import Report, Subject, make_report

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def chunk(chunk_id: str, document_id: str, rank: int = 1, url: str | None = None) -> RetrievedChunk:
    return RetrievedChunk(
        chunk_id=chunk_id,
        document_id=document_id,
        url=url,
        file_path=None,
        start_line=1,
        end_line=1,
        language="en",
        section_path=(),
        symbol_path=None,
        title=f"title of {document_id}",
        text=f"text of {chunk_id}",
        token_estimate=3,
        checksum="0" * 64,
        metadata={},
        provenance=Provenance(source="submission", fetched_at=NOW),
        dense_distance=None,
        dense_rank=None,
        lexical_score=1.0,
        lexical_rank=rank,
        fused_score=1.0 / rank,
        rank=rank,
        trust=1.0,
    )


def retrieval(query: Query, document_ids: Sequence[str]) -> Retrieval:
    chunks = tuple(chunk(f"{name}-chunk", name, rank) for rank, name in enumerate(document_ids, start=1))
    metadata = RetrievalMetadata(
        strategy=query.strategy, fusion="none", duration_ms=2.0, total_candidates=len(document_ids)
    )
    return Retrieval(generation="g1", journal_offset=1, chunks=chunks, metadata=metadata)


def cases(count: int) -> tuple[Case, ...]:
    """Questions q0, q1, … of which each has the one answer a0, a1, …"""
    return tuple(
        Case(id=f"q{number}", query=f"question {number}", relevant={f"a{number}": 1}) for number in range(count)
    )


def answers(asked: Sequence[Case], ranks: Sequence[int | None], strategy: Strategy = Strategy.HYBRID) -> list[Answered]:
    """Answers in which each case's own document stands at its rank (None: it was not found)."""
    found = {
        case.query: [*(f"noise{n}" for n in range((rank or 1) - 1)), *([next(iter(case.relevant))] if rank else [])]
        for case, rank in zip(asked, ranks, strict=True)
    }
    return list(ask_all(asked, [strategy], "docs", lambda query: retrieval(query, found[query.query]), at_once=2))


def report(ranks: Sequence[int | None], *strategies: Strategy) -> Report:
    asked = cases(len(ranks))
    subject = Subject(source="cases.jsonl", corpus="docs", sluice_version="1", server_version="1", at_once=2)
    given = [one for strategy in strategies or (Strategy.HYBRID,) for one in answers(asked, ranks, strategy)]
    return make_report(subject, asked, given, NOW)
