"""The writer's working set of a corpus: the segments of the last generation, and the records after it.

It is disposable: made of hard links to a generation's files, brought up to date from the journal, and discarded after
any error. `seal` turns it into the files of the next generation.

Small segments are merged while sealing, large ones in the background, which also flushes and hashes the new file. The
merged segment replaces its sources at a later seal; documents that were removed meanwhile are marked as dead in it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sluice.contracts.document import DocumentFacts
from sluice.disk.durable import link_or_copy
from sluice.index.folder import CorpusLayout
from sluice.index.generations.manifest import FileEntry, IdSet, Manifest, SegmentEntry
from sluice.index.generations.publish import Sources, flush_file
from sluice.index.generations.view import read_dead
from sluice.index.journal.journal import SEGMENT_BYTES
from sluice.index.journal.records import Record, Removal, Upsert, document_key
from sluice.index.segments.merge_policy import select_merge
from sluice.index.segments.segment_file import (
    SUFFIX,
    SegmentDocument,
    StoredSegment,
    build_content,
    join_contents,
    write_segment,
)
from sluice.index.settings import IndexSettings
from sluice.index.terms.tantivy_index import TermWriter, list_committed_files, write_meta
from sluice.index.terms.terms import prepare_document


@dataclass(frozen=True, slots=True)
class WritePolicy:
    """Thresholds for writing and merging segments. The product uses constants; tests choose others."""

    keep_generations: int = IndexSettings().keep_generations
    """Generations kept for rollback; a generation that a reader has pinned is kept beyond this number."""
    merge_factor: int = 4
    """Neighbouring segments of about one size that become one: each chunk is written again once for each power of
    this number, some seven times until there are a million, and each segment costs a query about 20 µs."""
    max_segments: int = 24
    """Segments above which neighbours are merged whatever their size."""
    background_merge_chunks: int = 5_000
    """Merges of more chunks than this run in a background thread, and publishing does not wait for them: five thousand
    take about 50 ms."""
    flush_chunks: int = 50_000
    """Chunks held in memory before they become a segment; at 384 dimensions 77 MB of vectors, besides the texts."""
    journal_segment_bytes: int = SEGMENT_BYTES
    """Size at which the journal starts a new segment."""


USUAL_POLICY = WritePolicy()


class WorkingSet:
    """The corpus as of the journal offset `offset`. Not safe for threads: the writer that owns it locks.

    `base` is the generation to start from (its folder and manifest), None to start from nothing. `names` yields names
    for new segments, which no other segment of the corpus ever had. Work that mostly waits for the disk runs in
    `threads`.
    """

    def __init__(
        self,
        layout: CorpusLayout,
        policy: WritePolicy,
        names: Iterator[str],
        base: tuple[Path, Manifest] | None,
        threads: Executor,
    ) -> None:
        self._policy = policy
        self._names = names
        self._threads = threads
        self._folder = layout.working
        self._segments_folder = layout.working / "segments"
        shutil.rmtree(layout.working, ignore_errors=True)
        self._segments_folder.mkdir(parents=True)
        self._segments: list[WorkingSetSegment] = []
        self._pending: dict[int, SegmentDocument] = {}
        self._pending_chunks = 0
        self._merge: SegmentMerge | None = None
        self.offset = 0
        self.document_count = 0
        self.chunk_count = 0
        self.next_number = 0
        self.model: tuple[str, int] | None = None
        self._ids = IdSet()
        self.carried: dict[str, FileEntry] = {}
        self._being_flushed: dict[str, Future[FileEntry]] = {}
        """Segments that are flushed and hashed in the background, by file name."""
        if base is not None:
            self._start_from(*base)
        self._terms = TermWriter(layout.working / "terms")

    @property
    def id_set_hash(self) -> str:
        """Hash of the set of all (document, chunk) ids."""
        return self._ids.hexadecimal

    def newest(self, document_id: str) -> tuple[int, DocumentFacts] | None:
        """Return the journal offset and the facts of the document's live version; None where there is none."""
        key = document_key(document_id)
        if key in self._pending:
            pending = self._pending[key]
            return pending.journal_offset, DocumentFacts.model_validate_json(pending.record)
        place = self._place(key)
        if place is not None:
            owner, document = place
            return int(owner.segment.documents["journal_offset"][document]), owner.segment.facts(document)
        return None

    def all_facts(self) -> Iterator[DocumentFacts]:
        """Yield the facts of every live document."""
        for owner in self._segments:
            for document in range(owner.segment.document_count):
                if document not in owner.dead:
                    yield owner.segment.facts(document)
        for pending in self._pending.values():
            yield DocumentFacts.model_validate_json(pending.record)

    def drop_dead(self) -> None:
        """Rewrite every segment that has dead documents without them. `seal` must be called after this."""
        if self._merge is not None:
            self._use_background_merge(self._merge)
        for owner in [owner for owner in self._segments if owner.dead and owner.live_documents]:
            merge = SegmentMerge(self._segments_folder, next(self._names), [owner])
            merge.run()
            self._replace(merge)
        self._segments = [owner for owner in self._segments if owner.live_documents]
        kept = {f"{owner.segment.name}.{SUFFIX}" for owner in self._segments}
        for path in self._segments_folder.iterdir():
            if path.name not in kept:
                path.unlink()

    def apply(self, offset: int, record: Record) -> None:
        """Apply one journal record: a version replaces the document's previous version."""
        match record:
            case Removal(document_id):
                self._forget(document_key(document_id))
            case Upsert(document, vectors, fingerprint):
                self._forget(document_key(document.document_id))
                if len(vectors):
                    self.model = self.model or (fingerprint, vectors.shape[1])
                self._add_version(offset, record)
        self.offset = offset

    def seal(self, generation_number: int) -> None:
        """Write everything to files: flush, drop or merge segments, list dead documents, and commit the terms."""
        commit = self._threads.submit(self._terms.commit)
        try:
            self._flush()
            self._merge_segments()
            for owner in self._segments:
                self._list_dead(owner, generation_number)
        finally:
            wait([commit])
        commit.result()

    def sources(self) -> Sources:
        """Return the files that the next generation links; call after `seal`."""
        links = {}
        segments, staged = os.fspath(self._segments_folder), os.fspath(self._folder / "staged")
        for owner in self._segments:
            files = [f"{owner.segment.name}.{SUFFIX}"]
            files += [owner.dead_file] if owner.dead_file else []
            links.update({f"segments/{name}": f"{segments}/{name}" for name in files})
        meta, names = self._stage_terms()
        links.update({f"terms/{name}": f"{staged}/{name}" for name in names})
        return Sources(links, {"terms/meta.json": meta})

    def segment_entries(self) -> tuple[SegmentEntry, ...]:
        """Return the segments as entries of the manifest."""
        return tuple(
            SegmentEntry(
                name=owner.segment.name,
                document_count=len(owner.segment.documents),
                chunk_count=len(owner.segment.numbers),
                dead_file=owner.dead_file,
                dead_document_count=len(owner.dead),
            )
            for owner in self._segments
        )

    @property
    def durable_files(self) -> dict[str, FileEntry]:
        """Entries of the flushed and hashed files: an earlier generation's, and large segments. Waits for the last."""
        return self.carried | {name: entry.result() for name, entry in self._being_flushed.items()}

    def live_offsets(self) -> NDArray[np.uint64]:
        """Return the journal offsets of the live versions in segments, in no order: uint64."""
        offsets = []
        for owner in self._segments:
            alive = np.ones(owner.segment.document_count, dtype=np.bool_)
            alive[sorted(owner.dead)] = False
            offsets.append(owner.segment.documents["journal_offset"][alive])
        return np.concatenate(offsets) if offsets else np.empty(0, dtype=np.uint64)

    def unchanged_segments(self) -> dict[str, StoredSegment]:
        """Return the open segments, by name, that an earlier generation already holds."""
        return {
            owner.segment.name: owner.segment
            for owner in self._segments
            if f"segments/{owner.segment.name}.{SUFFIX}" in self.carried
        }

    def remember(self, manifest: Manifest) -> None:
        """Note that the files of `manifest` are flushed and hashed: the next generation links those that never change.

        Tantivy rewrites its meta file.
        """
        self.carried = {name: entry for name, entry in manifest.files.items() if name != "terms/meta.json"}
        self._being_flushed = {}

    def wait_for_merge(self) -> bool:
        """Wait for the background merge, and return whether there was one. The next `seal` uses its result."""
        if self._merge is None or self._merge.entry is None:
            return False
        wait([self._merge.entry])
        return True

    def close(self) -> None:
        """Wait for background work, and close the term index."""
        wait(self._being_flushed.values())
        self.wait_for_merge()
        self._terms.close()

    def _start_from(self, folder: Path, manifest: Manifest) -> None:
        terms_folder = self._folder / "terms"
        terms_folder.mkdir()
        for name in manifest.files:
            if name != "terms/meta.json":
                link_or_copy(folder / name, self._folder / name)
        term_files = [Path(name).name for name in manifest.files if name.startswith("terms/")]
        meta = (folder / "terms" / "meta.json").read_bytes()
        write_meta(terms_folder, meta, [name for name in term_files if name != "meta.json"])
        for entry in manifest.segments:
            segment = StoredSegment(self._segments_folder, entry.name)
            self._segments.append(WorkingSetSegment(segment, set(read_dead(self._folder, entry)), entry.dead_file))
        self.offset = manifest.journal_offset
        self.document_count, self.chunk_count = manifest.document_count, manifest.chunk_count
        self.next_number = manifest.next_chunk_number
        if manifest.model_fingerprint is not None and manifest.dimension is not None:
            self.model = (manifest.model_fingerprint, manifest.dimension)
        self._ids = IdSet(manifest.id_set_hash)
        self.remember(manifest)

    def _add_version(self, offset: int, version: Upsert) -> None:
        entry, terms = prepare_document(offset, version, self.next_number)
        self._pending[entry.key] = entry
        self._terms.add(entry.key, entry.numbers, terms)
        self._ids.add(entry.key, entry.chunk_ids)
        self.next_number += len(entry.numbers)
        self.document_count += 1
        self.chunk_count += len(entry.numbers)
        self._pending_chunks += len(entry.numbers)
        if self._pending_chunks >= self._policy.flush_chunks:
            self._flush()

    def _forget(self, key: int) -> None:
        if key in self._pending:
            chunk_ids = self._pending.pop(key).chunk_ids
            self._pending_chunks -= len(chunk_ids)
        else:
            place = self._place(key)
            if place is None:
                return
            owner, document = place
            owner.dead.add(document)
            owner.dead_file = None
            chunk_ids = [owner.segment.chunk_id(row) for row in owner.segment.rows_of(document)]
        self._terms.remove(key)
        self._ids.remove(key, chunk_ids)
        self.document_count -= 1
        self.chunk_count -= len(chunk_ids)

    def _place(self, key: int) -> tuple[WorkingSetSegment, int] | None:
        """Return the segment and position of the live version under `key`; None where no segment has one."""
        for owner in reversed(self._segments):
            for document in owner.segment.find_document(key):
                if document not in owner.dead:
                    return owner, document
        return None

    def _flush(self) -> None:
        """Write the pending documents to a segment."""
        if not self._pending:
            return
        name = next(self._names)
        content = build_content(list(self._pending.values()), self.model[1] if self.model else 1)
        write_segment(self._segments_folder, name, content)
        if self._pending_chunks > self._policy.background_merge_chunks:
            path = self._segments_folder / f"{name}.{SUFFIX}"
            self._being_flushed[f"segments/{path.name}"] = self._threads.submit(flush_file, path)
        self._segments.append(WorkingSetSegment(StoredSegment(self._segments_folder, name)))
        self._pending, self._pending_chunks = {}, 0

    def _merge_segments(self) -> None:
        """Use a finished background merge, then start the due merges; small ones finish here."""
        if self._merge is not None and self._merge.entry is not None and self._merge.entry.done():
            self._use_background_merge(self._merge)
        while self._merge is None:
            self._segments = [owner for owner in self._segments if owner.live_documents]
            due = self._select_merge()
            if due is None:
                return
            merge = SegmentMerge(self._segments_folder, next(self._names), self._segments[due.start : due.stop])
            if merge.chunk_count > self._policy.background_merge_chunks:
                self._merge = merge
                merge.start(self._threads)
            else:
                merge.run()
                self._replace(merge)

    def _select_merge(self) -> range | None:
        live = [owner.live_chunks for owner in self._segments]
        dead = [len(owner.dead) / owner.segment.document_count for owner in self._segments]
        return select_merge(live, dead, self._policy.merge_factor, self._policy.max_segments)

    def _use_background_merge(self, merge: SegmentMerge) -> None:
        """Wait for the merge and use it. Raises the error of a failed merge."""
        self._merge = None
        if merge.entry is not None:
            merge.entry.result()
            self._being_flushed[f"segments/{merge.name}.{SUFFIX}"] = merge.entry
        self._replace(merge)

    def _replace(self, merge: SegmentMerge) -> None:
        """Put the merged segment in the place of its sources."""
        merged = WorkingSetSegment(StoredSegment(self._segments_folder, merge.name))
        for source, dead_before in zip(merge.sources, merge.dead_before, strict=True):
            for document in source.dead - dead_before:
                merged.dead.update(merged.segment.find_document(source.segment.key_of(document)))
        first = self._segments.index(merge.sources[0])
        self._segments[first : first + len(merge.sources)] = [merged]

    def _list_dead(self, owner: WorkingSetSegment, generation_number: int) -> None:
        if owner.dead and owner.dead_file is None:
            owner.dead_file = f"{owner.segment.name}.{generation_number:08d}.dead"
            with (self._segments_folder / owner.dead_file).open("xb") as file:
                np.save(file, np.array(sorted(owner.dead), dtype=np.uint32), allow_pickle=False)

    def _stage_terms(self) -> tuple[bytes, list[str]]:
        """Link the committed term files to a folder of its own, as a background merge may remove them."""
        terms, staged = os.fspath(self._folder / "terms"), os.fspath(self._folder / "staged")
        os.makedirs(staged, exist_ok=True)
        while True:
            meta, names = list_committed_files(self._folder / "terms")
            present = set(os.listdir(staged))
            try:
                for name in set(names) - present:
                    link_or_copy(f"{terms}/{name}", f"{staged}/{name}")
            except FileNotFoundError:
                continue
            for name in present - set(names):
                os.unlink(f"{staged}/{name}")
            return meta, names


