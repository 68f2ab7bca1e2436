"""`sluice dead`: the events that could not be handled, and putting them back to work."""

from __future__ import annotations

import getpass
from dataclasses import fields
from typing import Annotated

import typer

from workers.cli.output import AsJson, console, marked, print_json, print_table
from workers.cli.session import session
from workers.dead_letters import ParkedLetter

dead = typer.Typer(help="Dead letters: events that could not be handled.", no_args_is_help=True)


@dead.command("list")
def list_dead(
    stage: Annotated[str | None, typer.Option(help="Only of this stage.")] = None,
    reason: Annotated[str | None, typer.Option(help="Only parked for this reason.")] = None,
    fingerprint: Annotated[str | None, typer.Option(help="Only with this fingerprint.")] = None,
    run: Annotated[str | None, typer.Option(help="Only of this run.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Replayed ones too.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 100,
    as_json: AsJson = False,
) -> None:
    """List dead letters, the latest first."""
    with session(as_json=as_json) as parts:
        letters = parts.ledger.dead_letters.list(
            stage=stage,
            reason=reason,
            fingerprint=fingerprint,
            run_id=run,
            status=None if everything else "parked",
            limit=limit,
        )
        if as_json:
            print_json(letters)
            return
        columns = ("id", "stage", "kind", "reason", "fingerprint", "tries", "last seen", "message")
        rows = [
            (x.id, x.stage, x.kind, x.reason, x.fingerprint, x.attempts, x.last_seen, x.message[:70]) for x in letters
        ]
        print_table("dead letters", columns, rows)


@dead.command("show")
def show_dead(letter_id: str, as_json: AsJson = False) -> None:
    """Show one dead letter whole: envelope, error, stack, operator actions."""
    with session(as_json=as_json) as parts:
        letter = parts.ledger.dead_letters.show(letter_id)
        actions = parts.ledger.dead_letters.actions(letter_id)
        if as_json:
            print_json({"letter": letter, "actions": actions})
            return
        _print_letter(letter)
        rows = [(a.at, a.operator, a.action, a.note) for a in actions]
        print_table("operator actions", ("at", "operator", "action", "note"), rows)


@dead.command("replay")
def replay_dead(
    letter_id: str,
    force: Annotated[bool, typer.Option(help="Replay although it was replayed three times.")] = False,
    note: Annotated[str, typer.Option(help="Why, for whoever looks later.")] = "",
    as_json: AsJson = False,
) -> None:
    """Put one event back to work, under its own id."""
    with session(as_json=as_json, needs_workers=True) as parts:
        event = parts.ledger.dead_letters.replay(letter_id, getpass.getuser(), force=force, note=note)
        parts.transport.publish([event])
        if as_json:
            print_json({"dead_letter_id": letter_id, "event_id": event.id, "run_id": event.run_id})
        else:
            console.print(f"{event.kind} {event.id} of {event.run_id} is ready again", highlight=False)


def _print_letter(letter: ParkedLetter) -> None:
    for field in fields(letter):
        value = getattr(letter, field.name)
        told = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        console.print(f"[bold]{field.name}[/] {marked('–' if told is None else told)}", highlight=False)
