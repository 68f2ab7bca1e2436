"""Settings of the evaluation of runs, and of the judge: a language model that is asked about passages and answers."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, SecretStr

from sluice.contracts.base import FIXED, Value
from sluice.evaluation.evaluator import Windowing


class JudgeSettings(Value):
    """An endpoint that speaks OpenAI's chat completions. Nothing is asked of it until `model` is named."""

    model: str | None = None
    """The model's name at the endpoint. Not set: there is no judge."""
    base_url: str = "https://api.openai.com/v1"
    """The endpoint, up to and including its version. One on this machine needs egress.allow = ["judge=HOST:PORT"]."""
    api_key: SecretStr | None = None
    """Sent as a bearer token."""
    usd_per_million_tokens: Annotated[float, Field(ge=0)] = 0.6
    """The price of its dearest tokens, counted for all of them."""
    sample: Annotated[float, Field(ge=0, le=1)] = 0.01
    """The share of the runs whose responses, as feedback reports them, are judged while the flag `ragas` is on."""
    timeout_seconds: Annotated[float, FIXED] = 20.0
    """Over one answer."""


class EvaluationSettings(Value):
    """What became of runs is looked at in windows, one after the other for each profile of the gate."""

    window_runs: Annotated[int, FIXED] = 200
    """Judged runs that close a window."""
    window_hours: Annotated[float, FIXED] = 24.0
    """When a window closes at the latest, however few of its runs were judged; counted from 00:00 UTC."""
    least_judged: Annotated[int, FIXED] = 50
    """Judged runs below which a window says nothing of satisfaction."""
    grace_minutes: Annotated[float, FIXED] = 60.0
    """How long after its decision feedback on a run still counts in its window."""

    @property
    def windowing(self) -> Windowing:
        """The same for the evaluator."""
        return Windowing(
            runs=self.window_runs,
            seconds=self.window_hours * 3_600,
            least_judged=self.least_judged,
            grace_seconds=self.grace_minutes * 60,
        )
