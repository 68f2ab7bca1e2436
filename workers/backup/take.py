"""Takes a backup while the instance works, as of one moment.

What refers is copied before what is referred to, under a lease while which nothing referred to is removed:

1. the ledger, of the moment T;
2. each corpus's journal up to what its readers serve, which is at least what the ledger refers to; each memory's as
   long as it is now. Records behind T are ahead, and no hole: an event that is handled again appends nothing twice;
3. the blobs to which the copied ledger refers;
4. with the index: the generation that each corpus is served from, which is pinned.

Never copied: broker, spans, metrics, caches, exports, pages of which no copy may be kept.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import BinaryIO

from pydantic_core import to_json

from sluice.contracts.errors import NotFound, SluiceError
from sluice.contracts.retrieval import Query, Strategy
from sluice.index.folder import FALLBACK_FOLDER, CorpusLayout, Pin, list_corpora
from sluice.index.generations.manifest import MANIFEST as GENERATION_MANIFEST
from sluice.index.generations.manifest import IdSet
from sluice.index.generations.publish import read_current_name
from sluice.index.journal.files import cut_files
from sluice.index.journal.journal import read_last_offset
from sluice.index.journal.records import document_key
from sluice.index.local.reindex import read_documents, read_live_records
from sluice.ledger.audit import BACKUP, record
from sluice.ledger.backup import BackupLease, LedgerCopy, copy_ledger
from sluice.workers.backup import VERIFIED
from sluice.workers.backup.archive import MANIFEST, ArchiveWriter, BackupManifest, Canary, CorpusFacts, Seal
from sluice.workers.backup.forgotten import LOG, copy_beside, read_whole
from sluice.workers.backup.target import Target, work_folder
from sluice.workers.context import Context
from sluice.workers.data_dir import SIGNING_FILE
from sluice.workers.runtime.blob_store import blob_path
from sluice.workers.service.operate.settings import list_settings
from sluice.workers.wiring.corpora import FITTED_FOLDER, Reader

LEDGER, DUMP = "ledger.sqlite", "ledger.dump"
ALONGSIDE = ("freshness", FITTED_FOLDER, "evaluation/rag_gate")
"""Small folders of the data directory that are copied whole."""
NEVER = (
    "broker, spans, metrics, caches, models, exports and uploads",
    "unarchived: pages of which no copy may be kept",
    "a rollback in force: what is restored serves all that is in the journal",
)
CANARIES = 3
_WORDS = 12


@dataclass(frozen=True, slots=True)
class Taken:
    """A backup that lies whole in its place."""

    place: str
    manifest: BackupManifest
    size_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class _Cut:
    """The files of a corpus's journal, each with the number of its bytes to copy."""

    folder: str
    files: list[tuple[BinaryIO, int]]
    facts: CorpusFacts | None


def take(context: Context, target: Target, seal: Seal, *, with_index: bool = False) -> Taken:
    """Take a backup and put it in its place, whole or not at all.

    Raises:
        Conflict: another backup is being taken, or the lease was lost; or another machine owns the index.
        Unavailable: ledger, disk or object store do not answer. `DiskFull`: there is no room.
        InvalidSetting: PostgreSQL's tools are too old, or the store refuses the key.
    """
    context.index_owner.require_here("a backup")
    began, data_dir = datetime.now(UTC), context.settings.data_dir
    with BackupLease(context.ledger) as lease, work_folder(data_dir, "taking") as work:
        partial = target.partial(work)
        try:
            with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
                with seal.writing(file) as out:
                    manifest = _Writing(context, ArchiveWriter(out), work, seal, with_index=with_index).write()
                file.flush()
                os.fsync(file.fileno())
            size_bytes = partial.stat().st_size
            lease.check()
            target.put(partial)
        finally:
            partial.unlink(missing_ok=True)
        copy_beside(context, target, seal)
    return Taken(target.told, manifest, size_bytes, (datetime.now(UTC) - began).total_seconds())


