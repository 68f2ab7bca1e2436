"""Settings of the gate: where profiles are, and the ceilings that veto a plan."""

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
    """The gate's own settings. Weights, thresholds and half-lives stand in the profile files."""

    mode: Literal["enforce", "observe"] = "enforce"
    """observe: decide and record, and never go outside, to see what the gate would do."""
    judge: bool = False
    """Ask the judge (see `judge.model`) whether the passages found answer the question, where the score is between the
    thresholds for searching and for the full loop. It costs its price and its time, often a second."""
    judge_margin: Annotated[float, FIXED] = 0.0
    """How far outside of these thresholds the judge is asked too, in units of the score."""
    profiles_dir: Path | None = None
    """A folder of profile files that adds to, and by name replaces, those that come with the package."""
    deadline_seconds: Annotated[float, FIXED] = 60.0
    """Deadline of a run that names none: a full loop of eight slow pages ends within it."""


class BudgetSettings(Value):
    """Ceilings: what a run and a UTC day may use of each unit. "none" is no ceiling.

    What work may take at most is reserved before it begins, so a ceiling holds however many work at once. Tokens are
    those that are embedded; milliseconds are those that searching and fetching pages take.
    """

    run_pages: Annotated[int | None, FIXED] = None
    """Pages one run may crawl; by default as many as crawl.max_pages plans, or as a request names one by one."""
    run_bytes: Annotated[int | None, FIXED] = None
    """Bytes of pages one run may bring in; by default as many as the settings of crawling plan."""
    run_tokens: Annotated[int | None, FIXED] = None
    """Tokens one run may embed; no ceiling by default: the local model costs time alone, an endpoint USD."""
    run_milliseconds: Annotated[float | None, FIXED] = None
    """Milliseconds that the searches and pages of one run may take together; no ceiling by default, as its deadline
    bounds how long its caller waits."""
    run_usd: Amount = 0.10
    """USD one run may spend: some twenty calls of a paid search interface, far above the three that a run makes."""
    day_pages: Count = 5_000
    """Pages all runs of a UTC day may crawl together: about 600 full loops of eight pages."""
    day_bytes: Annotated[int | None, FIXED] = None
    """Bytes of pages all runs of a UTC day may bring in; no ceiling by default, as day_pages bounds them."""
    day_tokens: Annotated[int | None, FIXED] = None
    """Tokens all runs of a UTC day may embed; no ceiling by default, as for run_tokens."""
    day_milliseconds: Annotated[float | None, FIXED] = None
    """Milliseconds that the searches and pages of all runs of a UTC day may take together; no ceiling by default."""
    day_usd: Amount = 5.0
    """USD all runs of a UTC day may spend together: a mistake costs a coffee and not a salary."""


class DefenceSettings(Value):
    """When the gate steps back by itself. Its thresholds of satisfaction and freshness are fixed (docs/learning.md)."""

    enabled: bool = True
    """Step back to the configuration before where answers get worse, by one plan where crawling gets slow, and to the
    corpus alone where a day's budget is nearly used up. Without feedback nothing is known of answers."""
    trickle_share: Annotated[float, FIXED] = 0.05
    """Share of the runs that ignore a step back, so that it can be seen whether it is still needed."""
    trickle_runs_per_day: Annotated[int, FIXED] = 50
    """The most such runs of one profile in a UTC day: what a bad configuration may cost while it is tried."""
