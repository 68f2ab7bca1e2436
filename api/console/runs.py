"""The list of runs, and one run."""

from __future__ import annotations

from fastapi import Response

from sluice.api.console.frame import Visiting, pages

runs = pages()
PART = 50


@runs.get("/runs")
def recent(visit: Visiting, before: str | None = None) -> Response:
    """Show the latest runs."""
    found = visit.instance.runs.recent(visit.caller, PART + 1, before)
    rest = found[PART:]
    return visit.show("runs.html", runs=found[:PART], before=found[PART - 1].run_id if rest else None)


@runs.get("/runs/{run_id}")
def one(visit: Visiting, run_id: str) -> Response:
    """Show one run."""
    return visit.show("run.html", run=visit.instance.runs.one(run_id, visit.caller))


ROUTERS = (runs,)
