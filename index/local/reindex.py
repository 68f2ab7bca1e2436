"""Reindexing: gives a corpus the vectors of another model. A copy is built beside it while it serves, then swapped in.

1. *Build.* The live documents are read from the journal, embedded again and appended to the build alias
   (`index.local.build_alias`). Records that arrive meanwhile follow in further rounds, each shorter than the last.
2. *Take over.* Once little is left, the corpus's writer must close (`index.folder`). The rest is
   appended, and the build alias publishes a generation that covers everything.
3. *Swap.* The two folders swap names in one step (`disk.durable.swap`): readers follow the pointer into the new one,
   writers open the new one, and the old one is removed or kept.

After a kill at any moment, the old corpus or the new one serves, each complete. The next call continues with the build
alias: documents that it holds are not embedded again. The ids, texts and facts of documents do not change. Records that
a rollback leaves out are in the journal, and so in the new corpus.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sluice.contracts.document import ChunkBatch, ChunkedDocument
from sluice.contracts.errors import Conflict, Corrupted, NotFound, Unavailable
from sluice.disk.durable import require_swap, swap
from sluice.index.folder import CorpusLayout, WriterLock, take_over
from sluice.index.generations.manifest import Coverage
from sluice.index.journal.files import OPEN_END, Frame, list_files, read_journal, read_pinned_model
from sluice.index.journal.journal import Journal, read_last_offset
from sluice.index.journal.records import Upsert, Vectors, decode_record
from sluice.index.local.build_alias import BuildAlias, open_build_alias
from sluice.index.local.working_set import WritePolicy
from sluice.index.local.writer import IndexWriter

Embed = Callable[[Sequence[str]], Vectors]
"""Maps texts to float32 (texts, dimension), each row of length 1."""

_BATCH_CHUNKS = 128
"""Number of chunks embedded at a time: enough to sort them by length; a kill loses some seconds of work at most."""
_PUBLISH_CHUNKS = 20_000
"""Chunks between two generations of the build alias; after a kill only the rest is read again."""
_FEW_CHUNKS = 64
"""Chunks that may be embedded while writers wait: about two seconds on one core."""
_MOST_ROUNDS = 50
"""Largest number of rounds: documents may arrive faster than they can be embedded."""


@dataclass(frozen=True, slots=True)
class Reindexed:
    """Result of a call that embedded `embedded` chunks; `kept` is the folder of the old corpus, if it was kept."""

    model_before: str | None
    model: str
    generation: Coverage | None
    embedded: int
    kept: Path | None

    @property
    def is_changed(self) -> bool:
        """Whether the corpus had another model before."""
        return self.model_before != self.model


@dataclass(frozen=True, slots=True)
class Plan:
    """Options of a reindexing. `on_progress` gets chunks done and in all; `check_cancelled` raises to end the work."""

    policy: WritePolicy
    patience_seconds: float = 60.0
    """Longest time that the corpus's writer may take to close."""
    keeps_old: bool = False
    on_progress: Callable[[int, int], None] = lambda done, total: None
    check_cancelled: Callable[[], None] = lambda: None


def reindex(root: Path, corpus: str, model: tuple[str, int], embed: Embed, plan: Plan) -> Reindexed:
    """Give every chunk of the corpus a vector of `model` (fingerprint, dimension), which `embed` makes.

    Raises `NotFound` for an unknown corpus, `Conflict` while another process reindexes it, `InvalidInput` where the
    file system cannot swap folders, `TimedOut` when the corpus's writer does not close, `Corrupted` for a damaged
    journal, and any error of `embed`. After any error the old corpus serves, and a later call continues.
    """
    layout = CorpusLayout(root, corpus)
    if not layout.journal.is_dir():
        raise NotFound(f"no corpus {corpus!r}")
    with open_build_alias(layout) as alias:
        before = read_pinned_model(layout.journal)
        if before == model:
            return Reindexed(before[0], model[0], None, 0, alias.clear())
        require_swap(layout.beside)
        _mark_durable(layout, plan.policy)
        with ExitStack() as closing:
            writer = closing.enter_context(_open_writer(alias, model, plan.policy))
            building = _Building(layout, alias.layout, writer, model, embed, plan)
            building.follow()
            with take_over(layout, plan.patience_seconds):
                building.catch_up(OPEN_END)
                generation = writer.publish()
                closing.close()  # the writer must not look for its files after the swap
                alias.complete(keeps_old=plan.keeps_old)
                swap(layout.folder, alias.layout.folder)
                kept = alias.clear()
    return Reindexed(before[0] if before else None, model[0], generation, building.embedded, kept)


