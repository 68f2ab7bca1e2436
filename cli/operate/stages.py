"""`sluice stages`: what waits in each stage, which rest and why, and pausing and resuming by hand."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from typing import Annotated

import typer

from sluice.cli.output import AsJson, print_json, print_table
from sluice.cli.session import session
from sluice.contracts.api import StageView
from sluice.contracts.event import QUEUES, Queue

stages = typer.Typer(help="Stages: how many events wait in each, and which are paused.", no_args_is_help=True)

StageName = Annotated[Queue, typer.Argument(help=f"One of {', '.join(QUEUES)}.")]


@stages.command("list")
def list_stages(as_json: AsJson = False) -> None:
    """List the stages: events ready, claimed and waiting, and whether a stage is paused."""
    with session(as_json=as_json) as context:
        _print(context.ledger.stages(), as_json=as_json)


@stages.command("pause")
def pause(
    stage: StageName,
    why: Annotated[str, typer.Option(help="Why; it is recorded.")],
    as_json: AsJson = False,
) -> None:
    """Pause a stage: its events stay ready until it is resumed."""
    with session(as_json=as_json) as context:
        context.ledger.pause(stage, why, operator=getpass.getuser())
        _print(context.ledger.stages(), as_json=as_json)


@stages.command("resume")
def resume(stage: StageName, as_json: AsJson = False) -> None:
    """Resume a stage, whether an operator or its circuit breaker paused it."""
    with session(as_json=as_json) as context:
        context.ledger.resume(stage, operator=getpass.getuser())
        _print(context.ledger.stages(), as_json=as_json)


def _print(found: Sequence[StageView], *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    columns = ("stage", "ready", "claimed", "waiting", "oldest (s)", "paused because", "paused by", "probe at")
    rows = [
        (
            stage.stage,
            stage.ready,
            stage.claimed,
            stage.waiting,
            round(stage.oldest_ready_seconds, 1),
            stage.paused_because,
            stage.paused_by,
            stage.probe_at,
        )
        for stage in found
    ]
    print_table("stages", columns, rows)
