"""`sluice keys`: who may use the HTTP interface, and for what."""

from __future__ import annotations

from typing import Annotated, cast

import typer

from sluice.cli.output import AsJson, console, print_json, print_table
from sluice.cli.session import session
from sluice.workers.service.api_keys import ROLES, ApiKeys, Role

keys = typer.Typer(help="API keys: create, list, revoke.", no_args_is_help=True)


@keys.command("create")
def create_key(
    name: Annotated[str, typer.Argument(help="What it is for, as the list will show it.")],
    role: Annotated[str, typer.Option(help=f"One of {', '.join(ROLES)}.")] = "agent",
    corpus: Annotated[
        list[str] | None, typer.Option("--corpus", "-c", help="A corpus it may touch. Repeatable; none: all.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a key. It is shown this once and kept only as a hash."""
    with session(as_json=as_json) as context:
        key_id, key = ApiKeys(context.ledger).create(name, cast(Role, role), corpus or ())  # create() checks the role
        if as_json:
            print_json({"id": key_id, "key": key})
        else:
            console.print(f"{key_id}  {key}", markup=False, highlight=False, soft_wrap=True)
            console.print("[dim]This is the only time that the key is shown.[/]")


@keys.command("list")
def list_keys(as_json: AsJson = False) -> None:
    """List keys, never their secrets."""
    names = ("id", "name", "role", "corpora", "created_at", "revoked_at")
    with session(as_json=as_json) as context:
        found = [{name: getattr(key, name) for name in names} for key in ApiKeys(context.ledger).list()]
        if as_json:
            print_json(found)
        else:
            columns = ("id", "name", "role", "corpora", "created", "revoked")
            print_table("keys", columns, [tuple(key.values()) for key in found])


@keys.command("revoke")
def revoke_key(key_id: str, as_json: AsJson = False) -> None:
    """Revoke a key; it is refused within two seconds."""
    with session(as_json=as_json) as context:
        changed = ApiKeys(context.ledger).revoke(key_id)
        if as_json:
            print_json({"id": key_id, "revoked": changed})
        else:
            console.print(f"{key_id} {'is revoked' if changed else 'was revoked before'}", highlight=False)
