"""The outcome of a run: its decision, cost, latency and feedback. Evaluation reads these records."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import Field

from sluice.contracts.base import CorpusName, Moment, Sha256, Value, is_none
from sluice.contracts.learning.control import Arm
from sluice.contracts.plan import Plan

SignalName = Literal["task_satisfaction", "tool_success", "user_acceptance", "benchmark"]
"""Sources of an answer's rating: the task's success, a tool's, a person's, a benchmark's verdict."""
DEFAULT_SIGNAL: SignalName = "task_satisfaction"
Signal = Annotated[SignalName, Field(exclude_if=lambda signal: signal == DEFAULT_SIGNAL)]
"""The signal of the feedback. A field of a later version: the default is left out of the JSON."""
Response = Annotated[str | None, Field(max_length=32_000, exclude_if=is_none)]
"""The text that the agent produced from an answer."""

FeedbackOutcome = Literal["success", "failure", "partial", "unknown"]
OUTCOME_VALUES: Mapping[FeedbackOutcome, float] = MappingProxyType({"success": 1.0, "partial": 0.5, "failure": 0.0})
"""Value of an answer by its outcome, for feedback without a rating; `unknown` has no value."""


class RunOutcome(Value):
    """One gate run that was decided, with the facts known so far.

    `flags` names the features that were off, in order. `is_stepped_back`: a fallback of the gate steered the run;
    `is_trickle`: the run is one of the few that ignored it. `milliseconds` is from acceptance to end; `tokens` are the
    embedded tokens and those of the answer's context. `cited_age_seconds` is the mean age of the text that the answer
    cites, `cited_age_without_crawl_seconds` that of the text that it would have cited without the pages that the run
    itself crawled; their difference is the gain in freshness. `signals` are in [0, 1].

    `owner` is the id of the API key that asked, `judged_by` that of the key whose feedback counts (None: the same).
    `bucket` is the draw of a rollout for the run's unit (`ModelUse.bucket`): runs of one session share it, and are not
    independent of each other. `failed_checks` counts the gates of severity P0 that the answer did not pass.
    `confidence` is the answer's by its evidence alone; None without an answer, or if it was not judged.
    """

    run_id: str
    corpus: CorpusName
    profile: str
    plan: Plan
    config_hash: Sha256
    model_version: str | None = None
    arm: Arm | None = None
    propensity: Annotated[float, Field(gt=0, le=1)] = 1.0
    bucket: Annotated[float | None, Field(ge=0, lt=1)] = None
    flags: str = ""
    is_trickle: bool = False
    is_stepped_back: bool = False
    decided_at: Moment
    finished_at: Moment | None = None
    status: Literal["open", "finished", "failed", "cancelled"] = "open"
    usd: Annotated[float, Field(ge=0)] = 0.0
    tokens: Annotated[int, Field(ge=0)] = 0
    milliseconds: Annotated[float | None, Field(ge=0)] = None
    external_calls: Annotated[int, Field(ge=0)] = 0
    pages_asked: Annotated[int, Field(ge=0)] = 0
    pages_read: Annotated[int, Field(ge=0)] = 0
    cited: Annotated[int, Field(ge=0)] = 0
    used: Annotated[int | None, Field(ge=0)] = None
    cited_age_seconds: Annotated[float | None, Field(ge=0)] = None
    cited_age_without_crawl_seconds: Annotated[float | None, Field(ge=0)] = None
    failed_checks: Annotated[int, Field(ge=0)] = 0
    confidence: Annotated[float | None, Field(ge=0, le=1)] = None
    signals: dict[SignalName, Annotated[float, Field(ge=0, le=1)]] = Field(default_factory=dict)
    judged_at: Moment | None = None
    owner: str = "local"
    judged_by: str | None = None

    @property
    def satisfaction(self) -> float | None:
        """Return the mean of the signals; None without signals."""
        return sum(self.signals.values()) / len(self.signals) if self.signals else None

    @property
    def label_of(self) -> str:
        """Return whose word the signals are: the id of an API key."""
        return self.judged_by or self.owner

    @property
    def freshness_gain_seconds(self) -> float | None:
        """Return how much younger the run's own crawl made the cited text; None where either age is unknown."""
        if self.cited_age_seconds is None or self.cited_age_without_crawl_seconds is None:
            return None
        return self.cited_age_without_crawl_seconds - self.cited_age_seconds

    @property
    def precision(self) -> float | None:
        """Return the share of the cited passages that were used; None if unknown, or if nothing was cited."""
        return None if self.used is None or not self.cited else self.used / self.cited
