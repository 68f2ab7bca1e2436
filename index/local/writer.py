"""The one writer of a corpus: it writes the journal first, then the working set that becomes the next generation.

    writer = IndexWriter(root, "default")
    offset = writer.append(batch, vectors, fingerprint)   # durable when it returns
    generation = writer.publish()                         # searchable when it returns

Opening brings the working set up to date from the journal, so nothing that was appended is lost. After any error the
working set is discarded and made again from the last generation and the journal; the current generation keeps serving.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from sluice.contracts.document import ChunkBatch
from sluice.contracts.errors import Corrupted, NotFound, Unavailable
from sluice.disk.durable import FLUSHING_THREADS, replace_pointer
from sluice.index.disk.layout import CorpusLayout
from sluice.index.disk.locks import WriterLock
from sluice.index.generations.manifest import (
    FileEntry,
    Manifest,
    library_versions,
    load_manifest,
    parse_generation_number,
)
from sluice.index.generations.publish import (
    Generation,
    Rebuild,
    describe_generation,
    drop_others,
    list_generation_names,
    publish,
    read_current_name,
    read_rollback_offset,
    sweep,
)
from sluice.index.generations.recovery import find_base, self_test
from sluice.index.journal.compaction import compact
from sluice.index.journal.document_facts import DocumentFacts, is_recorded, make_facts
from sluice.index.journal.files import read_journal, read_pinned_model
from sluice.index.journal.journal import Journal
from sluice.index.journal.records import Record, Removal, Upsert, Vectors, decode_record, encode_record
from sluice.index.local.background_collector import BackgroundCollector
from sluice.index.local.working_set import WorkingSet
from sluice.index.local.write_policy import USUAL_POLICY, WritePolicy
from sluice.index.segments.batch_checks import check_model, check_vectors


def _utc_now() -> datetime:
    return datetime.now(UTC)


class IndexWriter:
    """Appends to a corpus and publishes its generations. Safe for threads; one per corpus and machine.

    `on_fallback` is called with the problem when a generation is damaged and another one is used in its place.
    Raises `Unavailable` when another writer holds the corpus and `Corrupted` when the journal is damaged.
    """

    def __init__(
        self,
        root: Path,
        corpus: str,
        policy: WritePolicy = USUAL_POLICY,
        clock: Callable[[], datetime] = _utc_now,
        on_fallback: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self._layout = CorpusLayout(root, corpus)
        self._policy = policy
        self._clock = clock
        self._on_fallback = on_fallback
        self._mutex = threading.RLock()
        self._lock = WriterLock(self._layout)
        self._segment_names = (f"s{self._lock.epoch:06d}-{number:06d}" for number in itertools.count(1))
        self._open_view: WorkingSet | None = None
        self._threads = ThreadPoolExecutor(FLUSHING_THREADS, thread_name_prefix="publish")
        self._collector = BackgroundCollector(self._layout, policy.keep_generations, self._mutex, on_fallback)
        try:
            self._journal = Journal(self._layout.journal, policy.journal_segment_bytes)
            sweep(self._layout)
            self._base = self._find_base()
            self._point_to_base()
            self._view()
        except BaseException:
            self._lock.release()
            raise

    @property
    def journal_offset(self) -> int:
        """The offset of the last record in the journal."""
        return self._journal.last_offset

    @property
    def published_offset(self) -> int:
        """The offset that the current generation covers; 0 before the first."""
        generation = self._current()
        return generation.journal_offset if generation else 0

    @property
    def model(self) -> tuple[str, int] | None:
        """The model fingerprint and dimension that the corpus is bound to, once it has a vector."""
        with self._mutex:
            return self._view().model

    def append(self, batch: ChunkBatch, vectors: Vectors, fingerprint: str) -> int:
        """Record the documents' versions and return the journal offset that covers them.

        `vectors` is float32 (n, d), L2-normalised, row i for chunk i in the order of the batch. A version
        that is recorded already is not recorded again. Raises `InvalidInput` for vectors that do not fit
        the batch and `Conflict` for those of another model.
        """
        with self._mutex:
            self._lock.check()
            check_vectors(batch, vectors)
            check_model(self._layout.corpus, self._view().model, fingerprint, vectors)
            own = vectors.copy()  # kept until they are published, while the caller may reuse its array
            covered, records = self._unrecorded(batch, own, fingerprint)
            return self._record(records) if records else covered

    def remove(self, document_ids: Sequence[str]) -> int:
        """Record the removal of the documents; unknown ones are ignored. Returns the covering journal offset."""
        with self._mutex:
            self._lock.check()
            known = [name for name in dict.fromkeys(document_ids) if self._view().newest(name)]
            return self._record([Removal(name) for name in known])

    def select(self, is_wanted: Callable[[DocumentFacts], bool]) -> list[DocumentFacts]:
        """The facts of the documents in the journal, published or not, that are wanted."""
        with self._mutex:
            return [facts for facts in self._view().all_facts() if is_wanted(facts)]

    def erase(self) -> Generation:
        """Publish a generation, and leave nothing on disk of documents and versions that are not in it.

        Its segments hold no dead document; all older generations go, so that there is none to roll back to or to fall
        back on; the journal keeps the live versions alone. Single words may stay in the term index, without a document,
        until Tantivy merges its own segments. Killed at any point, a later call does it again.
        Raises `Unavailable` when the disk refuses, and `Corrupted` for a damaged journal.
        """
        with self._mutex:
            self._lock.check()
            with self._view_to_change() as view:
                view.drop_dead()
            generation = self._publish()
            live_offsets, model = self._view().live_offsets(), self._view().model
            self._journal.begin_segment()
        self._collector.wait()  # without the mutex, which it needs
        with self._mutex:
            self._lock.check()
            try:
                drop_others(self._layout)
                offset = generation.journal_offset
                compact(self._layout.journal, offset, live_offsets, model, lambda: self._mutex, least_dead_share=0.0)
            except OSError as error:
                raise Unavailable(f"corpus {self._layout.corpus} cannot be written: {error}") from error
        return generation

    def publish(self) -> Generation:
        """Make everything in the journal searchable; the current generation when that is so already.

        Raises `Unavailable` when the disk refuses: the old generation serves on, and a later call tries
        again. After a rollback the older generation stays until there are new records.
        """
        with self._mutex:
            self._lock.check()
            current = self._current()
            return current if current is not None and self._is_up_to_date(current) else self._publish()

    def _is_up_to_date(self, current: Generation) -> bool:
        """Whether there is nothing to publish: an intact generation has all records, or a rollback leaves them out."""
        offset, held = self._view().offset, read_rollback_offset(self._layout)
        if self._base is None or parse_generation_number(self._base[0].name) < parse_generation_number(current.name):
            return False  # the current one was found damaged
        if held is not None:
            return offset <= held
        return self._base[0].name == current.name and offset == current.journal_offset

    def heal(self) -> Generation:
        """Verify the files of the current generation, and publish a new one where they are damaged."""
        with self._mutex:
            self._lock.check()
            self._close_view()
            self._base = self._find_base()
            return self.publish()

    def finish_merges(self) -> Generation:
        """Publish until no merge is due, so that searches are as fast as possible."""
        with self._mutex:
            generation = self.publish()
            while self._view().wait_for_merge():
                generation = self._publish()
            return generation

    def rebuild(self) -> Rebuild:
        """Make a generation from the journal alone and compare its id-set hash with the one before.

        It is published only if they are the same: else the journal lacks what the current generation has.
        """
        with self._mutex:
            self._lock.check()
            hash_before, current, base = self._view().id_set_hash, self._current(), self._base
            self._close_view()
            self._base = None
            try:
                hash_after = self._view().id_set_hash
                if current is None or hash_after == hash_before:
                    return Rebuild(self._publish(), hash_before, hash_after)
            except BaseException:
                self._close_view()
                self._base = base
                raise
            self._close_view()
            self._base = base
            return Rebuild(current, hash_before, hash_after)

    def has_document(self, document_id: str) -> bool:
        """Whether the journal holds the document, published or not."""
        with self._mutex:
            return self._view().newest(document_id) is not None

    def documents(self, document_ids: Sequence[str]) -> dict[str, DocumentFacts]:
        """The facts of those documents that the journal holds, published or not."""
        with self._mutex:
            found = ((name, self._view().newest(name)) for name in document_ids)
            return {name: newest[1] for name, newest in found if newest is not None}

    def wait_for_collector(self) -> None:
        """Wait until the background collection that the last publish started has ended."""
        self._collector.wait()

    def close(self) -> None:
        """Release the corpus for another writer. Appended records are in the journal; they need not be published."""
        self.wait_for_collector()
        with self._mutex:
            self._close_view()
            self._threads.shutdown()
            self._journal.close()
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _unrecorded(self, batch: ChunkBatch, vectors: Vectors, fingerprint: str) -> tuple[int, list[Record]]:
        """The versions to record, and the journal offset that covers the rest of the batch."""
        records: list[Record] = []
        covered, row = 0, 0
        taken: set[str] = set()
        for document in batch.documents:
            rows = slice(row, row := row + len(document.chunks))
            newest = self._view().newest(document.document_id)
            if document.document_id not in taken and newest and is_recorded(newest[1], make_facts(document)):
                covered = max(covered, newest[0])
            else:
                taken.add(document.document_id)
                records.append(Upsert.of(document, vectors[rows], fingerprint))
        return covered, records

    def _record(self, records: Sequence[Record]) -> int:
        """Append to the journal and, while the disk flushes that, to the working set. Returns the last offset."""
        with self._view_to_change() as view:
            first = self._journal.last_offset + 1

            def apply() -> None:
                for offset, record in enumerate(records, start=first):
                    view.apply(offset, record)

            return self._journal.append([encode_record(record) for record in records], apply)

    def _publish(self) -> Generation:
        with self._view_to_change() as view:
            number = max((parse_generation_number(name) for name in list_generation_names(self._layout)), default=0) + 1
            view.seal(number)
            name, manifest = publish(
                self._layout,
                view.sources(),
                view.durable_files,
                lambda entries: self._describe(view, number, entries),
                lambda folder, manifest: self_test(folder, manifest, view.unchanged_segments()),
                self._lock.check,
                self._threads,
            )
            self._layout.held.unlink(missing_ok=True)
            view.remember(manifest)
            self._base = (self._layout.generations / name, manifest)
            self._collector.start(view.offset, view.live_offsets(), view.model)
        return describe_generation(name, manifest)

    def _describe(self, view: WorkingSet, number: int, entries: dict[str, FileEntry]) -> Manifest:
        return Manifest(
            number=number,
            corpus=self._layout.corpus,
            epoch=self._lock.epoch,
            created_at=self._clock(),
            journal_offset=view.offset,
            document_count=view.document_count,
            chunk_count=view.chunk_count,
            next_chunk_number=view.next_number,
            id_set_hash=view.id_set_hash,
            model_fingerprint=view.model[0] if view.model else None,
            dimension=view.model[1] if view.model else None,
            library_versions=library_versions(),
            segments=view.segment_entries(),
            files=entries,
        )

    def _current(self) -> Generation | None:
        """The generation that the pointer names, as its manifest describes it."""
        name = read_current_name(self._layout)
        if name is None:
            return None
        if self._base and self._base[0].name == name:
            return describe_generation(name, self._base[1])
        try:
            return describe_generation(name, load_manifest(self._layout.generations / name))
        except (Corrupted, NotFound):
            return None

    @contextlib.contextmanager
    def _view_to_change(self) -> Iterator[WorkingSet]:
        """The working set, to be changed. When the block fails, it is discarded and made again at its next use."""
        view = self._view()
        try:
            yield view
        except BaseException as error:
            self._close_view()
            if isinstance(error, OSError):
                raise Unavailable(f"corpus {self._layout.corpus} cannot be written: {error}") from error
            raise

    def _view(self) -> WorkingSet:
        if self._open_view is None:
            try:
                self._open_view = self._make_view()
            except OSError as error:
                raise Unavailable(f"corpus {self._layout.corpus} cannot be written: {error}") from error
        return self._open_view

    def _make_view(self) -> WorkingSet:
        """The base generation, and all records of the journal after it."""
        view = WorkingSet(self._layout, self._policy, self._segment_names, self._base, self._threads)
        for frame in read_journal(self._layout.journal, view.offset):
            view.apply(frame.offset, decode_record(frame.kind, frame.payload))
        view.model = view.model or read_pinned_model(self._layout.journal)
        return view

    def _find_base(self) -> tuple[Path, Manifest] | None:
        """The newest intact generation to start from."""
        return find_base(self._layout, self._journal.last_offset, self._on_fallback)

    def _point_to_base(self) -> None:
        """Restore a missing pointer: the writer of the base was killed before it made one, or it was removed."""
        if self._base is not None and not os.path.lexists(self._layout.current):
            replace_pointer(self._layout.current, f"generations/{self._base[0].name}")

    def _close_view(self) -> None:
        view, self._open_view = self._open_view, None
        if view is not None:
            view.close()
