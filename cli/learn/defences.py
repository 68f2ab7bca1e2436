"""`sluice gate defences`: whether the gate has stepped back, why, and ending it by hand."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from typing import Annotated, get_args

import typer

from sluice.cli.output import AsJson, print_json, print_table
from sluice.cli.session import session
from sluice.contracts.api import DefenceView
from sluice.contracts.learning.control import DefenceName
from sluice.workers.service.learning.defences import lift_defence, list_defences

defences = typer.Typer(help="The gate's steps back: which stand, why, and ending one.", no_args_is_help=True)

Name = Annotated[DefenceName, typer.Argument(help=f"One of {', '.join(get_args(DefenceName))}.")]


@defences.command("list")
def list_all(as_json: AsJson = False) -> None:
    """List the defences: whether each has stepped back, since when, and what its latest window showed."""
    with session(as_json=as_json) as context:
        _print(list_defences(context.ledger), as_json=as_json)


@defences.command("lift")
def lift(
    name: Name,
    profile: Annotated[str | None, typer.Option(help="Of this profile alone.")] = None,
    note: Annotated[str, typer.Option(help="Why; it is recorded.")] = "",
    as_json: AsJson = False,
) -> None:
    """End a step back before it heals. Its windows begin anew: it comes again where two of them are bad."""
    with session(as_json=as_json) as context:
        _print(lift_defence(context, name, getpass.getuser(), profile, note), as_json=as_json)


def _print(found: Sequence[DefenceView], *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    columns = ("defence", "profile", "steps back to", "since", "why", "latest window")
    rows = [
        (
            one.name,
            one.profile,
            _step(one),
            f"{one.stands.since:%Y-%m-%d %H:%M}" if one.stands else None,
            one.stands.why if one.stands else None,
            one.windows[-1] if one.windows else None,
        )
        for one in found
    ]
    print_table("defences", columns, rows)


def _step(one: DefenceView) -> str | None:
    if one.stands is None:
        return None
    before = f" {one.falls_back_to[:12]}" if one.falls_back_to else ""
    return f"{one.stands.step.replace('_', ' ')}{before}"
