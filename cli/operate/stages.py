"""`sluice stages`: what waits in each stage, which rest and why, and pausing and resuming by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from sluice.cli.choices import Stage
from sluice.cli.connection import connected
from sluice.cli.output import AsJson, print_json, print_table

if TYPE_CHECKING:
    from sluice_client.models import StageView

stages = typer.Typer(help="Stages: how many events wait in each, and which are paused.", no_args_is_help=True)

StageName = Annotated[Stage, typer.Argument(help=f"One of {', '.join(get_args(Stage))}.")]


@stages.command("list")
def list_stages(as_json: AsJson = False) -> None:
    """List the stages: events ready, claimed and waiting, and whether a stage is paused."""
    with connected(as_json=as_json) as client:
        _print(client.stages(), as_json=as_json)


@stages.command("pause")
def pause(
    stage: StageName,
    why: Annotated[str, typer.Option(help="Why; it is recorded.")],
    as_json: AsJson = False,
) -> None:
    """Pause a stage: its events stay ready until it is resumed."""
    with connected(as_json=as_json) as client:
        _print(client.pause_stage(stage, why), as_json=as_json)


@stages.command("resume")
def resume(stage: StageName, as_json: AsJson = False) -> None:
    """Resume a stage, whether an operator or its circuit breaker paused it."""
    with connected(as_json=as_json) as client:
        _print(client.resume_stage(stage), as_json=as_json)


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
