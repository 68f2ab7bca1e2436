"""`sluice dead replays` and its kin: bulk replays, which the reconciler carries out."""

from __future__ import annotations

import getpass
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from sluice.cli.operate.dead_letter_options import Note
from sluice.cli.output import AsJson, console, print_json, print_table
from sluice.cli.session import session
from sluice.contracts.operations.dead_letters import ReplayPlan, ReplayRequest, ReplayView, SkipReason
from sluice.workers.context import Context

ReplayId = Annotated[str, typer.Argument(help="The bulk replay.")]


def begin_replay(context: Context, request: ReplayRequest, *, as_json: bool) -> None:
    """Begin a bulk replay, or print what it would do."""
    if request.dry_run:
        _print_plan(context.ledger.replays.plan(request.filter, force=request.force), as_json=as_json)
        return
    view = context.ledger.replays.begin(request, getpass.getuser())
    if as_json:
        print_json(view)
    else:
        console.print(f"{view.id} brings back {view.total} letters, {view.per_second:g} per second", highlight=False)
        console.print(f"follow it with: sluice dead replays {view.id}", highlight=False)


def list_replays(
    replay_id: Annotated[str | None, typer.Argument(help="One bulk replay; without it, the latest.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="How many at most.")] = 50,
    before: Annotated[str | None, typer.Option(help="Only those begun before this one.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show one bulk replay and how far it is, or list the latest."""
    with session(as_json=as_json) as context:
        if replay_id is not None:
            _print_one(context, replay_id, as_json=as_json)
            return
        views = context.ledger.replays.latest(limit, before)
        if as_json:
            print_json(views)
        else:
            _print_views(views)


def pause_replay(replay_id: ReplayId, note: Note = "", as_json: AsJson = False) -> None:
    """Pause a bulk replay; what it brought back goes on."""
    with session(as_json=as_json) as context:
        _print_change(context.ledger.replays.pause(replay_id, getpass.getuser(), note), as_json=as_json)


def resume_replay(replay_id: ReplayId, note: Note = "", as_json: AsJson = False) -> None:
    """Resume a paused bulk replay."""
    with session(as_json=as_json) as context:
        _print_change(context.ledger.replays.resume(replay_id, getpass.getuser(), note), as_json=as_json)


def abort_replay(replay_id: ReplayId, note: Note = "", as_json: AsJson = False) -> None:
    """End a bulk replay for good; what it brought back goes on, the rest stays parked."""
    with session(as_json=as_json) as context:
        _print_change(context.ledger.replays.abort(replay_id, getpass.getuser(), note), as_json=as_json)


def _print_plan(plan: ReplayPlan, *, as_json: bool) -> None:
    if as_json:
        print_json(plan)
        return
    rows = [(group.fingerprint, group.replayable, _told(group.skips)) for group in plan.groups]
    print_table("what it would do", ("fingerprint", "back to work", "left out"), rows)
    console.print(f"{plan.replayable} of {plan.total} letters would go back to work", highlight=False)


def _print_one(context: Context, replay_id: str, *, as_json: bool) -> None:
    view, actions = context.ledger.replays.show(replay_id), context.ledger.replays.actions(replay_id)
    if as_json:
        print_json({**view.model_dump(mode="json"), "actions": actions})
        return
    _print_views([view])
    rows = [(one.at, one.operator, one.action, one.note) for one in actions]
    print_table("operator actions", ("at", "operator", "action", "note"), rows)


def _print_views(views: Sequence[ReplayView]) -> None:
    columns = ("id", "status", "begun", "by", "total", "back", "open", "succeeded", "parked again", "left out", "why")
    rows = [
        (
            view.id,
            view.status,
            view.created_at,
            view.operator,
            view.total,
            view.replayed,
            view.open,
            view.succeeded,
            view.parked_again,
            _told(view.skips),
            view.why or view.note,
        )
        for view in views
    ]
    print_table("bulk replays", columns, rows)


def _print_change(view: ReplayView, *, as_json: bool) -> None:
    if as_json:
        print_json(view)
    else:
        console.print(f"{view.id} is {view.status}: {view.replayed} of {view.total} brought back", highlight=False)


def _told(skips: Mapping[SkipReason, int]) -> str:
    return ", ".join(f"{how_many} {reason}" for reason, how_many in skips.items())
