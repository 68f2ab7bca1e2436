"""An instance at a glance: `GET /v1/overview`, the first page of the console, and `sluice status`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, JsonValue

from sluice.contracts.api import HealthCheck, StageView
from sluice.contracts.base import Moment, Value
from sluice.contracts.event import Queue


class StageMinute(Value):
    """What a stage did in one minute. Waits are from ready to claimed, work is from claimed to settled."""

    at: Moment
    entered: int = 0
    handled: int = 0
    failed: int = 0
    """Tries that ended in a retry."""
    parked: int = 0
    mean_wait_ms: float = 0.0
    mean_work_ms: float = 0.0
    longest_wait_ms: float = 0.0


class StageFigures(Value):
    """What a stage did over some hours."""

    stage: Queue
    minutes_each: int
    """Minutes that one of `figures` sums up."""
    figures: tuple[StageMinute, ...]
    """The oldest first; times in which nothing happened are left out."""


class StageNow(StageView):
    """One stage, with its pool and its last hour."""

    workers: int
    """How many of its events its living workers handle at once."""
    workers_wanted: int
    """How many they should, by an operator's word or the settings; 0: none, and that is well."""
    is_scaled_here: bool
    """Whether `sluice up` serves it, so that its pool can be resized from here."""
    minutes: tuple[StageMinute, ...] = ()
    """The last hour, oldest first; minutes in which nothing happened are left out."""


class SettingView(Value):
    """A setting in force. A key or a password that has a value is told as `set`."""

    setting: str
    """Its name, as `crawl.max_pages`."""
    value: JsonValue
    """Its value."""
    source: str
    """Where that comes from: a variable's name, the path of a file, or `default`."""
    line: int | None = None
    """The line of the file."""


class OpenRun(Value):
    """A run that is not finished."""

    run_id: str
    kind: str
    corpus: str
    query: str | None = None
    created_at: Moment
    retrying: int = 0


class Spending(Value):
    """What all runs of this UTC day used, against its ceiling; null: none."""

    unit: str
    used: float
    ceiling: float | None = None


class Overview(Value):
    """The state of an instance. Parts that cannot be read are named in `missing`, and the rest is told."""

    at: Moment
    ok: bool
    version: str
    stages: tuple[StageNow, ...]
    checks: dict[str, HealthCheck]
    open_breakers: tuple[str, ...] = ()
    letters: dict[str, int]
    """Dead letters that are parked, by reason."""
    letters_today: int = 0
    oldest_runs: tuple[OpenRun, ...] = ()
    spending: tuple[Spending, ...] = ()
    generations: dict[str, str | None]
    """The generation that each corpus is served from."""
    last_backup_at: Moment | None = None
    last_backup: str | None = None
    missing: tuple[str, ...] = ()


class ScaleRequest(Value):
    """`POST /v1/stages/{stage}/scale`."""

    workers: Annotated[int, Field(ge=0, le=64)] | None
    """How many events of the stage to handle at once; null: as many as the settings say."""
    note: Annotated[str, Field(max_length=1_000)] = ""
    """Why, for the record."""


class Scaled(Value):
    """What was recorded, and who brings it about."""

    stage: Queue
    workers_wanted: int
    is_scaled_here: bool
    """Whether `sluice up` starts and stops the workers by itself, within seconds."""
    how: str
    """What happens now, or what an operator does where nothing happens by itself."""
