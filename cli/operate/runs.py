"""`sluice runs` and `sluice cancel`: what happens in the ledger, and ending a run before its time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from sluice.cli.agent.answers import print_run
from sluice.cli.choices import RunKind
from sluice.cli.connection import ENDED, connected
from sluice.cli.output import AsJson, console, error_console, marked, print_json, print_table

if TYPE_CHECKING:
    from sluice_client import SluiceClient


def runs(
    run_id: Annotated[str | None, typer.Argument(help="One run; without it, the latest.")] = None,
    corpus: Annotated[str | None, typer.Option("--corpus", "-c", help="Only runs of this corpus.")] = None,
    kind: Annotated[RunKind | None, typer.Option("--kind", help="Only runs of this kind.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many at most.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show one run, or list the latest."""
    with connected(as_json=as_json) as client:
        if run_id:
            view = client.run(run_id)
            print_run(view, as_json=as_json, why=True)
            if view.kind == "control" and not as_json:
                print_control_events(client, run_id)
            return
        found = client.runs(limit=limit, corpus=corpus, kind=kind)
        if as_json:
            print_json(found)
            return
        rows = [
            (r.run_id, r.kind, r.corpus, r.status, r.created_at, f"{r.usd:.4f}", (r.query or "")[:60]) for r in found
        ]
        print_table("runs", ("run", "kind", "corpus", "status", "created", "USD", "question"), rows)


def print_control_events(client: SluiceClient, run_id: str) -> None:
    """Print what a control run records."""
    for event in client.events(run_id):
        if event.kind != "RunFinished":
            facts = json.dumps({name: value for name, value in event.body.items() if value}, ensure_ascii=False)
            console.print(f"{event.kind} {marked(facts)}", highlight=False, soft_wrap=True)


def cancel(run_id: Annotated[str, typer.Argument(help="The run to cancel.")], as_json: AsJson = False) -> None:
    """Cancel a run: what is queued is dropped, what is under way stops."""
    with connected(as_json=as_json) as client:
        if client.run(run_id).status in ENDED and not as_json:
            error_console.print("[dim]it had ended already[/]")
        print_run(client.cancel(run_id), as_json=as_json)
