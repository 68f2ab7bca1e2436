"""`sluice runs` and `sluice cancel`: what happens in the ledger, and ending a run before its time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from sluice.cli.agent.answers import print_run
from sluice.cli.output import AsJson, console, error_console, marked, print_json, print_table
from sluice.cli.session import session
from sluice.contracts.api import RunKind
from sluice.contracts.event import Event
from sluice.contracts.index import RunFinished
from sluice.workers.service.service import Service


def runs(
    run_id: Annotated[str | None, typer.Argument(help="One run; without it, the latest.")] = None,
    corpus: Annotated[str | None, typer.Option("--corpus", "-c", help="Only runs of this corpus.")] = None,
    kind: Annotated[RunKind | None, typer.Option("--kind", help="Only runs of this kind.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many at most.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show one run, or list the latest."""
    with session(as_json=as_json) as context:
        if run_id:
            view = context.ledger.run(run_id)
            print_run(view, as_json=as_json, why=True)
            if view.kind == "control" and not as_json:
                print_control_events(context.ledger.events_after(run_id))
            return
        found = context.ledger.runs(limit=limit, corpus=corpus, kind=kind)
        if as_json:
            print_json(found)
            return
        rows = [
            (r.run_id, r.kind, r.corpus, r.status, r.created_at, f"{r.usd:.4f}", (r.query or "")[:60]) for r in found
        ]
        print_table("runs", ("run", "kind", "corpus", "status", "created", "USD", "question"), rows)


def print_control_events(events: Sequence[tuple[int, Event]]) -> None:
    """Print what a control run records."""
    for _, event in events:
        if event.kind != RunFinished.kind:
            facts = event.body.model_dump_json(exclude_defaults=True)
            console.print(f"{event.kind} {marked(facts)}", highlight=False, soft_wrap=True)


def cancel(run_id: Annotated[str, typer.Argument(help="The run to cancel.")], as_json: AsJson = False) -> None:
    """Cancel a run: what is queued is dropped, what is under way stops."""
    with session(as_json=as_json) as context:
        if not Service(context).cancel(run_id) and not as_json:
            error_console.print("[dim]it had ended already[/]")
        print_run(context.ledger.run(run_id), as_json=as_json)
