"""The first page: every stage, and what is not well."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from fastapi import Response
from fastapi.responses import RedirectResponse

from sluice.api.access import CONSOLE
from sluice.api.console.frame import OperatingAll, Visit, Visiting, pages
from sluice.api.console.hub import streamed
from sluice.contracts.errors import InvalidInput
from sluice.contracts.event import Queue
from sluice.contracts.operations.overview import OpenRun, Overview, StageNow
from sluice.workers.service.instance import Instance, check_health

overview = pages()


@overview.get("")
def show(visit: Visiting) -> Response:
    """Show the instance at a glance; to a key of some corpora, or an agent's, its runs."""
    if not visit.is_whole_operator:
        return RedirectResponse(f"{CONSOLE}/runs", 303)
    return visit.show("overview.html", **figures(visit, {}))


@streamed("overview", "overview_figures.html", needs=lambda visit, _: visit.caller.may_operate_instance())
def figures(visit: Visit, _parameters: Mapping[str, str]) -> Mapping[str, Any]:
    """Read the instance at a glance."""
    return {"overview": overview_of(visit.instance)}


@overview.post("/stages/{stage}/pause")
def pause(visit: OperatingAll, stage: Queue) -> Response:
    """Pause a stage."""
    why = visit.form.get("why", "").strip()
    if not 1 <= len(why) <= 1_000:
        raise InvalidInput("why", "say why, in 1 to 1,000 letters: whoever finds the stage paused reads it")
    visit.instance.context.ledger.pause(stage, why, operator=visit.caller.owner)
    return visit.done(f"{stage} is paused: its events wait until it is resumed, those in hand finish.")


@overview.post("/stages/{stage}/resume")
def resume(visit: OperatingAll, stage: Queue) -> Response:
    """End a pause of a stage, the circuit breaker's too."""
    visit.instance.context.ledger.resume(stage, operator=visit.caller.owner)
    return visit.done(f"{stage} goes on.")


def overview_of(instance: Instance) -> Overview:
    """Return the state of an instance."""
    health = check_health(instance.context)
    ledger, present = instance.context.ledger, health.checks["workers"].facts
    oldest = ledger.runs(5, status="open")
    return Overview(
        at=datetime.now(UTC),
        ok=health.ok,
        version=version("sluice"),
        stages=tuple(
            StageNow(
                **one.model_dump(),
                workers=int(str(present.get(one.stage, 0))),
                workers_wanted=int(str(present.get(one.stage, 0))),
                is_scaled_here=False,
            )
            for one in ledger.stages()
        ),
        checks=health.checks,
        letters={},
        oldest_runs=tuple(
            OpenRun(run_id=one.run_id, kind=one.kind, corpus=one.corpus, query=one.query, created_at=one.created_at)
            for one in oldest
        ),
        generations={},
    )


ROUTERS = (overview,)