@dataclass(slots=True, eq=False)
class WorkingSetSegment:
    """A segment, its dead documents, and the file that lists them (None until it is written)."""

    segment: StoredSegment
    dead: set[int] = field(default_factory=set)
    dead_file: str | None = None

    @property
    def live_documents(self) -> int:
        """Number of live documents."""
        return self.segment.document_count - len(self.dead)

    @property
    def live_chunks(self) -> int:
        """Number of live chunks."""
        return len(self.segment.numbers) - sum(len(self.segment.rows_of(document)) for document in self.dead)


class SegmentMerge:
    """A merge of neighbouring segments into one, without the documents that were dead when it began.

    It may run in the background while documents of its sources are removed: the user of its result marks those as dead
    in the merged segment (`sources`, `dead_before`).
    """

    def __init__(self, folder: Path, name: str, sources: Sequence[WorkingSetSegment]) -> None:
        self.name = name
        self.sources = list(sources)
        self.dead_before = [frozenset(owner.dead) for owner in sources]
        self.chunk_count = sum(owner.live_chunks for owner in sources)
        self.entry: Future[FileEntry] | None = None
        """Entry of the new file, once it is flushed and hashed in the background; None where publishing does that."""
        self._folder = folder

    def run(self) -> Path:
        """Write the merged segment, and return its path."""
        pairs = zip(self.sources, self.dead_before, strict=True)
        write_segment(self._folder, self.name, join_contents([owner.segment.content(dead) for owner, dead in pairs]))
        return self._folder / f"{self.name}.{SUFFIX}"

    def start(self, threads: Executor) -> None:
        """Merge in the background."""
        self.entry = threads.submit(lambda: flush_file(self.run()))
