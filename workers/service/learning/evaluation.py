"""Evaluates the runs of a stretch of time from the ledger."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime
from typing import Literal

from sluice.contracts.base import Moment, Value
from sluice.contracts.learning.control import Arm
from sluice.contracts.learning.run_outcome import RunOutcome
from sluice.contracts.plan import Plan
from sluice.evaluation.run_totals import RunTotals, Summary, summarise, total_by
from sluice.ledger.learning.outcomes import Outcomes

By = Literal["plan", "profile", "model"]


class EvaluationRow(Value):
    """The runs of one profile; of one plan of it, or of one model of the gate and its part, where it was asked so."""

    profile: str
    plan: Plan | None = None
    model_version: str | None = None
    arm: Arm | None = None
    summary: Summary


class Evaluation(Value):
    """`GET /v1/evaluation`: how the runs did that were decided from `since` to before `until`."""

    since: Moment
    until: Moment
    by: By
    rows: tuple[EvaluationRow, ...]
    total: Summary


class Rebuilt(Value):
    """How many runs were made again from their events."""

    runs: int


_KEYS: dict[By, tuple[str, ...]] = {
    "plan": ("profile", "plan"),
    "profile": ("profile",),
    "model": ("profile", "model_version", "arm"),
}
"""By which fields of a run the rows are told apart."""


def evaluate(
    outcomes: Outcomes, since: datetime, until: datetime, by: By = "plan", profile: str | None = None
) -> Evaluation:
    """The figures of the runs of that time, of one profile or of all; feedback counts whenever it came.

    A million runs take half a minute of one processor, and the memory of one.
    """
    runs = decided_runs(outcomes, since, until, profile=profile)
    totals_of = total_by(runs, lambda run: tuple(getattr(run, name) for name in _KEYS[by]))
    total = RunTotals()
    for totals in totals_of.values():
        total.merge(totals)
    rows = sorted(totals_of.items(), key=lambda pair: tuple(str(part or "") for part in pair[0]))
    return Evaluation(
        since=since,
        until=until,
        by=by,
        rows=tuple(
            EvaluationRow(**dict(zip(_KEYS[by], key, strict=True)), summary=summarise(totals)) for key, totals in rows
        ),
        total=summarise(total),
    )


def decided_runs(
    outcomes: Outcomes,
    since: datetime,
    until: datetime | None = None,
    *,
    corpus: str | None = None,
    profile: str | None = None,
) -> Iterator[RunOutcome]:
    """The runs that were decided from `since` to before `until` (None: now), of one corpus or profile, or of all."""
    for run in outcomes.decided_between(since.timestamp(), until.timestamp() if until else math.inf):
        if corpus in (None, run.corpus) and profile in (None, run.profile):
            yield run