def record_taken(context: Context, taken: Taken, operator: str, *, is_verified: bool) -> None:
    """Record the backup among the operators' actions."""
    told = f"{VERIFIED if is_verified else 'not verified'}; {taken.size_bytes / 1e6:.1f} MB, {taken.seconds:.1f} s, "
    told += (
        f"{sum(one.documents for one in taken.manifest.corpora.values())} documents, {taken.manifest.rows['runs']} runs"
    )
    with context.ledger.database.writing() as connection:
        record(connection, context.ledger.clock(), operator, BACKUP, [taken.place], told)


class _Writing:
    """Writes one archive."""

    def __init__(self, context: Context, archive: ArchiveWriter, work: Path, seal: Seal, *, with_index: bool) -> None:
        self._context, self._archive, self._work, self._seal = context, archive, work, seal
        self._root, self._data_dir = context.settings.index_root, context.settings.data_dir
        self._with_index = with_index and context.settings.index.engine == "local"

    def write(self) -> BackupManifest:
        """Write all members, the manifest last."""
        copy = copy_ledger(self._context.ledger, self._work)
        with self._pinned() as generations, ExitStack() as opened:
            cuts = [self._cut(corpus, copy, opened) for corpus in list_corpora(self._root)]
            beside = self._root / FALLBACK_FOLDER
            cuts += [self._cut_beside(beside, corpus, opened) for corpus in list_corpora(beside)]
            self._archive.add_path(DUMP if copy.schema else LEDGER, copy.path)
            copy.path.unlink()
            for cut in cuts:
                for file, size_bytes in cut.files:
                    self._archive.add(f"{cut.folder}/journal/{Path(file.name).name}", file, size_bytes)
            self._add_memories()
            self._add_blobs(copy)
            self._add_config()
            for folder in generations:
                self._add_folder(folder)
        facts = {cut.folder.rpartition("/")[2]: cut.facts for cut in cuts if cut.facts is not None}
        skipped = (
            NEVER if self._seal.is_closed else (*NEVER, f"{SIGNING_FILE}, as it is not encrypted: rotate webhooks")
        )
        manifest = BackupManifest(
            sluice=version("sluice"),
            instance=self._context.settings.instance,
            ledger_at=datetime.fromtimestamp(copy.at, UTC),
            schema_version=copy.version,
            postgresql_schema=copy.schema,
            rows=dict(copy.rows),
            corpora=facts,
            skipped=skipped if generations else (*skipped, "generations: they are built from the journals"),
            members=self._archive.members,
        )
        self._archive.add_bytes(MANIFEST, manifest.model_dump_json(indent=1).encode())
        self._archive.close()
        return manifest

    def _cut(self, corpus: str, copy: LedgerCopy, opened: ExitStack) -> _Cut:
        layout, reader = CorpusLayout(self._root, corpus), self._context.readers.reader(corpus)
        facts = facts_of(layout, reader, copy.written.get(corpus, 0))
        return _Cut(f"index/{corpus}", self._opened(layout, facts.journal_offset, opened), facts)

    def _cut_beside(self, root: Path, corpus: str, opened: ExitStack) -> _Cut:
        layout = CorpusLayout(root, corpus)
        files = self._opened(layout, read_last_offset(layout), opened)
        return _Cut(f"index/{FALLBACK_FOLDER}/{corpus}", files, None)

    def _opened(self, layout: CorpusLayout, until: int, opened: ExitStack) -> list[tuple[BinaryIO, int]]:
        files = cut_files(layout.journal, until)
        for file, _ in files:
            opened.callback(file.close)
        return files

    def _add_memories(self) -> None:
        memories = self._context.memories
        for path in memories.files():  # without locks, and ends that were set aside
            with suppress(FileNotFoundError):
                self._archive.add_path(f"memory/{path.relative_to(memories.root)}", path)

    def _add_blobs(self, copy: LedgerCopy) -> None:
        for sha256, packed in self._context.blobs.packed_among(sorted(copy.blobs)):
            self._archive.add_bytes(f"blobs/{blob_path(sha256)}", packed)

    def _add_config(self) -> None:
        told = [one for one in list_settings(self._context.settings) if one.source != "default"]
        self._archive.add_bytes("config/settings.json", to_json(told, indent=1))
        if log := read_whole(self._data_dir, self._context.object_store):
            self._archive.add_bytes(LOG, log)
        if self._seal.is_closed:
            self._add_if_there(self._data_dir / SIGNING_FILE)
        for name in ALONGSIDE:
            self._add_folder(self._data_dir / name)

    def _add_folder(self, folder: Path) -> None:
        for path in sorted(one for one in folder.rglob("*") if one.is_file() and not one.is_symlink()):
            self._add_if_there(path)

    def _add_if_there(self, path: Path) -> None:
        with suppress(FileNotFoundError):
            self._archive.add_path(str(path.relative_to(self._data_dir)), path)

    @contextmanager
    def _pinned(self) -> Iterator[list[Path]]:
        """Yield the folders of the generations to copy, which no collector removes during the block."""
        found: list[Path] = []
        with ExitStack() as pins:
            for corpus in list_corpora(self._root) if self._with_index else ():
                layout = CorpusLayout(self._root, corpus)
                for _ in range(3):  # it may be collected between the two lines
                    if (name := read_current_name(layout)) is None:
                        break
                    try:
                        pins.callback(Pin(layout.generations / name / GENERATION_MANIFEST).release)
                    except NotFound:
                        continue
                    found.append(layout.generations / name)
                    break
            yield found


