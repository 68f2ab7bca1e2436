"""Restores a backup into an empty data directory, and proves it; or restores it beside, compares, and throws it away.

1. the file is fetched, decrypted and unpacked into a folder beside the data directory, and every byte compared with its
   manifest; a newer schema is refused;
2. the ledger is checked, brought to this version, and its claims freed with a higher epoch: whoever still holds one of
   the old instance is fenced;
3. the index is built from the journals, and compared with what the manifest says of each corpus;
4. what was forgotten since is forgotten again;
5. where machines share an object store, blobs, memories and models go there;
6. the folder is given its name. Killed before, the data directory is empty; after it, it is whole.

A dump of PostgreSQL is restored in one transaction; until the last step the database is marked as one that the next
restoration may replace.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from sluice.contracts.errors import Conflict, Corrupted, NotFound
from sluice.contracts.operations.forget import ForgetRequest, NewEntry
from sluice.disk.durable import fsync_path, lock_file
from sluice.disk.object_store import open_store
from sluice.index.folder import CorpusLayout
from sluice.index.search.filters import selector
from sluice.index.settings import IndexSettings, ObjectStoreSettings
from sluice.ledger.backup import begin_anew, check_sqlite, count_rows, end_restoration, passing_database, restore_dump
from sluice.ledger.database import Database
from sluice.ledger.ledger import Ledger
from sluice.ledger.schema.migrate import migrate, schema_version
from sluice.trust.source_trust import source_trust_of
from sluice.workers.backup.archive import BackupManifest, Keys, extract
from sluice.workers.backup.forgotten import LOG, Logged, logs_beside, read_log
from sluice.workers.backup.take import DUMP, LEDGER, answer, facts_of
from sluice.workers.backup.target import Target, work_folder
from sluice.workers.context import Context
from sluice.workers.data_dir import INSTANCE_FILE
from sluice.workers.service.callers import OWN_MACHINE
from sluice.workers.service.corpora import CorpusDesk
from sluice.workers.service.forget import ForgetDesk
from sluice.workers.settings import Settings
from sluice.workers.wiring.shared_form import put_up


@dataclass(frozen=True, slots=True)
class Compared:
    """One thing of the backup, as its manifest says and as it was found after restoring."""

    what: str
    backup: str
    restored: str

    @property
    def is_equal(self) -> bool:
        """Whether they are the same."""
        return self.backup == self.restored


@dataclass(slots=True)
class Restored:
    """Result of a restoration. It is whole if all that was compared is equal."""

    manifest: BackupManifest
    compared: list[Compared] = field(default_factory=list)
    freed_claims: int = 0
    forgotten: int = 0
    """Documents that were forgotten since the backup, and left again."""
    instance: str = ""

    @property
    def is_equal(self) -> bool:
        """Whether everything is as the backup says."""
        return all(one.is_equal for one in self.compared)


def restore(
    settings: Settings, target: Target, keys: Keys, operator: str, *, keeps_instance: bool = False, into: Path
) -> Restored:
    """Restore a backup into the data directory `into`, which is missing or empty. Its PostgreSQL ledger goes to the
    database of `ledger_url`.

    Raises:
        Conflict: `into` is not empty, the database has a ledger, or the backup is of a newer Sluice.
        Corrupted: the file is damaged or cut off. InvalidInput: it is no backup, or the keys do not open it.
        NotFound: there is no such file.
    """
    into.parent.mkdir(parents=True, exist_ok=True)
    staging = _staging_of(into)
    refusal = Conflict(f"another restoration into {into} is under way")
    lock = into.parent / f".{into.name}.restore.lock"
    with lock_file(lock, refusal):
        try:
            _require_empty(into)
            shutil.rmtree(staging, ignore_errors=True)
            staging.mkdir(mode=0o700)
            logs = [log for log in (into / LOG, settings.data_dir / LOG) if log.is_file()]
            known = [*logs_beside(target, keys), *(log.read_bytes() for log in logs)]
            done = _in_staging(settings, target, keys, staging, known, operator, keeps_instance=keeps_instance)
            if done.manifest.postgresql_schema is not None:
                end_restoration(settings.ledger_location)
            if settings.object_store.url:
                put_up(staging, open_store(settings.object_store.url, settings.object_store))
            _put_in_place(staging, into)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
            lock.unlink(missing_ok=True)
    return done


def verify(settings: Settings, target: Target, keys: Keys) -> Restored:
    """Restore a backup into a folder of its own, compare, and throw it away. Raises as `restore`."""
    with work_folder(settings.data_dir, "verifying") as staging:
        return _in_staging(settings, target, keys, staging, [], "sluice", keeps_instance=False, is_trial=True)


def _in_staging(
    settings: Settings,
    target: Target,
    keys: Keys,
    staging: Path,
    logs: list[bytes],
    operator: str,
    *,
    keeps_instance: bool,
    is_trial: bool = False,
) -> Restored:
    manifest = _unpacked(target, keys, staging)
    done = Restored(manifest, instance=manifest.instance if keeps_instance else f"sluice-{secrets.token_hex(4)}")
    (staging / INSTANCE_FILE).write_text(f"{done.instance}\n")
    with _ledger_at(settings, manifest, staging, is_trial=is_trial) as url:
        with closing(Database(url)) as database:
            with database.reading() as connection:
                rows = count_rows(connection)
            migrate(database, datetime.now(UTC))
        done.compared += [Compared(f"rows of {name}", str(n), str(rows.get(name))) for name, n in manifest.rows.items()]
        with Ledger(url) as ledger:
            note = f"as of {manifest.ledger_at:%Y-%m-%d %H:%M:%S} UTC"
            done.freed_claims = begin_anew(ledger, operator, f"backup:{target.told}", note)
        after = manifest.ledger_at.timestamp()
        if not is_trial:
            own = (staging / LOG).read_bytes() if (staging / LOG).is_file() else b""
            _merge_logs(staging / LOG, [own, *logs])
        with closing(Context(_settings_in(settings, staging, url))) as context:
            done.compared += _built(context, manifest)
            if not is_trial:
                done.forgotten = carry_out(context, read_log(logs, after))
        _remove_leftovers(staging)
        os.sync()
    return done


def _unpacked(target: Target, keys: Keys, staging: Path) -> BackupManifest:
    with target.fetched(staging.parent if target.store else staging) as path, path.open("rb") as file:
        manifest = _extracted(file, keys, staging)
    if manifest.schema_version > schema_version():
        raise Conflict(
            f"the backup has schema version {manifest.schema_version} and this Sluice knows up to {schema_version()}: "
            f"restore it with Sluice {manifest.sluice}"
        )
    for corpus in manifest.corpora:
        (staging / "index" / corpus / "journal").mkdir(parents=True, exist_ok=True, mode=0o700)
    return manifest


def _extracted(file: BinaryIO, keys: Keys, staging: Path) -> BackupManifest:
    with keys.reading(file) as source:
        return extract(source, staging)


@contextmanager
def _ledger_at(settings: Settings, manifest: BackupManifest, staging: Path, *, is_trial: bool) -> Iterator[str]:
    """Yield the URL of the restored ledger: the file in `staging`, or the database that a dump was restored into."""
    if manifest.postgresql_schema is None:
        path = staging / LEDGER
        if not path.is_file():
            raise Corrupted("the backup holds no ledger")
        check_sqlite(path)
        yield f"sqlite:///{path}"
        return
    url, dump = settings.ledger_location, staging / DUMP
    if not url.startswith("postgres"):
        raise Conflict("the backup's ledger is of PostgreSQL: set ledger_url to an empty database")
    if not is_trial:
        restore_dump(url, dump, manifest.postgresql_schema)
        dump.unlink()
        yield url
        return
    with passing_database(url, manifest.postgresql_schema) as trial:
        restore_dump(trial, dump, manifest.postgresql_schema)
        yield trial


def _settings_in(settings: Settings, staging: Path, url: str) -> Settings:
    """Return the settings by which the restored instance is checked: without a broker, and with the local index, which
    the journals make anywhere."""
    index = IndexSettings(**{**settings.index.model_dump(), "engine": "local"})
    own = {"data_dir": staging, "ledger_url": url, "broker_url": None, "object_store": ObjectStoreSettings()}
    return settings.model_copy(update={**own, "index": index})


def _built(context: Context, manifest: BackupManifest) -> Iterator[Compared]:
    """Publish what each journal holds, and yield what was compared of each corpus."""
    for corpus, facts in sorted(manifest.corpora.items()):
        if facts.journal_offset:
            with context.writers.both(corpus) as both:
                for writer in filter(None, both):
                    writer.publish()
        layout, reader = CorpusLayout(context.settings.index_root, corpus), context.readers.reader(corpus)
        found = facts_of(layout, reader, facts.journal_offset)
        yield Compared(f"{corpus}: journal offset", str(facts.journal_offset), str(found.journal_offset))
        yield Compared(f"{corpus}: documents", str(facts.documents), str(found.documents))
        yield Compared(f"{corpus}: id-set hash", facts.id_set_hash[:16], found.id_set_hash[:16])
        for canary in facts.canaries:
            answered = answer(reader, corpus, canary.question, canary.document_id)
            told = f"{corpus}: “{canary.question[:40]}”"
            yield Compared(told, ", ".join(canary.chunk_ids), ", ".join(answered))


def _merge_logs(path: Path, logs: list[bytes]) -> None:
    if lines := dict.fromkeys(line for log in logs for line in log.splitlines() if line.strip()):
        path.write_bytes(b"".join(line + b"\n" for line in lines))


def _remove_leftovers(staging: Path) -> None:
    for path in staging.glob("ledger.sqlite.*"):
        path.unlink()
    for path in (staging / "embedding-cache.sqlite", staging / "up.lock"):
        path.unlink(missing_ok=True)


def _staging_of(into: Path) -> Path:
    """Return the folder to restore into first: beside the data directory, or in it where it is a mount of its own."""
    return into / ".restoring" if into.is_mount() else into.parent / f".{into.name}.restoring"


def _require_empty(into: Path) -> None:
    """Raise `Conflict` unless the folder is missing, or holds no more than the log of what was forgotten and what a
    killed restoration left there."""
    if not into.is_dir():
        if into.exists():
            raise Conflict(f"{into} is no folder")
        return
    staging = into / ".restoring"
    others = [path for path in into.iterdir() if path.name not in (LOG, staging.name, "lost+found")]
    if staging.is_dir() and any(staging.iterdir()):  # its end would have left nothing there
        for path in others:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    elif held := sorted(path.name for path in others):
        raise Conflict(f"{into} is not empty ({', '.join(held[:3])}): name a folder that is, with --into")


def _put_in_place(staging: Path, into: Path) -> None:
    if staging.parent != into:
        if into.is_dir():
            (into / LOG).unlink(missing_ok=True)  # its lines are in the restored one
        os.rename(staging, into)
        fsync_path(into.parent)
        return
    order: Callable[[Path], tuple[bool, str]] = lambda path: (path.name == LEDGER, path.name)  # noqa: E731
    for path in sorted(staging.iterdir(), key=order):  # the ledger last: without it nothing starts
        os.replace(path, into / path.name)
    fsync_path(into)
    staging.rmdir()


def carry_out(context: Context, logged: Iterable[Logged]) -> int:
    """Forget again, in an instance that nobody serves yet: documents leave the index at once, and a run of each request
    removes their other traces when the instance works. Returns the number of documents that left."""
    desk, caller, removed = ForgetDesk(context), OWN_MACHINE, 0
    changed: set[str] = set()
    for one in logged:
        try:
            if one.action == "keep_out":
                desk.keep_out(NewEntry.model_validate(one.facts), caller)
            elif one.action == "allow":
                desk.allow(str(one.facts["id"]), caller, "restored")
            else:
                request = ForgetRequest.model_validate(one.facts)
                ids = _remove(context, request, datetime.fromtimestamp(one.at, UTC))
                removed += len(ids)
                changed.add(request.corpus)
                if one.action == "delete_corpus":
                    CorpusDesk(context).delete(request.corpus, caller, "restored")
                else:
                    desk.forget(request, caller, ids)
        except NotFound:
            continue
    for corpus in changed & set(context.readers.names()):
        with context.writers.both(corpus) as both:
            for writer in filter(None, both):
                writer.erase()
    return removed


def _remove(context: Context, request: ForgetRequest, at: datetime) -> list[str]:
    if not CorpusLayout(context.settings.index_root, request.corpus).journal.is_dir():
        return []
    is_meant = selector(request.selection, source_trust_of(context.settings.trust), at)
    with context.writers.both(request.corpus) as both:
        for writer in filter(None, both):
            ids = [facts.document_id for facts in writer.select(is_meant)]
            writer.remove(ids)
        return ids
