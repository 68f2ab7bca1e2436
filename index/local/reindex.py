"""A corpus gets the vectors of another model: built anew beside itself while it serves, then exchanged.

1. *Build.* The living documents are read from the journal, embedded anew and appended to the shadow
(`index.local.build_alias`).
   What the corpus records meanwhile follows in further rounds, each shorter than the one before.
2. *Take over.* Once little is left, the corpus's writer is asked to let go (`index.disk.handover`). The rest is
   appended, and the shadow publishes a generation that covers everything.
3. *Exchange.* The two folders trade places in one step (`index.disk.swap`): readers follow the pointer into the new
   one, writers open the new one, and what was is removed or kept.

Killed at any moment, the corpus that serves is the old one or the new one, whole. The next call goes on with the
shadow: documents that it holds already are not embedded again. Documents are taken as they are: their ids, texts
and facts stay what they were. What a rollback hides is in the journal, and so in the new corpus.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from contracts.document import ChunkBatch, ChunkedDocument
from contracts.errors import Conflict, Corrupted, NotFound, Unavailable
from index.disk.handover import take_over
from index.disk.layout import CorpusLayout
from index.disk.locks import WriterLock
from index.disk.swap import require_swap, swap
from index.generations.publish import Generation
from index.journal.files import OPEN_END, read_pinned_model
from index.journal.journal import Journal
from index.journal.live_records import (
    LiveRecords,
    is_compacted_beyond,
    read_documents,
    read_live_documents,
    read_live_records,
)
from index.journal.records import Vectors
from index.local.build_alias import BuildAlias, open_build_alias, read_last_offset
from index.local.write_policy import WritePolicy
from index.local.writer import IndexWriter

Embed = Callable[[Sequence[str]], Vectors]
"""Texts to float32 (texts, dimension), each row of length 1."""

_BATCH_CHUNKS = 128
"""Chunks embedded at a time: enough to sort them by length, some seconds of work to be lost at most."""
_PUBLISH_CHUNKS = 20_000
"""Chunks between two generations of the shadow, so that going on does not begin with reading it all again."""
_FEW_CHUNKS = 64
"""A rest that may be embedded while writers wait: about two seconds on one core."""
_MOST_ROUNDS = 50
"""Where documents come in faster than they can be embedded, the rest does not shrink."""


@dataclass(frozen=True, slots=True)
class Reindexed:
    """What became of a corpus. `embedded` chunks were embedded in this call; `kept` is the old corpus's folder."""

    model_before: str | None
    model: str
    generation: Generation | None
    embedded: int
    kept: Path | None

    @property
    def is_changed(self) -> bool:
        """Whether the corpus had another model before."""
        return self.model_before != self.model


@dataclass(frozen=True, slots=True)
class Plan:
    """How to do it. `on_progress` is told chunks done and chunks there are, `wanted` raises what ends the work."""

    policy: WritePolicy
    patience_seconds: float = 60.0
    """How long the corpus's writer may take to let go."""
    is_old_kept: bool = False
    on_progress: Callable[[int, int], None] = lambda done, total: None
    wanted: Callable[[], None] = lambda: None


def reindex(root: Path, corpus: str, model: tuple[str, int], embed: Embed, plan: Plan) -> Reindexed:
    """Give every chunk of the corpus a vector of `model` (fingerprint, dimension), which `embed` makes.

    Raises `NotFound` for a corpus that never was, `Conflict` while another process does the same, `InvalidInput`
    where the file system cannot exchange folders, `TimedOut` when the corpus's writer does not let go, `Corrupted`
    for a damaged journal, and what `embed` raises. Whatever it raises, the old corpus serves, and a later call goes on.
    """
    layout = CorpusLayout(root, corpus)
    if not layout.journal.is_dir():
        raise NotFound(f"no corpus {corpus!r}")
    with open_build_alias(layout) as shadow:
        before = read_pinned_model(layout.journal)
        if before == model:
            return Reindexed(before[0], model[0], None, 0, shadow.clear())
        require_swap(layout.beside)
        _mark_durable(layout, plan.policy)
        with ExitStack() as closing:
            writer = closing.enter_context(_opened(shadow, model, plan.policy))
            building = _Building(layout, shadow.layout, writer, model, embed, plan)
            building.follow()
            with take_over(layout, plan.patience_seconds):
                building.catch_up(OPEN_END)
                generation = writer.publish()
                closing.close()  # nothing of the writer may look for its files once they are elsewhere
                shadow.complete(is_old_kept=plan.is_old_kept)
                swap(layout.folder, shadow.layout.folder)
                kept = shadow.clear()
    return Reindexed(before[0] if before else None, model[0], generation, building.embedded, kept)


class _Building:
    """The shadow on its way to be the corpus."""

    def __init__(
        self,
        corpus: CorpusLayout,
        shadow: CorpusLayout,
        writer: IndexWriter,
        model: tuple[str, int],
        embed: Embed,
        plan: Plan,
    ) -> None:
        self._corpus = corpus
        self._source, self._target = corpus.journal, shadow.journal
        self._writer = writer
        self._model = model
        self._embed = embed
        self._plan = plan
        self._covered: int | None = None
        self._unpublished = 0
        self._done = self._total = 0
        self.embedded = 0

    def follow(self) -> None:
        """Catch up with the journal, which may grow meanwhile, until little is left, and merge what is to be merged."""
        taken = self.catch_up(read_last_offset(self._corpus))
        self._writer.settle()
        for _ in range(_MOST_ROUNDS):
            before, taken = taken, self.catch_up(read_last_offset(self._corpus))
            if taken <= _FEW_CHUNKS or taken >= before:
                return

    def catch_up(self, until: int) -> int:
        """Take over what the journal has up to an offset. Returns how many chunks changed."""
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
            self._plan.wanted()
            self._append(documents)
        self._covered = max(live.until, after or 0)
        return changed.chunk_count + len(changed.removed)

    def _compared(self, until: int) -> tuple[LiveRecords, LiveRecords]:
        """All that lives in the corpus, and the part of it that the shadow lacks.

        A compaction drops removals with what they removed: then only comparing shows what is gone.
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
        """The living documents, some chunks' worth at a time, in the order in which they were recorded."""
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
        # A version that was removed and recorded again may be older than the one before: it must come in all the same.
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


def _opened(shadow: BuildAlias, model: tuple[str, int], policy: WritePolicy) -> IndexWriter:
    """The shadow's writer. A shadow that is damaged is no loss but of work: it is begun anew."""
    shadow.prepare(model)
    try:
        return IndexWriter(shadow.layout.root, shadow.layout.corpus, policy)
    except Corrupted:
        shadow.clear()
        shadow.prepare(model)
        return IndexWriter(shadow.layout.root, shadow.layout.corpus, policy)


def _mark_durable(layout: CorpusLayout, policy: WritePolicy) -> None:
    """Where nobody writes, let the journal say how far it goes: a writer that was killed may have left it unsaid."""
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
