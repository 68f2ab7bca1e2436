"""Settings of the gate: the folder of profiles, and the ceilings that veto a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from sluice.contracts.base import FIXED, Value


def _none_is_no_ceiling(value: object) -> object:
    return None if value == "none" else value


Count = Annotated[int | None, Field(ge=0), BeforeValidator(_none_is_no_ceiling)]
Amount = Annotated[float | None, Field(ge=0), BeforeValidator(_none_is_no_ceiling)]


class GateSettings(Value):
    """The gate's own settings. Weights, thresholds and half-lives are in the profile files."""

    mode: Literal["enforce", "observe"] = "enforce"
    """observe: decide and record, and never go outside, to try out the gate."""
    judge: bool = False
    """Ask the judge (see `judge.model`) whether the retrieved passages answer the question, if the score is between the
    thresholds for searching and for the full loop. Costs the model's price, and often a second."""
    judge_margin: Annotated[float, FIXED] = 0.0
    """Distance outside of these thresholds within which the judge is asked too, in units of the score."""
    profiles_dir: Path | None = None
    """A folder of profile files that adds to those of the package, and replaces them by name."""
    deadline_seconds: Annotated[float, FIXED] = 60.0
    """Default deadline of a run: a full loop of eight slow pages ends within it."""


class BudgetSettings(Value):
    """Ceilings of a run and of a UTC day, in each unit; "none" is no ceiling. The most that work may use is reserved
    before it begins, so a ceiling holds however many work at once. Tokens are embedded tokens; milliseconds are those
    of searching and fetching pages."""

    run_pages: Annotated[int | None, FIXED] = None
    """Pages one run may crawl; by default as many as crawl.max_pages plans, or as a request names one by one."""
    run_bytes: Annotated[int | None, FIXED] = None
    """Bytes of pages one run may fetch; by default as many as the crawl settings plan."""
    run_tokens: Annotated[int | None, FIXED] = None
    """Tokens one run may embed; no ceiling by default: the local model costs only time, an endpoint USD."""
    run_milliseconds: Annotated[float | None, FIXED] = None
    """Milliseconds of all searches and pages of one run; no ceiling by default, as its deadline bounds how long its
    caller waits."""
    run_usd: Amount = 0.10
    """USD one run may spend: some twenty calls of a paid search interface, far above the three that a run makes."""
    day_pages: Count = 5_000
    """Pages all runs of a UTC day may crawl together: about 600 full loops of eight pages."""
    day_bytes: Annotated[int | None, FIXED] = None
    """Bytes of pages all runs of a UTC day may fetch; no ceiling by default, as day_pages bounds them."""
    day_tokens: Annotated[int | None, FIXED] = None
    """Tokens all runs of a UTC day may embed; no ceiling by default, as for run_tokens."""
    day_milliseconds: Annotated[float | None, FIXED] = None
    """Milliseconds of all searches and pages of all runs of a UTC day; no ceiling by default."""
    day_usd: Amount = 5.0
    """USD all runs of a UTC day may spend together: it keeps the cost of a mistake small."""


class DefenceSettings(Value):
    """The gate's fallbacks. The thresholds for satisfaction and freshness are fixed (docs/learning.md)."""

    enabled: bool = True
    """Fall back to the previous configuration if answers get worse, by one plan if crawling gets slow, and to the
    corpus alone if a day's budget is nearly used up. Without feedback the quality of answers is unknown."""
    trickle_share: Annotated[float, FIXED] = 0.05
    """Share of the runs that ignore a fallback, to measure whether it is still needed."""
    trickle_runs_per_day: Annotated[int, FIXED] = 50
    """The most such runs of one profile in a UTC day: it bounds the cost of trying a bad configuration."""
