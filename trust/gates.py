"""Gates over retrievals: they check that sources are trusted enough and that no attack was served, and report it.

`gate-i-source-trust` and `gate-p-retrieval-poisoning` are defined by the retrieval RFC. They report and drop nothing.
`summarise` and `write_evidence` make the report and the evidence file of `sluice eval guard`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from sluice.contracts.base import LaterText, Value
from sluice.contracts.document import parse_host
from sluice.contracts.retrieval import RetrievedChunk
from sluice.contracts.trust import GateCheck, TrustScore, Verdict
from sluice.trust.source_trust import written_at

SOURCE_TRUST = "gate-i-source-trust"
RETRIEVAL_POISONING = "gate-p-retrieval-poisoning"
MEAN_TRUST = 0.6
"""Threshold of gate I in the RFC."""


def check_source_trust(scores: Sequence[TrustScore]) -> GateCheck:
    """Check gate I: the mean trust is at least 0.6. The lowest score is reported too, as a mean may hide it.

    Without chunks it passes with the value 1.
    """
    values = [score.score for score in scores]
    mean = sum(values) / len(values) if values else 1.0
    return GateCheck(
        id=SOURCE_TRUST,
        passed=mean >= MEAN_TRUST,
        severity="P1",
        value=mean,
        threshold=MEAN_TRUST,
        minimum=min(values, default=None),
    )


def check_poisoning(served: Sequence[RetrievedChunk], dropped: int) -> GateCheck:
    """Check gate P: no served chunk is blocked. `detail` has the number of chunks dropped before."""
    blocked = sum(one.inspection is not None and one.inspection.verdict is Verdict.BLOCKED for one in served)
    left_out = f"{dropped} blocked passage{'s' if dropped > 1 else ''} left out" if dropped else None
    return GateCheck(
        id=RETRIEVAL_POISONING, passed=not blocked, severity="P0", value=blocked, threshold=0, detail=left_out
    )


class JudgedRetrieval(Value):
    """One retrieval: the query, the results of the gates, and the evidence that was served."""

    query: str
    run_id: LaterText = None
    checks: tuple[GateCheck, ...]
    chunks: Annotated[tuple[RetrievedChunk, ...], Field(exclude=True)] = ()
    scores: Annotated[tuple[TrustScore, ...], Field(exclude=True)] = ()


class GateSummary(Value):
    """One gate over all retrievals: the number that passed, and the mean and worst of their values."""

    id: str
    severity: str
    passed: int
    failed: int
    mean: float
    worst: float
    minimum: float | None = None
    """Lowest value of one chunk, where the gate judges a mean."""


class GuardReport(Value):
    """Result of `sluice eval guard`. It is good where no gate of severity P0 or P1 failed."""

    corpus: str
    retrievals: int
    good: bool
    gates: tuple[GateSummary, ...]
    failures: tuple[JudgedRetrieval, ...]


def summarise(corpus: str, judged: Sequence[JudgedRetrieval]) -> GuardReport:
    """Return the report on one or more judged retrievals."""
    by_gate: dict[str, list[GateCheck]] = {}
    for one in judged:
        for check in one.checks:
            by_gate.setdefault(check.id, []).append(check)
    failures = tuple(one for one in judged if not all(check.passed for check in one.checks))
    return GuardReport(
        corpus=corpus,
        retrievals=len(judged),
        good=all(check.passed or check.severity == "P2" for one in judged for check in one.checks),
        gates=tuple(_summary(name, checks) for name, checks in by_gate.items()),
        failures=failures,
    )


def write_evidence(judged: Iterable[JudgedRetrieval], path: Path) -> int:
    """Write the served evidence, one line per chunk, in the retrieval RFC's format; return the number of lines.

    `domain` is null for a submission, whose URL is only claimed; `timestamp` is the day of publication or of the fetch.
    """
    lines: dict[str, str] = {}
    for one in judged:
        chunks = {chunk.chunk_id: chunk for chunk in one.chunks}
        lines |= {score.chunk_id: _evidence(chunks[score.chunk_id], score) for score in one.scores}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines.values()), encoding="utf-8")
    return len(lines)


def _evidence(chunk: RetrievedChunk, score: TrustScore) -> str:
    signatures = {None: "none", True: "valid", False: "invalid"}
    return json.dumps(
        {
            "chunkId": score.chunk_id,
            "trustScore": round(score.score, 4),
            "domain": None if chunk.provenance.source == "submission" else parse_host(chunk.url),
            "signature": signatures[score.factors.signature_valid],
            "timestamp": written_at(chunk.provenance).date().isoformat(),
        },
        ensure_ascii=False,
        separators=(",", ":"),
    )


def _summary(name: str, checks: Sequence[GateCheck]) -> GateSummary:
    values = [check.value for check in checks]
    minima = [check.minimum for check in checks if check.minimum is not None]
    passed = sum(check.passed for check in checks)
    is_floor = any(check.threshold > 0 for check in checks)
    return GateSummary(
        id=name,
        severity=checks[0].severity,
        passed=passed,
        failed=len(checks) - passed,
        mean=sum(values) / len(values),
        worst=min(values) if is_floor else max(values),
        minimum=min(minima, default=None),
    )
