"""The first page: every stage with its last hour, and what is not well."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import Response
from fastapi.responses import RedirectResponse

from sluice.api.access import CONSOLE
from sluice.api.console.drawing import spark
from sluice.api.console.frame import OperatingAll, Visit, Visiting, pages
from sluice.api.console.hub import streamed
from sluice.contracts.errors import Unavailable, checked
from sluice.contracts.event import Queue
from sluice.contracts.operations.overview import ScaleRequest
from sluice.workers.service.operate.overview import look, scale

overview = pages()


@overview.get("")
def show(visit: Visiting) -> Response:
    """Show the instance at a glance; to a key of some corpora, or an agent's, its runs."""
    if not visit.is_whole_operator:
        return RedirectResponse(f"{CONSOLE}/runs", 303)
    return visit.show("overview.html", **figures(visit, {}))


@streamed("overview", "overview_figures.html", needs=lambda visit, _: visit.caller.may_operate_instance())
def figures(visit: Visit, _parameters: Mapping[str, str]) -> Mapping[str, Any]:
    """Read the instance at a glance. Raises `Unavailable` without the ledger: the last figures are shown then."""
    seen = look(visit.instance.context)
    if {"stages", "ledger"} & set(seen.missing):
        raise Unavailable(seen.checks["ledger"].detail or "the ledger does not answer")
    minutes = {one.stage: one.minutes[-1] if one.minutes else None for one in seen.stages}
    sparks = {one.stage: spark(one.minutes, seen.at) for one in seen.stages}
    names = visit.names() if any(one.paused_by for one in seen.stages) else {}
    return {"overview": seen, "minutes": minutes, "sparks": sparks, "names": names}


@overview.post("/stages/{stage}/pause")
def pause(visit: OperatingAll, stage: Queue) -> Response:
    """Pause a stage."""
    why = visit.note("why", ": whoever finds the stage paused reads it")
    visit.instance.context.ledger.pause(stage, why, operator=visit.caller.owner)
    return visit.done(f"{stage} is paused: its events wait until it is resumed, those in hand finish.")


@overview.post("/stages/{stage}/resume")
def resume(visit: OperatingAll, stage: Queue) -> Response:
    """End a pause of a stage, the circuit breaker's too."""
    visit.instance.context.ledger.resume(stage, operator=visit.caller.owner)
    return visit.done(f"{stage} goes on.")


@overview.post("/stages/{stage}/scale")
def resize(visit: OperatingAll, stage: Queue) -> Response:
    """Say how many events of a stage are to be handled at once; empty: as many as the settings say."""
    asked = checked(ScaleRequest, workers=visit.form.get("workers", "").strip() or None)
    done = scale(visit.instance.context, stage, asked, visit.caller.owner)
    return visit.done(f"{stage}: {done.workers_wanted} wanted. {done.how}.")


ROUTERS = (overview,)
