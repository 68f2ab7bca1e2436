"""`sluice migrate` and `sluice prune`: the upkeep of the ledger itself."""

from __future__ import annotations

import getpass
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from sluice.cli.configured import configured
from sluice.cli.output import AsJson, console, errors_told, print_json, print_table
from sluice.contracts.errors import Conflict, InvalidInput
from sluice.disk.locks import lock_file
from sluice.ledger.database import Database
from sluice.ledger.retention import Pruning
from sluice.ledger.schema.install import install
from sluice.ledger.schema.migrate import Migration, look
from sluice.ledger.schema.migrate import migrate as carry_out
from sluice.workers.runtime.private_files import make_private
from sluice.workers.settings import Settings

_UNITS = {"d": "days", "h": "hours", "m": "minutes"}
_AGE = re.compile(r"(\d{1,6})([dhm])")

DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]


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
        if as_json:
            print_json(asdict(done) | {"is_due": done.is_due, "dry_run": dry_run})
        else:
            console.print(_told(done, dry_run=dry_run), highlight=False, soft_wrap=True)


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
        if as_json:
            print_json(facts | {"before": moment, "dry_run": dry_run})
        else:
            told = "would go" if dry_run else "is gone"
            console.print(f"what ended before {moment:%Y-%m-%d %H:%M} UTC {told}:", highlight=False)
            print_table("rows", ("of", "rows"), list(facts.items()))


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
