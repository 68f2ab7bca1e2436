"""`sluice upgrade`: an instance's data on its way to this version; with `--check` only what would change about it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path

from sluice.cli.command import Shown, alone, print_rows
from sluice.cli.connection import connected, is_running
from sluice.cli.output import configured, say
from sluice.contracts.errors import Conflict, SluiceError
from sluice.disk.durable import lock_file
from sluice.index.folder import CorpusLayout, list_corpora
from sluice.index.generations.manifest import load_manifest
from sluice.index.generations.publish import read_current_name
from sluice.ledger.database import Database
from sluice.ledger.schema.migrate import Migration, look, migrate, room_for_copy
from sluice.workers.data_dir import make_private
from sluice.workers.settings import Settings


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the data. `then`: what the next start does to it; `is_in_the_way`: it keeps that from happening."""

    part: str
    found: str
    wanted: str
    then: str = "stays"
    is_in_the_way: bool = False


@alone
def upgrade(check: bool = False) -> Shown:
    """Bring an older ledger to this version, after a copy; or say what that means for all data."""
    settings = configured()
    if not check:
        with closing(Database(settings.ledger_location)) as database, _at_rest(settings):
            done = migrate(database, datetime.now(UTC))
        return Shown(asdict(done) | {"is_due": done.is_due, "dry_run": False}, _migrated(done))
    running = _running_version()
    parts = [*_ledger(settings, is_running=running is not None), *_corpora(settings), *_model(settings)]
    told = {"version": version("sluice"), "running": running, "parts": [asdict(one) for one in parts]}

    def draw() -> None:
        say(f"Sluice {version('sluice')}; " + (f"version {running} runs" if running else "no instance runs here"))
        print_rows("", parts, "part found wanted then")
        if not any(one.is_in_the_way for one in parts):
            say("nothing is in the way")

    return Shown(told, draw, int(any(one.is_in_the_way for one in parts)))


@contextmanager
def _at_rest(settings: Settings) -> Iterator[None]:
    """Keep this machine's `sluice up` from running meanwhile. Raises `Conflict` if it runs."""
    make_private(settings.data_dir)
    refusal = Conflict(f"`sluice up` runs on {settings.data_dir}: stop it first")
    with lock_file(settings.data_dir / "up.lock", refusal):
        yield


def _migrated(migration: Migration) -> str:
    if migration.found is None:
        return f"the ledger is new: it begins with schema version {migration.wanted}"
    if not migration.is_due:
        return f"the ledger has schema version {migration.found}, as it should"
    return f"the ledger went from schema version {migration.found} to {migration.wanted}; as it was: {migration.copy}"


def _running_version() -> str | None:
    if not is_running():
        return None
    with connected() as client:
        return str(client.health().version)


def _ledger(settings: Settings, *, is_running: bool) -> Iterator[Part]:
    with closing(Database(settings.ledger_location)) as database:
        try:
            plan = look(database)
        except SluiceError as error:
            yield Part("ledger", "?", "", str(error), is_in_the_way=True)
            return
    found, wanted = "none" if plan.found is None else f"schema {plan.found}", f"schema {plan.wanted}"
    if not plan.is_due:
        yield Part("ledger", found, wanted, "is made" if plan.found is None else "stays")
        return
    yield Part(
        "ledger", found, wanted, "is migrated after a copy; " + ("stop the instance" if is_running else "at rest")
    )
    if database.on_sqlite:
        file = Path(str(database.url.database))
        needed, free = room_for_copy(file), shutil.disk_usage(file.parent).free
        told = f"{free / 1e9:.2f} GB free", f"{needed / 1e9:.2f} GB"
        yield Part(
            "room for its copy", *told, "is enough" if free >= needed else "make room", is_in_the_way=free < needed
        )


def _corpora(settings: Settings) -> Iterator[Part]:
    from sluice.graph.generations.publish import POINTER, current

    for corpus in list_corpora(settings.index_root):
        layout, graph = CorpusLayout(settings.index_root, corpus), settings.graph_root / corpus
        journal = sum(path.stat().st_size for path in layout.journal.glob("*.log"))
        yield Part(f"journal of {corpus}", f"{journal / 1e6:.1f} MB", "any version's")
        if name := read_current_name(layout):
            rebuilt = f"is rebuilt from {journal / 1e6:.1f} MB of journal"
            yield _generation(
                f"generation of {corpus}", name, partial(load_manifest, layout.generations / name), rebuilt
            )
        if (graph / POINTER).is_symlink():
            name = os.readlink(graph / POINTER)
            yield _generation(f"graph of {corpus}", name, partial(current, graph), "is folded again from the ledger")


def _generation(part: str, name: str, load: Callable[[], object], otherwise: str) -> Part:
    try:
        load()
    except SluiceError as error:
        return Part(part, name, "this version's format", f"{otherwise}: {error}")
    return Part(part, name, "this version's format")


def _model(settings: Settings) -> Iterator[Part]:
    if settings.embed.provider != "local":
        return
    from sluice.ingest.embed.minilm import folder_of

    folder = folder_of(settings.model_dir, settings.embed.precision)
    found = sorted(path.name for path in folder.parent.glob("all-MiniLM-*")) if folder.parent.is_dir() else []
    then = "stays" if folder.is_dir() else "is built at the next start, which takes up to a minute"
    yield Part("model", ", ".join(found) or "none", folder.name, then)
