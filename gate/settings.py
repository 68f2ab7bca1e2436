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
    """Deadline of a run that names none."""


class BudgetSettings(Value):
    """Ceilings of spending: what a run and a UTC day may use."""

    run_usd: Annotated[float, Field(ge=0)] = 0.10
    day_usd: Annotated[float, Field(ge=0)] = 5.0
    day_pages: Annotated[int, Field(ge=0)] = 5_000
