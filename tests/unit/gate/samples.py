"""Requests, probes and states that the tests of the gate start from."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from sluice.contracts.gate import BudgetState, CoverageProbed, GateRequested, PolicyState, ProbeHit, QueryTerm
from sluice.gate.probe import Passage
from sluice.index.terms.analysis import analyse

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
OPEN = PolicyState(search_allowed=True, crawl_allowed=True)
RICH = BudgetState(run_usd_left=1.0, day_usd_left=5.0, run_pages_left=8, day_pages_left=500, search_usd_estimate=0.005)
TIMELESS = {"factual": 0.55, "code_lookup": 0.2, "news": 0.1, "office_holder": 0.15}
URGENT = {"factual": 0.2, "office_holder": 0.7, "news": 0.3}


def asked(query: str = "when was the suspension bridge opened", **fields: Any) -> GateRequested:
    return GateRequested(query=query, **fields)


def hit(
    similarity: float | None = 0.6, *, age: timedelta = timedelta(seconds=5), document: str = "d1", **fields: Any
) -> ProbeHit:
    chunk_id = f"{document}-{similarity}"
    return ProbeHit(
        chunk_id=chunk_id, document_id=document, dense_similarity=similarity, fetched_at=NOW - age, **fields
    )


def terms(covered: int = 3, missing: int = 0) -> tuple[QueryTerm, ...]:
    held = [QueryTerm(term=f"held{number}", idf=2.0, covered=True) for number in range(covered)]
    return (*held, *(QueryTerm(term=f"missing{number}", idf=2.0, covered=False) for number in range(missing)))


def probed(hits: tuple[ProbeHit, ...] = (), **fields: Any) -> CoverageProbed:
    defaults: dict[str, Any] = {
        "generation": "g1" if hits else None,
        "chunk_count": 40 if hits else 0,
        "model_fingerprint": "test",
        "terms": terms() if hits else terms(covered=0, missing=3),
        "intent_similarity": TIMELESS,
        "probed_at": NOW,
    }
    return CoverageProbed(hits=hits, **(defaults | fields))


def passage(text: str, heading: str = "", *, language: str = "en", name: str = "c1") -> Passage:
    """A hit as the gate reads it, by the index's analysis."""
    return Passage(name, heading, text, partial(analyse, language=language))
