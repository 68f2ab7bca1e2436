"""`sluice runs` and `sluice cancel`: what happens in the ledger, and ending a run before its time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from sluice.cli.agent.answers import print_run
from sluice.cli.choices import RunKind
from sluice.cli.command import Shown, over_http, say, table
from sluice.cli.connection import ENDED
from sluice.cli.output import error_console

if TYPE_CHECKING:
    from sluice_client import SluiceClient
    from sluice_client.models import RunView


@over_http
def runs(
    client: SluiceClient,
    run_id: Annotated[str | None, typer.Argument(help="One run; without it, the latest.")] = None,
    corpus: Annotated[str | None, typer.Option("--corpus", "-c", help="Only runs of this corpus.")] = None,
    kind: Annotated[RunKind | None, typer.Option("--kind", help="Only runs of this kind.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many at most.")] = 20,
) -> Shown:
    """Show one run, or list the latest."""
    if run_id:
        view = client.run(run_id)
        return Shown(view, lambda: _print_run(client, view))
    return table(
        "runs",
        client.runs(limit=limit, corpus=corpus, kind=kind),
        ("run", "run_id"),
        "kind",
        "corpus",
        "status",
        ("created", "created_at"),
        ("USD", lambda run: f"{run.usd:.4f}"),
        ("question", lambda run: (run.query or "")[:60]),
    )


def _print_run(client: SluiceClient, view: RunView) -> None:
    print_run(view, as_json=False, why=True)
    if view.kind == "control":  # what it records is in its events alone
        for event in client.events(view.run_id):
            if event.kind != "RunFinished":
                facts = json.dumps({name: value for name, value in event.body.items() if value}, ensure_ascii=False)
                say(f"{event.kind} {facts}")


@over_http
def cancel(
    client: SluiceClient, run_id: Annotated[str, typer.Argument(help="The run to cancel.")], as_json: bool = False
) -> Shown:
    """Cancel a run: what is queued is dropped, what is under way stops."""
    if client.run(run_id).status in ENDED and not as_json:
        error_console.print("[dim]it had ended already[/]")
    view = client.cancel(run_id)
    return Shown(view, lambda: print_run(view, as_json=False))
