"""The overview of an instance, and the size of its pools."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import TypeVar

from sluice.contracts.api import StageView
from sluice.contracts.base import fields_of
from sluice.contracts.errors import SluiceError
from sluice.contracts.event import QUEUES, Queue
from sluice.contracts.operations.overview import Overview, Scaled, ScaleRequest, Spending, StageFigures, StageNow
from sluice.ledger.overview import Glance
from sluice.workers.broker.celery_app import threads_of, wanted_size
from sluice.workers.broker.transport import BROKER_ERRORS
from sluice.workers.context import Context
from sluice.workers.service.instance import check_health
from sluice.workers.setting_names import SCALED_HERE

Part = TypeVar("Part")
WIDTHS = ((2, 1), (24, 15))
"""Up to how many hours figures are shown by how many minutes."""

_NOTHING = Glance({}, {}, 0, (), None, None)
_AS_SET: dict[Queue, int] = {}
_ELSEWHERE = (
    "sluice up does not run this pool, and only /healthz follows: with compose `docker compose up -d --scale "
    "{stage}={copies}` does it, as each handles {size}; for `sluice worker {stage}` set pools.{stage} and restart it"
)
_HERE = "sluice up starts and stops workers within seconds; one that is stopped first finishes what it has in hand"


def look(context: Context) -> Overview:
    """Return the state of an instance. Raises nothing: a part that cannot be read is named in `missing`."""
    missing: list[str] = []

    def read(name: str, part: Callable[[], Part], otherwise: Part) -> Part:
        try:
            return part()
        except (SluiceError, OSError, *BROKER_ERRORS):
            missing.append(name)
            return otherwise

    health, ledger, settings = check_health(context), context.ledger, context.settings
    stages: Collection[StageView] = read("stages", ledger.stages, ())
    glance = read("ledger", ledger.glances.look, _NOTHING)
    asked = read("pool_sizes", ledger.pool_sizes.all, _AS_SET)
    used = read("spending", ledger.used_today, None)
    workers = health.checks["workers"].facts.get("at_once")
    if workers is None:
        missing.append("broker")
    corpora = health.checks["snapshot"].facts.get("corpora")
    if corpora is None:
        missing.append("generations")
    return Overview(
        at=datetime.now(UTC),
        ok=health.ok and not missing,
        version=health.version,
        stages=tuple(
            StageNow(
                **fields_of(StageView, stage),
                workers=(workers or {}).get(stage.stage, 0),
                workers_wanted=wanted_size(settings, stage.stage, asked),
                is_scaled_here=is_scaled_here(stage.stage),
                minutes=glance.minutes.get(stage.stage, ()),
            )
            for stage in stages
        ),
        checks=health.checks,
        open_breakers=(
            *(f"{one.stage}: {one.paused_because}" for one in stages if one.paused_because and not one.paused_by),
            *([f"embed: {health.checks['embedder'].detail}"] if not health.checks["embedder"].ok else []),
        ),
        letters=dict(glance.letters),
        letters_today=glance.letters_today,
        oldest_runs=glance.oldest_runs,
        spending=tuple(
            Spending(unit=unit, used=amount, ceiling=getattr(settings.budget, f"day_{unit}"))
            for unit, amount in used or ()
        ),
        generations={name: facts["generation"] for name, facts in (corpora or {}).items()},
        last_backup_at=glance.last_backup_at,
        last_backup=glance.last_backup,
        missing=tuple(missing),
    )


def stage_figures(context: Context, hours: int) -> list[StageFigures]:
    """Return what each stage did over the last hours, in the order of the pipeline: by the minute up to two hours, by
    the quarter up to a day, by the hour beyond."""
    width = next((width for most, width in WIDTHS if hours <= most), 60)
    first = int(context.ledger.clock() // 60) - hours * 60 + 1
    found = context.ledger.stage_minutes.figures(first - first % width, width)
    return [StageFigures(stage=stage, minutes_each=width, figures=found.get(stage, ())) for stage in QUEUES]


def is_scaled_here(stage: Queue) -> bool:
    """Return whether `sluice up` runs the pool of a stage, so that it follows what an operator asks for."""
    return stage in os.environ.get(SCALED_HERE, "").split(",")


def scale(context: Context, stage: Queue, asked: ScaleRequest, operator: str) -> Scaled:
    """Record how many events of a stage an operator wants to be handled at once. `sluice up` follows; where it does not
    run the pools, the answer names what does."""
    context.ledger.pool_sizes.ask(stage, asked.workers, operator, asked.note)
    wanted = wanted_size(context.settings, stage, context.ledger.pool_sizes.all())
    here = is_scaled_here(stage)
    size = max(1, *threads_of(context.settings, stage))
    how = _HERE if here else _ELSEWHERE.format(stage=stage, copies=-(-wanted // size), size=size)
    return Scaled(stage=stage, workers_wanted=wanted, is_scaled_here=here, how=how)
