"""`sluice keys`, `sluice migrate`, `sluice prune`: who may use the interface, and the upkeep of the ledger itself."""

from __future__ import annotations

import getpass
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Annotated, cast

import typer

from sluice.cli.command import DryRun, Shown, chosen, needed, on_disk, print_shown, say, table
from sluice.cli.configured import configured
from sluice.cli.output import AsJson, errors_told, print_table
from sluice.contracts.errors import Conflict, InvalidInput
from sluice.disk.locks import lock_file
from sluice.ledger.database import Database
from sluice.ledger.retention import Pruning
from sluice.ledger.schema.install import install
from sluice.ledger.schema.migrate import Migration, look
from sluice.ledger.schema.migrate import migrate as carry_out
from sluice.workers.context import Context
from sluice.workers.runtime.private_files import make_private
from sluice.workers.service.api_keys import ROLES, ApiKeys, Role
from sluice.workers.settings import Settings

_UNITS = {"d": "days", "h": "hours", "m": "minutes"}
_AGE = re.compile(r"(\d{1,6})([dhm])")


@on_disk
def keys(
    context: Context,
    name: Annotated[str | None, typer.Argument(help="What a new key is for; or the id of one to revoke.")] = None,
    create: Annotated[bool, typer.Option("--create", help="Make a key: shown this once, kept as a hash.")] = False,
    revoke: Annotated[bool, typer.Option("--revoke", help="It is refused within two seconds.")] = False,
    role: Annotated[str, typer.Option(help=f"Of a new key: one of {', '.join(ROLES)}.")] = "agent",
    corpus: Annotated[
        list[str] | None, typer.Option("--corpus", "-c", help="What a new key may touch. Repeatable; none: all.")
    ] = None,
) -> Shown:
    """API keys: list them, create one, revoke one."""
    known, action = ApiKeys(context.ledger), chosen(create=create, revoke=revoke)
    if action == "create":
        key_id, key = known.create(needed("NAME", name, action), cast(Role, role), corpus or ())  # it checks the role
        return Shown({"id": key_id, "key": key}, f"{key_id}  {key}\nThis is the only time that the key is shown.")
    if action == "revoke":
        changed = known.revoke(needed("NAME", name, action))
        return Shown({"id": name, "revoked": changed}, f"{name} {'is revoked' if changed else 'was revoked before'}")
    names = ("id", "name", "role", "corpora", "created_at", "revoked_at")
    found = [{field: getattr(key, field) for field in names} for key in known.list()]
    return table("keys", found, *((field.removesuffix("_at"), lambda key, field=field: key[field]) for field in names))


def migrate(dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Bring an older ledger to this version; a copy is taken first."""
    with errors_told(as_json=as_json):
        settings = configured()
        with closing(Database(settings.ledger_location)) as database:
            if dry_run:
                done = look(database)
            else:
                with _at_rest(settings):
                    done = carry_out(database, datetime.now(UTC))
        facts = asdict(done) | {"is_due": done.is_due, "dry_run": dry_run}
        print_shown(Shown(facts, _told(done, dry_run=dry_run)), as_json=as_json)


def prune(
    before: Annotated[str, typer.Option(help="The age of what goes: 30d, 12h or 90m since it ended.")],
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Remove runs that ended long ago from the ledger."""
    with errors_told(as_json=as_json):
        moment = datetime.now(UTC) - age(before)
        with closing(Database(configured().ledger_location)) as database:
            with database.installing() as connection:
                install(connection)
            pruning = Pruning(database)
            found = pruning.count(moment) if dry_run else pruning.prune(moment, getpass.getuser())
        facts = asdict(found)

        def draw() -> None:
            say(f"what ended before {moment:%Y-%m-%d %H:%M} UTC {'would go' if dry_run else 'is gone'}:")
            print_table("rows", ("of", "rows"), facts.items())

        print_shown(Shown(facts | {"before": moment, "dry_run": dry_run}, draw), as_json=as_json)


def age(given: str) -> timedelta:
    """The length of time that an argument such as `30d` means.

    Raises:
        InvalidInput: it means none.
    """
    match = _AGE.fullmatch(given)
    if match is None:
        raise InvalidInput("before", f"{given!r} is no age", "a number of days, hours or minutes: 30d, 12h, 90m")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


@contextmanager
def _at_rest(settings: Settings) -> Iterator[None]:
    """Keep this machine's `sluice up` from running meanwhile.

    Raises:
        Conflict: it does.
    """
    make_private(settings.data_dir)
    refusal = Conflict(f"`sluice up` runs on {settings.data_dir}: stop it first")
    with lock_file(settings.data_dir / "up.lock", refusal):
        yield


def _told(migration: Migration, *, dry_run: bool) -> str:
    if migration.found is None:
        return f"the ledger is new: it begins with schema version {migration.wanted}"
    if not migration.is_due:
        return f"the ledger has schema version {migration.found}, as it should"
    if dry_run:
        return f"the ledger would go from schema version {migration.found} to {migration.wanted}, after a copy"
    return f"the ledger went from schema version {migration.found} to {migration.wanted}; as it was: {migration.copy}"
