"""`sluice cancel`: ending a run before its time."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.answers import print_run
from cli.output import AsJson, error_console
from cli.session import session
from workers.service.service import Service


def cancel(run_id: Annotated[str, typer.Argument(help="The run to cancel.")], as_json: AsJson = False) -> None:
    """Cancel a run: what is queued goes, what is under way stops."""
    with session(as_json=as_json) as context:
        if not Service(context).cancel(run_id) and not as_json:
            error_console.print("[dim]it had ended already[/]")
        print_run(context.ledger.run(run_id), as_json=as_json)
