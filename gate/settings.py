"""Settings of the gate: where profiles are, and the ceilings that veto a plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from contracts.base import Value


class GateSettings(Value):
    """The gate's own settings. Weights, thresholds and half-lives stand in the profile files."""

    profiles_dir: Path | None = None
    """A folder of profile files that adds to, and by name replaces, those that come with the package."""
    deadline_seconds: Annotated[float, Field(gt=0)] = 60.0
    """Deadline of a run that names none: a full loop of eight slow pages ends within it."""


class BudgetSettings(Value):
    """Ceilings of spending: what a run and a UTC day may use."""

    run_usd: Annotated[float, Field(ge=0)] = 0.10
    """USD one run may spend: some twenty calls of a paid search interface, far above the three that a run makes."""
    day_usd: Annotated[float, Field(ge=0)] = 5.0
    """USD all runs of a UTC day may spend together: a mistake costs a coffee and not a salary."""
    day_pages: Annotated[int, Field(ge=0)] = 5_000
    """Pages all runs of a UTC day may crawl together: about 600 full loops of eight pages."""
