"""The one writer of a corpus: it writes the journal first, then the working set that becomes the next generation.

    writer = IndexWriter(root, "default")
    offset = writer.append(batch, vectors, fingerprint)   # durable when it returns
    generation = writer.publish()                         # searchable when it returns

Opening brings the working set up to date from the journal, so no appended record is lost. After any error the working
set is discarded and made again from the last generation and the journal; the current generation keeps serving.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sluice.contracts.document import DocumentFacts
from sluice.contracts.errors import Corrupted, NotFound, Unavailable
from sluice.disk.durable import FLUSHING_THREADS, replace_pointer
from sluice.index.folder import CorpusLayout
from sluice.index.generations.corpus_writer import CorpusWriter, Recorded, utc_now
from sluice.index.generations.manifest import (
    Coverage,
    FileEntry,
    Manifest,
    library_versions,
    load_manifest,
    parse_generation_number,
)
from sluice.index.generations.publish import (
    Rebuild,
    VerifiedFiles,
    collect,
    drop_others,
    list_candidates,
    list_generation_names,
    list_generations,
    publish,
    read_current_name,
    read_rollback_offset,
    sweep,
    verify_files,
)
from sluice.index.generations.view import OpenGeneration, View
from sluice.index.journal.files import compact, read_journal, read_pinned_model
from sluice.index.journal.records import Record, decode_record, encode_record
from sluice.index.local.working_set import USUAL_POLICY, WorkingSet, WritePolicy
from sluice.index.segments.segment_file import StoredSegment
from sluice.index.terms.analysis import analyse
from sluice.index.terms.terms import Boosts

_PLAIN = Boosts(title=0.0, headings=0.0, code=0.0, max_terms=1_000)
"""Boosts that search all terms of a text: in a corpus of many languages, its own need not be the rarest."""
_TESTED_WORDS = 12
"""Number of words of a chunk that the self-test searches, if they have a term."""


class IndexWriter(CorpusWriter):
    """Appends to a corpus and publishes its generations. `on_fallback` is called with the problem of a damaged one."""

    def __init__(
        self,
        root: Path,
        corpus: str,
        policy: WritePolicy = USUAL_POLICY,
        clock: Callable[[], datetime] = utc_now,
        on_fallback: Callable[[str], None] = lambda reason: None,
        is_held: Callable[[], bool] = lambda: False,
    ) -> None:
        """`is_held` returns whether old generations and journal records must stay for now."""
        self._policy = policy
        self._is_held = is_held
        self._clock = clock
        self._on_fallback = on_fallback
        self._open_view: WorkingSet | None = None
        self._threads = ThreadPoolExecutor(FLUSHING_THREADS, thread_name_prefix="publish")
        self._collecting: threading.Thread | None = None
        super().__init__(root, corpus, policy.journal_segment_bytes)

    def _begin(self) -> None:
        self._segment_names = (f"s{self._lock.epoch:06d}-{number:06d}" for number in itertools.count(1))
        sweep(self._layout)
        self._base = find_base(self._layout, self._journal.last_offset, self._on_fallback)
        self._point_to_base()
        self._view()

    @property
    def published_offset(self) -> int:
        """The offset that the current generation covers; 0 before the first generation."""
        generation = self._current()
        return generation.journal_offset if generation else 0

    @property
    def model(self) -> tuple[str, int] | None:
        """The model fingerprint and dimension that the corpus is bound to, once it has a vector."""
        with self._mutex:
            return self._view().model

    def erase(self) -> Coverage:
        """Publish a generation, and leave nothing on disk of documents and versions that are not in it.

        Its segments hold no dead document; all older generations are removed, so that no rollback or fallback can reach
        them; the journal keeps only the live versions. Single words may stay in the term index, without a document,
        until Tantivy merges its own segments. After a kill at any point, a later call does it again. Raises
        `Unavailable` when the disk refuses, and `Corrupted` for a damaged journal.
        """
        with self._mutex:
            self._lock.check()
            with self._view_to_change() as view:
                view.drop_dead()
            generation = self._publish()
            live_offsets, model = self._view().live_offsets(), self._view().model
            self._journal.begin_segment()
        self.wait_for_collector()  # without the mutex, which it needs
        with self._mutex:
            self._lock.check()
            with self._disk_may_refuse():
                drop_others(self._layout)
                offset = generation.journal_offset
                compact(self._layout.journal, offset, live_offsets, model, lambda: self._mutex, least_dead_share=0.0)
        return generation

    def publish(self) -> Coverage:
        """Make everything in the journal searchable; return the current generation where nothing is new.

        Raises `Unavailable` when the disk refuses: the old generation keeps serving, and a later call tries again.
        After a rollback the older generation stays until there are new records.
        """
        with self._mutex:
            self._lock.check()
            current = self._current()
            return current if current is not None and self._is_up_to_date(current) else self._publish()

    def _is_up_to_date(self, current: Coverage) -> bool:
        """Return whether all is published: an intact generation has all records, or a rollback leaves them out."""
        offset, held = self._view().offset, read_rollback_offset(self._layout)
        if self._base is None or parse_generation_number(self._base[0].name) < parse_generation_number(current.name):
            return False  # the current generation was found damaged
        if held is not None:
            return offset <= held
        return self._base[0].name == current.name and offset == current.journal_offset

    def heal(self) -> Coverage:
        """Verify the files of the current generation, and publish a new generation where they are damaged."""
        with self._mutex:
            self._lock.check()
            self._close_view()
            self._base = find_base(self._layout, self._journal.last_offset, self._on_fallback)
            return self.publish()

    def finish_merges(self) -> Coverage:
        """Publish until no merge is due, so that searches are as fast as possible."""
        with self._mutex:
            generation = self.publish()
            while self._view().wait_for_merge():
                generation = self._publish()
            return generation

    def rebuild(self) -> Rebuild:
        """Make a generation from the journal alone and compare its id-set hash with the one before.

        It is published only if the hashes are equal: else the journal lacks records of the current generation.
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

    def wait_for_collector(self) -> None:
        """Wait until the background collection that the last publish started has ended."""
        if self._collecting is not None:
            self._collecting.join()

    def close(self) -> None:
        """Release the corpus for another writer. Appended records are in the journal; they need not be published."""
        self.wait_for_collector()
        with self._mutex:
            self._close_view()
            self._threads.shutdown()
            super().close()

    def _recorded(self, document_ids: Iterable[str]) -> Recorded:
        found = ((name, self._view().newest(name)) for name in document_ids)
        return {name: newest for name, newest in found if newest is not None}

    def _all_facts(self) -> Iterator[DocumentFacts]:
        return self._view().all_facts()

    def _record(self, records: Sequence[Record]) -> int:
        """Append to the journal and, while the disk flushes, to the working set. Return the last offset."""
        with self._view_to_change() as view:
            first = self._journal.last_offset + 1

            def apply() -> None:
                for offset, record in enumerate(records, start=first):
                    view.apply(offset, record)

            return self._journal.append([encode_record(record) for record in records], apply)

    def _publish(self) -> Coverage:
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
            self._start_collecting(view)
        return Coverage.of(name, manifest)

    def _start_collecting(self, view: WorkingSet) -> None:
        """Remove old generations and compact the journal in the background, unless a collection runs or must not."""
        if (self._collecting is None or not self._collecting.is_alive()) and not self._is_held():
            known = (view.offset, view.live_offsets(), view.model)
            self._collecting = threading.Thread(target=self._collect, args=known, name="collect", daemon=True)
            self._collecting.start()

    def _collect(self, offset: int, live_offsets: NDArray[np.uint64], model: tuple[str, int] | None) -> None:
        """Collect; `live_offsets` are those at `offset`. Journal files are swapped under the mutex."""
        layout = self._layout
        with contextlib.suppress(OSError):  # a full disk: the next publish tries again
            collect(layout, self._policy.keep_generations)
            covered = [generation.journal_offset for generation in list_generations(layout.root, layout.corpus)]
            try:
                compact(layout.journal, min([offset, *covered]), live_offsets, model, lambda: self._mutex)
            except Corrupted as error:  # the generations are intact; a rebuild would report it again
                self._on_fallback(f"the journal of corpus {layout.corpus} is not compacted: {error}")

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

    def _current(self) -> Coverage | None:
        """Return the generation that the pointer names, as its manifest describes it."""
        name = read_current_name(self._layout)
        if name is None:
            return None
        if self._base and self._base[0].name == name:
            return Coverage.of(name, self._base[1])
        try:
            return Coverage.of(name, load_manifest(self._layout.generations / name))
        except (Corrupted, NotFound):
            return None

    @contextlib.contextmanager
    def _view_to_change(self) -> Iterator[WorkingSet]:
        """Yield the working set for changes. If the block fails, discard it; its next use makes it again."""
        view = self._view()
        try:
            with self._disk_may_refuse():
                yield view
        except BaseException:
            self._close_view()
            raise

    @contextlib.contextmanager
    def _disk_may_refuse(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise Unavailable(f"corpus {self._layout.corpus} cannot be written: {error}") from error

    def _view(self) -> WorkingSet:
        if self._open_view is None:
            with self._disk_may_refuse():
                self._open_view = self._make_view()
        return self._open_view

    def _make_view(self) -> WorkingSet:
        """Return the working set: the base generation, and all records of the journal after it."""
        view = WorkingSet(self._layout, self._policy, self._segment_names, self._base, self._threads)
        for frame in read_journal(self._layout.journal, view.offset):
            view.apply(frame.offset, decode_record(frame.kind, frame.payload))
        view.offset = max(view.offset, self._journal.last_offset)  # a compaction drops records also at its end
        view.model = view.model or read_pinned_model(self._layout.journal)
        return view

    def _point_to_base(self) -> None:
        """Restore a missing pointer: it was removed, or the writer of the base was killed before making it."""
        if self._base is not None and not os.path.lexists(self._layout.current):
            replace_pointer(self._layout.current, f"generations/{self._base[0].name}")

    def _close_view(self) -> None:
        view, self._open_view = self._open_view, None
        if view is not None:
            view.close()


def find_base(
    layout: CorpusLayout, journal_offset: int, on_fallback: Callable[[str], None]
) -> tuple[Path, Manifest] | None:
    """Find the newest candidate that is intact; None where there is none, and the journal must be read from its start.

    `on_fallback` is called with the problem of each damaged candidate. Raises `Corrupted` when the journal, which ends
    at `journal_offset`, lacks records that a generation holds.
    """
    for name in list_candidates(layout):
        folder = layout.generations / name
        try:
            manifest = load_manifest(folder)
            verify_files(folder, manifest, VerifiedFiles())
        except (Corrupted, NotFound) as error:
            on_fallback(str(error))
            continue
        if manifest.journal_offset > journal_offset:
            raise Corrupted(
                f"the journal of {layout.corpus} ends at {journal_offset}, yet {name} covers "
                f"{manifest.journal_offset}: restore the journal from a backup"
            )
        return folder, manifest
    return None


def self_test(folder: Path, manifest: Manifest, unchanged: dict[str, StoredSegment]) -> None:
    """Compare a new generation's counts, and find its newest chunk by vector and text; else raise `Corrupted`."""
    generation = OpenGeneration(folder, manifest, unchanged)
    try:
        live_rows = sum(len(part.live_rows) for part in generation.parts)
        counts = (live_rows, generation.terms.chunk_count, manifest.chunk_count)
        if len(set(counts)) != 1:
            raise Corrupted("vectors {}, texts {} and chunks {} of the new generation differ".format(*counts))
        if manifest.chunk_count:
            _find_newest(generation)
    finally:
        generation.close()


def _find_newest(generation: View) -> None:
    part = next(part for part in reversed(generation.parts) if len(part.live_rows))
    row = int(part.live_rows[-1])
    number, vector = int(part.segment.numbers[row]), part.segment.vectors_of(np.array([row]))[0]
    _, chunk = generation.read(number)
    own_score = float(vector @ vector)
    nearest = generation.nearest(vector, 1, generation.live_masks()).scores
    if not len(nearest) or nearest[0] < own_score - 1e-4:
        raise Corrupted(f"chunk {chunk.chunk_id} of the new generation is not found by its own vector")
    beginning = " ".join(chunk.text.split()[:_TESTED_WORDS])
    text = beginning if analyse(beginning) else chunk.text
    if analyse(text) and not generation.terms.search(text, _PLAIN, 1, only=[number]):
        raise Corrupted(f"chunk {chunk.chunk_id} of the new generation is not found by its own text")