def facts_of(layout: CorpusLayout, reader: Reader, written: int) -> CorpusFacts:
    """Return what a corpus holds: by its reader if that covers what runs have written, else by its journal."""
    try:
        view = reader.pin(written)
        stats, view_hash = view.stats(), getattr(view, "corpus_hash", lambda: None)()
        if view_hash is not None and not layout.held.exists():
            return CorpusFacts(
                journal_offset=stats.journal_offset,
                documents=stats.document_count,
                id_set_hash=view_hash.served,
                canaries=tuple(islice(_canaries(view, layout.corpus), CANARIES)),
            )
    except SluiceError:
        pass  # it serves an older state, or none: the journal is the truth
    until, ids = read_last_offset(layout), IdSet()
    live = read_live_records(layout.journal, 0, until)
    for document_id, document in read_documents(layout.journal, live):
        ids.add(document_key(document_id), (chunk.chunk_id for chunk in document.chunks))
    return CorpusFacts(journal_offset=until, documents=len(live.documents), id_set_hash=ids.hexadecimal)


def _canaries(reader: Reader, corpus: str) -> Iterator[Canary]:
    """Yield questions that are the beginnings of passages of the first, a middle and the last documents, with what they
    find first now. One that does not find its own passage is left out."""
    listed = (reader.listed("by_id"), reader.listed("by_id", "d8"), reader.listed("by_id", backwards=True))
    some = chain.from_iterable(zip_longest(*(islice(one, 5) for one in listed)))
    for document in {one.document_id: one for one in some if one is not None}.values():
        chunks = reader.chunks(document.document_id)
        question = " ".join(chunks[0].text.split()[:_WORDS])[:300] if chunks else ""
        if not question:
            continue
        found = answer(reader, corpus, question, document.document_id)
        if found[:1] == (chunks[0].chunk_id,):
            yield Canary(question=question, document_id=document.document_id, chunk_ids=found)


def answer(reader: Reader, corpus: str, question: str, document_id: str) -> tuple[str, ...]:
    """Return the ids of the passages that a canary finds first; its vector is the document's first."""
    vectors = reader.vectors(document_id)
    has_vector = vectors is not None and len(vectors) > 0
    asked = Query(
        query=question,
        corpus=corpus,
        strategy=Strategy.HYBRID if has_vector else Strategy.BM25,
        top_k=1,
        max_per_domain=0,
        duplicate_threshold=0.0,
        diversity=0.0,
        rerank=False,
    )
    found = reader.search(asked, vectors[0] if vectors is not None and has_vector else None)
    return tuple(chunk.chunk_id for chunk in found.chunks)
