"""`sluice runs`: the runs in the ledger, and cancelling one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from sluice.cli.agent.answers import print_run
from sluice.cli.choices import RunKind
from sluice.cli.command import Shown, needed, over_http, say, table
from sluice.cli.connection import ENDED
from sluice.cli.output import error_console

if TYPE_CHECKING:
    from sluice_client import SluiceClient
    from sluice_client.models import RunView


@over_http
def runs(
    client: SluiceClient,
    run_id: Annotated[str | None, typer.Argument(help="One run; without it, the latest.")] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Drop what is queued of it, and stop what is under way.")] = (
        False
    ),
    corpus: Annotated[str | None, typer.Option("--corpus", "-c", help="Only runs of this corpus.")] = None,
    kind: Annotated[RunKind | None, typer.Option("--kind", help="Only runs of this kind.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many at most.")] = 20,
    as_json: bool = False,
) -> Shown:
    """Show one run, list the latest, or cancel one."""
    if cancel:
        named = needed("RUN", run_id, "cancel")
        if client.run(named).status in ENDED and not as_json:
            error_console.print("[dim]it had ended already[/]")
        ended = client.cancel(named)
        return Shown(ended, lambda: print_run(ended, as_json=False))
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
