"""The writer's own view of a corpus: the segments of the last generation, and what came since.

It is disposable: made of hard links to a generation's files, brought up to date from the journal, and
thrown away when anything goes wrong. `seal` turns it into the files of the next generation.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from contracts.document import ChunkedDocument
from index.durable import link_or_copy
from index.facts import DocumentFacts, document_key
from index.generation import read_dead
from index.intake import take_in
from index.layout import CorpusLayout
from index.manifest import FileEntry, IdSet, Manifest, SegmentEntry
from index.records import Record, Removal, Upsert, Vectors
from index.settings import IndexSettings
from index.snapshot import Sources
from index.terms import TermWriter, committed_files, write_meta
from index.vectors import SUFFIXES, Segment, SegmentDocument, write_segment

_MOST_DEAD_SHARE = 0.5
"""Dead documents' share above which a segment is rewritten without them."""


@dataclass(slots=True, eq=False)
class WorkingSegment:
    """A segment, the documents in it that are dead by now, and the file that lists them."""

    segment: Segment
    dead: set[int] = field(default_factory=set)
    dead_file: str | None = None

    @property
    def live_documents(self) -> int:
        """How many documents of the segment are alive."""
        return len(self.segment.documents) - len(self.dead)


class WorkingView:
    """The corpus as of `offset`. Not safe for threads: the writer that owns it locks.

    `base` is the generation to start from (its folder and manifest), None to start from nothing.
    `names` gives new segments names that no other segment of the corpus ever had.
    """

    def __init__(
        self,
        layout: CorpusLayout,
        settings: IndexSettings,
        names: Iterator[str],
        base: tuple[Path, Manifest] | None,
    ) -> None:
        self._settings = settings
        self._names = names
        self._folder = layout.working
        self._segments_folder = layout.working / "segments"
        shutil.rmtree(layout.working, ignore_errors=True)
        self._segments_folder.mkdir(parents=True)
        self._segments: list[WorkingSegment] = []
        self._pending: dict[int, SegmentDocument] = {}
        self._pending_chunks = 0
        self._places: dict[int, tuple[WorkingSegment, int]] = {}
        self.offset = 0
        self.document_count = 0
        self.chunk_count = 0
        self.next_number = 0
        self.model: tuple[str, int] | None = None
        self._ids = IdSet()
        self.carried: dict[str, FileEntry] = {}
        if base is not None:
            self._start_from(*base)
        self._terms = TermWriter(layout.working / "terms", settings.term_heap_bytes)

    @property
    def id_set_hash(self) -> str:
        """The hash of the set of all (document, chunk) ids."""
        return self._ids.hexadecimal

    def newest(self, document_id: str) -> tuple[int, DocumentFacts] | None:
        """The journal offset and the facts of the version held now, or None when there is none."""
        key = document_key(document_id)
        if key in self._pending:
            pending = self._pending[key]
            return pending.journal_offset, DocumentFacts.model_validate_json(pending.record)
        if key in self._places:
            owner, document = self._places[key]
            return int(owner.segment.documents["journal_offset"][document]), owner.segment.facts(document)
        return None

    def apply(self, offset: int, record: Record) -> None:
        """Take in one journal record: a version replaces all that its document had before."""
        match record:
            case Removal(document_id):
                self._forget(document_key(document_id))
            case Upsert(document, vectors, fingerprint):
                self._forget(document_key(document.document_id))
                if len(vectors):
                    self.model = self.model or (fingerprint, vectors.shape[1])
                self._take_in(offset, document, vectors)
        self.offset = offset

    def seal(self, generation_number: int) -> None:
        """Make all of it findable in files: flush, drop or merge segments, list the dead, commit the terms."""
        self._flush()
        self._merge()
        for owner in self._segments:
            self._list_dead(owner, generation_number)
        self._terms.commit()

    def sources(self) -> Sources:
        """The files that the next generation links; call after `seal`."""
        links = {}
        for owner in self._segments:
            files = [f"{owner.segment.name}.{suffix}" for suffix in SUFFIXES]
            files += [owner.dead_file] if owner.dead_file else []
            links.update({f"segments/{name}": self._segments_folder / name for name in files})
        meta, names = self._stage_terms()
        links.update({f"terms/{name}": self._folder / "staged" / name for name in names})
        return Sources(links, {"terms/meta.json": meta})

    def segment_entries(self) -> tuple[SegmentEntry, ...]:
        """The segments as the manifest lists them."""
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

    def unchanged_segments(self) -> dict[str, Segment]:
        """The open segments, by name, that an earlier generation holds already."""
        carried = {Path(name).stem for name in self.carried}
        return {owner.segment.name: owner.segment for owner in self._segments if owner.segment.name in carried}

    def remember(self, manifest: Manifest) -> None:
        """The files of `manifest` are durable and hashed: the next generation carries them over."""
        self.carried = _carryable(manifest)

    def close(self) -> None:
        """Let background merges end."""
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
            owner = WorkingSegment(
                Segment(self._segments_folder, entry.name), set(read_dead(self._folder, entry)), entry.dead_file
            )
            self._segments.append(owner)
            self._index_places(owner)
        self.offset = manifest.journal_offset
        self.document_count, self.chunk_count = manifest.document_count, manifest.chunk_count
        self.next_number = manifest.next_chunk_number
        if manifest.model_fingerprint is not None and manifest.dimension is not None:
            self.model = (manifest.model_fingerprint, manifest.dimension)
        self._ids = IdSet(manifest.id_set_hash)
        self.remember(manifest)

    def _take_in(self, offset: int, document: ChunkedDocument, vectors: Vectors) -> None:
        entry, terms = take_in(offset, document, vectors, self.next_number)
        self._pending[entry.key] = entry
        self._terms.add(terms)
        self._ids.add(entry.key, entry.chunk_ids)
        self.next_number += len(entry.numbers)
        self.document_count += 1
        self.chunk_count += len(entry.numbers)
        self._pending_chunks += len(entry.numbers)
        if self._pending_chunks >= self._settings.flush_chunks:
            self._flush()

    def _forget(self, key: int) -> None:
        if key in self._pending:
            chunk_ids = self._pending.pop(key).chunk_ids
            self._pending_chunks -= len(chunk_ids)
        elif key in self._places:
            owner, document = self._places.pop(key)
            owner.dead.add(document)
            owner.dead_file = None
            chunk_ids = [owner.segment.chunk_id(row) for row in owner.segment.rows_of(document)]
        else:
            return
        self._terms.remove(key)
        self._ids.remove(key, chunk_ids)
        self.document_count -= 1
        self.chunk_count -= len(chunk_ids)

    def _flush(self) -> None:
        """Turn what is pending into a segment."""
        if not self._pending:
            return
        self._segments.append(self._new_segment(list(self._pending.values())))
        self._pending, self._pending_chunks = {}, 0

    def _merge(self) -> None:
        """Drop segments that died out, rewrite those mostly dead, and join neighbours while there are too many."""
        self._segments = [owner for owner in self._segments if owner.live_documents]
        for position, owner in enumerate(self._segments):
            if len(owner.dead) > _MOST_DEAD_SHARE * len(owner.segment.documents):
                self._segments[position] = self._new_segment(list(_living(owner)))
        while len(self._segments) > self._settings.max_segments:
            sizes = [len(owner.segment.numbers) for owner in self._segments]
            left = min(range(len(sizes) - 1), key=lambda position: sizes[position] + sizes[position + 1])
            pair = self._segments[left : left + 2]
            self._segments[left : left + 2] = [self._new_segment([*_living(pair[0]), *_living(pair[1])])]

    def _new_segment(self, documents: list[SegmentDocument]) -> WorkingSegment:
        name = next(self._names)
        write_segment(self._segments_folder, name, documents, self.model[1] if self.model else 1)
        owner = WorkingSegment(Segment(self._segments_folder, name))
        self._index_places(owner)
        return owner

    def _index_places(self, owner: WorkingSegment) -> None:
        for document, key in enumerate(owner.segment.keys()):
            if document not in owner.dead:
                self._places[key] = (owner, document)

    def _list_dead(self, owner: WorkingSegment, generation_number: int) -> None:
        if owner.dead and owner.dead_file is None:
            owner.dead_file = f"{owner.segment.name}.{generation_number:08d}.dead"
            with (self._segments_folder / owner.dead_file).open("xb") as file:
                np.save(file, np.array(sorted(owner.dead), dtype=np.uint32), allow_pickle=False)

    def _stage_terms(self) -> tuple[bytes, list[str]]:
        """Hold on to the committed term files by links of our own, as a background merge may remove them."""
        staged = self._folder / "staged"
        staged.mkdir(exist_ok=True)
        while True:
            meta, names = committed_files(self._folder / "terms")
            present = set(os.listdir(staged))
            try:
                for name in set(names) - present:
                    link_or_copy(self._folder / "terms" / name, staged / name)
            except FileNotFoundError:
                continue
            for name in present - set(names):
                (staged / name).unlink()
            return meta, names


def _living(owner: WorkingSegment) -> Iterator[SegmentDocument]:
    return (
        owner.segment.take_document(document)
        for document in range(len(owner.segment.documents))
        if document not in owner.dead
    )


def _carryable(manifest: Manifest) -> dict[str, FileEntry]:
    """Every file whose name stands for its content for ever; Tantivy's meta file is rewritten."""
    return {name: entry for name, entry in manifest.files.items() if name != "terms/meta.json"}
