"""`sluice dead replays` and its kin: bulk replays, which the reconciler carries out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, cast

import typer

from sluice.cli.connection import connected
from sluice.cli.operate.dead_letter_options import Note
from sluice.cli.output import AsJson, console, print_json, print_table

if TYPE_CHECKING:
    from sluice_client import SluiceClient
    from sluice_client.models import ReplayPlan, ReplayView

ReplayId = Annotated[str, typer.Argument(help="The bulk replay.")]


def print_replay(begun: ReplayView | ReplayPlan, *, as_json: bool) -> None:
    """Print a bulk replay that has begun, or what one would do."""
    if "groups" in dict(begun):
        _print_plan(cast("ReplayPlan", begun), as_json=as_json)
        return
    view = cast("ReplayView", begun)
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
    with connected(as_json=as_json) as client:
        if replay_id is not None:
            _print_one(client, replay_id, as_json=as_json)
            return
        views = client.replays(limit, before)
        if as_json:
            print_json(views)
        else:
            _print_views(views)


def pause_replay(replay_id: ReplayId, note: Note = "", as_json: AsJson = False) -> None:
    """Pause a bulk replay; what it brought back goes on."""
    with connected(as_json=as_json) as client:
        _print_change(client.pause_replay(replay_id, note), as_json=as_json)


def resume_replay(replay_id: ReplayId, note: Note = "", as_json: AsJson = False) -> None:
    """Resume a paused bulk replay."""
    with connected(as_json=as_json) as client:
        _print_change(client.resume_replay(replay_id, note), as_json=as_json)


def abort_replay(replay_id: ReplayId, note: Note = "", as_json: AsJson = False) -> None:
    """End a bulk replay for good; what it brought back goes on, the rest stays parked."""
    with connected(as_json=as_json) as client:
        _print_change(client.abort_replay(replay_id, note), as_json=as_json)


def _print_plan(plan: ReplayPlan, *, as_json: bool) -> None:
    if as_json:
        print_json(plan)
        return
    rows = [(group.fingerprint, group.replayable, _told(group.skips)) for group in plan.groups]
    print_table("what it would do", ("fingerprint", "back to work", "left out"), rows)
    console.print(f"{plan.replayable} of {plan.total} letters would go back to work", highlight=False)


def _print_one(client: SluiceClient, replay_id: str, *, as_json: bool) -> None:
    view, actions = client.bulk_replay(replay_id), client.replay_actions(replay_id)
    if as_json:
        print_json({**dict(view), "actions": actions})
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


def _told(skips: Mapping[str, int]) -> str:
    return ", ".join(f"{how_many} {reason}" for reason, how_many in skips.items())