class _Building:
    """Builds the build alias from the corpus's journal."""

    def __init__(
        self,
        corpus: CorpusLayout,
        alias: CorpusLayout,
        writer: IndexWriter,
        model: tuple[str, int],
        embed: Embed,
        plan: Plan,
    ) -> None:
        self._corpus = corpus
        self._source, self._target = corpus.journal, alias.journal
        self._writer = writer
        self._model = model
        self._embed = embed
        self._plan = plan
        self._covered: int | None = None
        self._unpublished = 0
        self._done = self._total = 0
        self.embedded = 0

    def follow(self) -> None:
        """Catch up with the journal, which may grow meanwhile, until little is left; finish all merges."""
        taken = self.catch_up(read_last_offset(self._corpus))
        self._writer.finish_merges()
        for _ in range(_MOST_ROUNDS):
            before, taken = taken, self.catch_up(read_last_offset(self._corpus))
            if taken <= _FEW_CHUNKS or taken >= before:
                return

    def catch_up(self, until: int) -> int:
        """Apply the journal's records up to an offset. Return the number of changed chunks."""
        after = self._covered
        if after is None or is_compacted_beyond(self._source, after):
            live, changed = self._compared(until)
        else:
            live = read_live_records(self._source, after, until)
            changed = live
        self._total = self._done + changed.chunk_count
        if changed.removed:
            self._writer.remove(sorted(changed.removed))
        for documents in self._batches(changed, after or 0):
            self._plan.check_cancelled()
            self._append(documents)
        self._covered = max(live.until, after or 0)
        return changed.chunk_count + len(changed.removed)

    def _compared(self, until: int) -> tuple[LiveRecords, LiveRecords]:
        """Return the live records of the corpus, and the part of them that the build alias lacks.

        A compaction drops removals, so only this comparison finds the removed documents.
        """
        everything = read_live_records(self._source, 0, until)
        held = {name: _digest(document) for name, document in read_live_documents(self._target)}
        changed = LiveRecords(dict(everything.documents), held.keys() - everything.documents.keys(), everything.until)
        if held:
            for name, document in read_documents(self._source, everything):
                if held.get(name) == _digest(document):
                    del changed.documents[name]
        return everything, changed

    def _batches(self, live: LiveRecords, after: int) -> Iterator[list[ChunkedDocument]]:
        """Yield the live documents in the order of their records, in batches of about `_BATCH_CHUNKS` chunks."""
        batch: list[ChunkedDocument] = []
        for _, document in read_documents(self._source, live, after):
            batch.append(document)
            if sum(max(1, len(one.chunks)) for one in batch) >= _BATCH_CHUNKS:
                yield batch
                batch = []
        if batch:
            yield batch

    def _append(self, documents: Sequence[ChunkedDocument]) -> None:
        texts = [text for document in documents for text in document.embedding_texts()]
        vectors = self._vectors(texts)
        # A version that was removed and recorded again may be older than the previous one, and must still be recorded.
        self._writer.remove([document.document_id for document in documents])
        self._writer.append(ChunkBatch(documents=tuple(documents)), vectors, self._model[0])
        self.embedded += len(texts)
        self._done += len(texts)
        self._unpublished += len(texts)
        if self._unpublished >= _PUBLISH_CHUNKS:
            self._writer.publish()
            self._unpublished = 0
        self._plan.on_progress(self._done, self._total)

    def _vectors(self, texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.empty((0, self._model[1]), dtype=np.float32)
        vectors = self._embed(texts)
        if vectors.shape != (len(texts), self._model[1]):
            raise Conflict(f"{self._model[0]} gave vectors of shape {vectors.shape} for {len(texts)} texts")
        return vectors


def _open_writer(alias: BuildAlias, model: tuple[str, int], policy: WritePolicy) -> IndexWriter:
    """Open the writer of the build alias; a damaged build alias is begun again."""
    alias.prepare(model)
    try:
        return IndexWriter(alias.layout.root, alias.layout.corpus, policy)
    except Corrupted:
        alias.clear()
        alias.prepare(model)
        return IndexWriter(alias.layout.root, alias.layout.corpus, policy)


def _mark_durable(layout: CorpusLayout, policy: WritePolicy) -> None:
    """Open and close the journal if no writer holds it: a killed writer may not have stored the last flushed offset."""
    try:
        lock = WriterLock(layout)
    except Unavailable:
        return
    try:
        Journal(layout.journal, policy.journal_segment_bytes).close()
    finally:
        lock.release()


def _digest(document: ChunkedDocument) -> bytes:
    return hashlib.sha256(document.model_dump_json().encode("utf-8", "surrogatepass")).digest()


_READ_AGAIN_SECONDS = 0.02
_READ_TRIES = 10


@dataclass(slots=True)
class LiveRecords:
    """Documents left by a range of journal records, read while another process may append to it and compact it."""

    documents: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The offset of the latest version and its number of chunks, by document id."""
    removed: set[str] = field(default_factory=set)
    """Ids whose last record is a removal."""
    until: int = 0
    """Offset of the last record that was read."""

    @property
    def chunk_count(self) -> int:
        """Number of chunks of the live documents."""
        return sum(chunk_count for _, chunk_count in self.documents.values())


def is_compacted_beyond(folder: Path, offset: int) -> bool:
    """Return whether a compaction may have dropped records after the offset."""
    files = list_files(folder)
    return bool(files) and files[0].is_compacted and files[0].last_offset > offset


def read_live_records(folder: Path, after: int, until: int) -> LiveRecords:
    """Read the documents left by the records after `after` up to `until`. Raises `Corrupted` for a damaged journal."""
    live = LiveRecords(until=after)
    for frame in _frames(folder, after, until):
        record = decode_record(frame.kind, frame.payload)
        live.until = frame.offset
        if isinstance(record, Upsert):
            name = record.document.document_id
            live.documents[name] = (frame.offset, len(record.vectors))
            live.removed.discard(name)
        else:
            live.documents.pop(record.document_id, None)
            live.removed.add(record.document_id)
    return live


def read_live_documents(folder: Path) -> Iterator[tuple[str, ChunkedDocument]]:
    """Yield every live document of a whole journal with its id, in the order of the records."""
    return read_documents(folder, read_live_records(folder, 0, OPEN_END))


def read_documents(folder: Path, live: LiveRecords, after: int = 0) -> Iterator[tuple[str, ChunkedDocument]]:
    """Yield the live documents with their ids. A document replaced after `live` was read may be missing."""
    offsets = {offset for offset, _ in live.documents.values()}
    for frame in _frames(folder, after, live.until):
        if frame.offset in offsets:
            record = decode_record(frame.kind, frame.payload)
            if isinstance(record, Upsert):
                yield record.document.document_id, record.document


def _frames(folder: Path, after: int, until: int) -> Iterator[Frame]:
    """Yield the records after one offset up to another, while files may be added and compacted away.

    Meanwhile a reader may find a file missing or a gap; reading is then repeated from the last offset read.
    """
    tries = 0
    while after < until:
        try:
            for frame in read_journal(folder, after):
                if frame.offset > until:
                    return
                after, tries = frame.offset, 0
                yield frame
                if after >= until:
                    return
        except (FileNotFoundError, Corrupted):
            tries += 1
            if tries >= _READ_TRIES:
                raise
            time.sleep(_READ_AGAIN_SECONDS)
        else:
            return
