"""What the server answers on: /v1/evaluation, /v1/rollouts. Written by `.ci/client_models.py` from the server's OpenAPI description: do not edit."""

# fmt: off
from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from sluice_client.models.base import Model
from sluice_client.models.answers import Plan


class AbReport(Model):  # One model's report
    model_version: str
    model_sha256: str
    status: str
    share: float
    since: datetime
    headline: str
    verdict: StageVerdict
    stage_runs: int
    expected_runs: int | None
    arms: dict[str, ArmSize]
    plans: PlanDifferences

class ArmSize(Model):  # The size of an arm: its runs, its units of the draw, and the runs that ended, failed and were
    runs: int
    units: int
    ended: int
    failed: int
    judged: int

class Evaluation(Model):  # `GET /v1/evaluation`: how the runs did that were decided from `since` to before `until`.
    since: datetime
    until: datetime
    by: Literal['plan', 'profile', 'model'] | str
    rows: list[EvaluationRow]
    total: Summary

class EvaluationRow(Model):  # The runs of one profile; grouped by plan or by model, of one plan, or of one model and
    profile: str
    plan: Plan | None = None
    model_version: str | None = None
    arm: Literal['shadow', 'canary', 'control', 'default', 'promoted'] | str | None = None
    summary: Summary

class Interval(Model):  # An estimate of `count` observations and the ends of its interval.
    estimate: float
    low: float
    high: float
    count: int

class MetricComparison(Model):  # One metric in both arms
    metric: Literal['satisfaction', 'usd', 'milliseconds', 'external_calls'] | str
    canary: float | None
    control: float | None
    canary_count: int
    control_count: int
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    relative: float | None = None
    relative_low: float | None = None
    relative_high: float | None = None

class PlanDifference(Model):  # Runs for which the gate's weights choose one plan and the model another.
    heuristic: Plan
    model: Plan
    runs: int

class PlanDifferences(Model):  # The model's plans compared with those of the profile's weights for the same runs.
    asked: int = 0
    alike: int = 0
    differences: list[PlanDifference] = []
    usd_difference: float | None = None

class Rebuilt(Model):  # The number of runs whose outcomes were made again from their events.
    runs: int

class Rollout(Model):  # The current rollout of one model. The model decides `share` of the units, and as many are its
    model_version: str
    model_sha256: str
    unit: Literal['run', 'session'] | str = 'session'
    status: Literal['shadow', 'canary', 'promoted', 'stopped'] | str
    stages: list[float] = []
    expected_runs: list[int] = []
    share: float
    began_at: datetime
    stage_began_at: datetime
    changed_at: datetime
    operator: str
    history: list[RolloutStep] = []

class RolloutStep(Model):  # One change of a rollout, to a new state and share
    at: datetime
    operator: str
    verdict: Literal['promote', 'stop', 'continue', 'inconclusive'] | str | None = None
    why: str = ''
    canary_runs: int = 0
    control_runs: int = 0
    status: Literal['shadow', 'canary', 'promoted', 'stopped'] | str
    share: float

class StageVerdict(Model):  # The verdict on a stage, with its reason and figures. `sample_ratio_p` is of the numbers
    kind: Literal['promote', 'stop', 'continue', 'inconclusive'] | str
    why: str
    canary_runs: int
    control_runs: int
    sample_ratio_p: float
    feedback_ratio_p: float
    metrics: list[MetricComparison]

class Summary(Model):  # The figures of some runs
    runs: int = 0
    judged: int = 0
    coverage: float = 0.0
    satisfaction: Interval | None = None
    signals: dict[str, Interval] | None = None
    freshness_gain_seconds: Interval | None = None
    cited_age_seconds: float | None = None
    usd: Interval | None = None
    total_usd: float = 0.0
    usd_per_success: Interval | None = None
    mean_milliseconds: Interval | None = None
    p50_milliseconds: float | None = None
    p95_milliseconds: float | None = None
    external_calls: Interval | None = None
    precision_at_k: Interval | None = None
    token_spend: float | None = None
    crawl_success_rate: Interval | None = None
    failed: int = 0
