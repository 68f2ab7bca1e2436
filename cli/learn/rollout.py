"""`sluice gate shadow`, `canary`, `rollback` and `report`: a learned model on its way into the gate."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Annotated

import typer

from sluice.cli.operate.dead_letter_options import Note, checked
from sluice.cli.output import AsJson, console, marked, print_json, print_table
from sluice.cli.session import session
from sluice.contracts.errors import InvalidInput
from sluice.contracts.learning.rollout import Rollout, RolloutRequest
from sluice.evaluation.rollout.ab_report import to_markdown
from sluice.workers.service.learning.rollouts import RolloutDesk

canary = typer.Typer(
    help="A canary: the model decides for a share of the runs, against a control of equal size.", no_args_is_help=True
)

Version = Annotated[str, typer.Argument(metavar="VERSION", help="A model's version, as `sluice gate train` names it.")]
ActiveVersion = Annotated[
    str | None, typer.Argument(metavar="[VERSION]", help="The model; the active one where it is left out.")
]


def start_shadow(version: Version, note: Note = "", as_json: AsJson = False) -> None:
    """Let a model decide beside the gate: its plans are recorded, and not carried out."""
    _apply(RolloutRequest(action="shadow", version=version, note=note), as_json=as_json)


@canary.command("start")
def start_canary(
    version: Version,
    stages: Annotated[str, typer.Option(help="The shares in percent that the canary goes through.")] = "10,50,100",
    unit: Annotated[str, typer.Option(help="What is drawn: session, or run.")] = "session",
    note: Note = "",
    as_json: AsJson = False,
) -> None:
    """Begin a canary in its first stage; it goes on, or is stopped, by the verdict on each stage."""
    with session(as_json=as_json) as context:
        shares = _parse_stages(stages)
        wanted = checked(RolloutRequest, action="canary", version=version, stages=shares, unit=unit, note=note)
        desk = RolloutDesk(context)
        _show(desk.apply(wanted, getpass.getuser()), desk, as_json=as_json)


@canary.command("status")
def show_status(version: ActiveVersion = None, as_json: AsJson = False) -> None:
    """Show how a model stands: its stage, the verdict on it by now, and every step so far."""
    with session(as_json=as_json) as context:
        desk = RolloutDesk(context)
        _show(desk.find(version), desk, as_json=as_json)


@canary.command("stop")
def stop_canary(version: ActiveVersion = None, note: Note = "", as_json: AsJson = False) -> None:
    """Stop a model: the profile's weights decide again, from the next decision on."""
    _apply(checked(RolloutRequest, action="stop", version=version, note=note), as_json=as_json)


@canary.command("promote")
def promote_canary(version: ActiveVersion = None, note: Note = "", as_json: AsJson = False) -> None:
    """Let a model decide every run, without waiting for the verdict."""
    _apply(checked(RolloutRequest, action="promote", version=version, note=note), as_json=as_json)


def roll_back(note: Note = "", as_json: AsJson = False) -> None:
    """End the part of whatever model is active: one command back to the profile's weights."""
    _apply(checked(RolloutRequest, action="rollback", note=note), as_json=as_json)


def print_report(
    version: ActiveVersion = None,
    markdown: Annotated[Path | None, typer.Option(help="Write it as Markdown into this file too.")] = None,
    as_json: AsJson = False,
) -> None:
    """Report on a model: the arms side by side with intervals, the verdict, and where its plans differ."""
    with session(as_json=as_json) as context:
        report = RolloutDesk(context).report(version)
        page = to_markdown(report)
        if markdown is not None:
            markdown.write_text(page)
        if as_json:
            print_json(report)
        else:
            console.print(page, markup=False, highlight=False, soft_wrap=True)


def _apply(request: RolloutRequest, *, as_json: bool) -> None:
    with session(as_json=as_json) as context:
        desk = RolloutDesk(context)
        _show(desk.apply(request, getpass.getuser()), desk, as_json=as_json)


def _parse_stages(stages: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) / 100 for part in stages.split(","))
    except ValueError as error:
        raise InvalidInput("stages", f"{stages!r} are not percentages", "for instance 10,50,100") from error


def _show(rollout: Rollout, desk: RolloutDesk, *, as_json: bool) -> None:
    if as_json:
        print_json(rollout)
        return
    if obstacle := desk.obstacle(rollout):
        console.print(f"[red]{marked(obstacle)}[/]")
    console.print(f"model {rollout.model_version} is {marked(rollout.status)} at {rollout.share:.0%} of the units")
    for share, runs in zip(rollout.stages, rollout.expected_runs, strict=False):
        console.print(f"  {share:.0%} takes at most {runs:,} gate runs", highlight=False)
    rows = [(x.at, x.status, f"{x.share:.0%}", x.verdict or "-", x.operator, x.why) for x in rollout.history]
    print_table("steps", ("at", "status", "share", "verdict", "by", "why"), rows)
