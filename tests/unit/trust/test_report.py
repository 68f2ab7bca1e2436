"""What the gates say of many retrievals."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sluice.contracts.document import Provenance
from sluice.contracts.trust import Inspection, TrustFactors, TrustScore, Verdict
from sluice.trust.gates import JudgedRetrieval, check_poisoning, check_source_trust, summarise, write_evidence
from tests.support.retrieved import retrieved


def _judged(*trust: float, blocked: bool = False) -> JudgedRetrieval:
    inspection = Inspection(verdict=Verdict.BLOCKED) if blocked else None
    chunks = tuple(retrieved(f"c{number}", inspection=inspection) for number in range(len(trust)))
    scores = tuple(
        TrustScore(chunk_id=f"c{number}", score=score, factors=TrustFactors(domain_trust=1.0), origin="crawled")
        for number, score in enumerate(trust)
    )
    checks = check_source_trust(scores), check_poisoning(chunks, 0)
    return JudgedRetrieval(query="q", checks=checks, chunks=chunks, scores=scores)


def test_a_report_counts_each_gate_and_names_what_failed() -> None:
    report = summarise("docs", [_judged(0.9, 0.7), _judged(0.5, 0.2), _judged(0.8, blocked=True)])
    source_trust, poisoning = report.gates
    assert (source_trust.passed, source_trust.failed, source_trust.minimum) == (2, 1, 0.2)
    assert (source_trust.mean, source_trust.worst) == (pytest.approx(0.65), 0.35)
    assert (poisoning.passed, poisoning.failed, poisoning.worst) == (2, 1, 1)
    assert len(report.failures) == 2
    assert not report.good
    assert summarise("docs", [_judged(0.9)]).good


def test_evidence_has_the_keys_of_the_rfc_and_each_chunk_once(tmp_path: Path) -> None:
    dated = Provenance(
        source="crawl", fetched_at=datetime(2025, 10, 8, tzinfo=UTC), published_at=datetime(2025, 1, 15, tzinfo=UTC)
    )
    chunk = retrieved("doc1-chunk3", url="https://trusted.com/a", provenance=dated)
    score = TrustScore(chunk_id="doc1-chunk3", score=0.82, factors=TrustFactors(signature_valid=True), origin="crawled")
    one = JudgedRetrieval(query="q", checks=(), chunks=(chunk,), scores=(score,))
    path = tmp_path / "reports" / "evidence-trust.jsonl"
    assert write_evidence([one, one], path) == 1
    assert path.read_text() == (
        '{"chunkId":"doc1-chunk3","trustScore":0.82,"domain":"trusted.com","signature":"valid","timestamp":"2025-01-15"}\n'
    )


def test_the_domain_of_a_submission_is_not_known(tmp_path: Path) -> None:
    claim = retrieved("c", provenance=Provenance(source="submission", fetched_at=datetime(2026, 1, 1, tzinfo=UTC)))
    score = TrustScore(chunk_id="c", score=0.4, factors=TrustFactors(), origin="submitted")
    write_evidence([JudgedRetrieval(query="q", checks=(), chunks=(claim,), scores=(score,))], tmp_path / "e.jsonl")
    assert json.loads((tmp_path / "e.jsonl").read_text())["domain"] is None
