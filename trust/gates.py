"""Gates over a whole retrieval: whether its sources are trusted enough, and whether poison came through.

`gate-i-source-trust` and `gate-p-retrieval-poisoning` are those of the retrieval RFC. They report and drop nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from sluice.contracts.retrieval import RetrievedChunk
from sluice.contracts.trust import GateCheck, TrustScore, Verdict

SOURCE_TRUST = "gate-i-source-trust"
RETRIEVAL_POISONING = "gate-p-retrieval-poisoning"
MEAN_TRUST = 0.6
"""The RFC's threshold of gate I."""


def check_source_trust(scores: Sequence[TrustScore]) -> GateCheck:
    """Gate I: the mean trust is at least 0.6. The lowest score is reported beside it, as a mean hides one among many.

    Without a chunk there is nothing to distrust: it passes with the value 1.
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
    """Gate P: none of the chunks that are served is blocked. How many were dropped before is told in `detail`."""
    blocked = sum(one.inspection is not None and one.inspection.verdict is Verdict.BLOCKED for one in served)
    left_out = f"{dropped} blocked passage{'s' if dropped > 1 else ''} left out" if dropped else None
    return GateCheck(
        id=RETRIEVAL_POISONING,
        passed=not blocked,
        severity="P0",
        value=blocked,
        threshold=0,
        detail=left_out,
    )
