"""One run: where its time went, what was decided, what it answered, and what an operator does about it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, get_args

from fastapi import Response

from sluice.api.console.drawing import Axis, scale_of
from sluice.api.console.frame import Operating, Visit, Visiting, pages
from sluice.api.console.hub import streamed
from sluice.contracts.api import ENDED, FeedbackRequest, RunView
from sluice.contracts.errors import Conflict, InvalidInput, checked
from sluice.contracts.learning.run_outcome import FeedbackOutcome
from sluice.contracts.operations.dead_letters import DeadLetterPage
from sluice.workers.service.runs import read_trace

run = pages()
EVENTS_AT_ONCE = 100
MOST_LETTERS = 100
"""Letters of one run that are replayed at once; there is a bulk replay for more."""
OUTCOMES = get_args(FeedbackOutcome)


@run.get("/runs/{run_id}")
def show(visit: Visiting, run_id: str) -> Response:
    """Show one run."""
    return visit.show("run.html", **figures(visit, {"run": run_id}), outcomes=OUTCOMES)


@streamed("run", "run_figures.html", needs=lambda visit, given: _seen(visit, given.get("run", "")))
def figures(visit: Visit, parameters: Mapping[str, str]) -> Mapping[str, Any]:
    """Read a run with its timeline. It changes no more once the run is over and nothing of it is open."""
    run_id = parameters.get("run", "")
    seen = _seen(visit, run_id)
    timeline = read_trace(visit.instance.context, run_id, visit.caller)
    until = datetime.now(UTC) if seen.finished_at is None else seen.finished_at
    return {
        "run": seen,
        "timeline": timeline,
        "axis": Axis(timeline),
        "scale": scale_of(seen.decision) if seen.decision else None,
        "seconds": (until - seen.created_at).total_seconds(),
        "over": seen.status in ENDED and not seen.open_events,
    }


@run.get("/runs/{run_id}/events")
def events(visit: Visiting, run_id: str, after: int = 0) -> Response:
    """Show the events of a run as they are recorded. They hold what was asked and read: the look is recorded."""
    seen = _seen(visit, run_id)
    visit.looked("events_read", f"run:{run_id}")
    found = visit.instance.context.ledger.events_after(run_id, after, EVENTS_AT_ONCE + 1)
    shown = found[:EVENTS_AT_ONCE]
    return visit.show("events.html", run=seen, events=shown, after=shown[-1][0] if found[EVENTS_AT_ONCE:] else None)


@run.post("/runs/{run_id}/cancel")
def cancel(visit: Operating, run_id: str) -> Response:
    """Cancel the run."""
    _seen(visit, run_id)
    visit.record("cancel", f"run:{run_id}")
    did = visit.instance.service.cancel(run_id)
    return visit.done("The run is cancelled. What was indexed stays indexed." if did else "The run had ended before.")


@run.post("/runs/{run_id}/replay")
def replay(visit: Operating, run_id: str) -> Response:
    """Put the run's dead letters back to work, each as `POST /v1/dead-letters/{id}/replay` does."""
    _seen(visit, run_id)
    desk, note = visit.instance.dead_letters, visit.note()
    letters = desk.some(DeadLetterPage(run_id=run_id, limit=MOST_LETTERS), visit.caller)
    replayed, left = 0, list[str]()
    for letter in letters:
        try:
            desk.replay(letter.id, visit.caller, note, force=False)
            replayed += 1
        except Conflict as error:
            left.append(f"{letter.id}: {error}")
    return visit.done(f"{replayed} of {len(letters)} letters go again." + "".join(f" Left: {one}." for one in left[:5]))


@run.post("/runs/{run_id}/feedback")
def feedback(visit: Operating, run_id: str) -> Response:
    """Say how useful the answer was."""
    _seen(visit, run_id)
    given = visit.form.get("outcome", ""), visit.form.get("note", "")
    if given == ("unknown", ""):
        raise InvalidInput("outcome", "say how it went, or write a note")
    request = checked(FeedbackRequest, run_id=run_id, outcome=given[0], note=given[1])
    visit.record("feedback", f"run:{run_id}", note=request.outcome)
    is_new = visit.instance.service.give_feedback(request, owner=visit.caller.owner, is_operator=True)
    return visit.done("The feedback is recorded." if is_new else "The same feedback was recorded before.")


def _seen(visit: Visit, run_id: str) -> RunView:
    """Return a run. Raises `NotFound` if there is none, or it is not the visitor's to see."""
    return visit.instance.runs.one(run_id, visit.caller)


ROUTERS = (run,)
