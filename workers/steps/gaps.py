"""From a refusal to what the answer says is missing."""

from __future__ import annotations

from sluice.contracts.errors import PolicyRefused, SluiceError
from sluice.contracts.event import Gap


def gap_of(refusal: SluiceError, stage: str, subject: str) -> Gap:
    """What a refusal leaves out of the answer: `subject` (a URL, a query), and why."""
    if isinstance(refusal, PolicyRefused):
        return Gap(
            stage=stage, subject=subject, reason=refusal.rule, detail=refusal.problem, lifted_by=refusal.lifted_by
        )
    return Gap(stage=stage, subject=subject, reason=refusal.code, detail=str(refusal))
