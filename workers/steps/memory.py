"""From the journal of a feature to the standing pipeline: what changed becomes documents, unless the index has them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sluice.contracts.budget import Spend
from sluice.contracts.document import ChunkBatch, ChunkedDocument
from sluice.contracts.errors import MalformedEvent
from sluice.contracts.event import Event
from sluice.contracts.index import IterationRecorded, LearningChanged
from sluice.contracts.ingest import DocumentChunked, DocumentsRemoved
from sluice.contracts.outcome import Done, Next
from sluice.gate.budget import fit_within
from sluice.ingest.embed.batching import Portion, in_portions
from sluice.memory.documents import document_of_learning, document_of_record, is_indexed
from sluice.memory.qdrant_schema import collection_name
from sluice.workers.wiring.inject import Step

if TYPE_CHECKING:
    from sluice.index.journal.document_facts import DocumentFacts
    from sluice.ledger.ledger import Ledger
    from sluice.memory.journal.feature_memory import FeatureMemory
    from sluice.workers.runtime.blob_store import BlobStore
    from sluice.workers.wiring.corpora import CorpusReaders
    from sluice.workers.wiring.embedding import EmbeddingService


def require_own_corpus(event: Event, told: IterationRecorded | LearningChanged) -> None:
    """Refuse an event that would bring what is remembered of one feature into the corpus of another.

    Raises:
        MalformedEvent: its corpus is not that of its project and feature.
    """
    own = collection_name(told.project, told.feature)
    if event.corpus != own:
        raise MalformedEvent("corpus", f"{event.corpus} where feature {told.feature!r} belongs", own)


@dataclass(frozen=True, slots=True)
class MemoryIndexing(Step):
    """Brings what is remembered into the index of its feature."""

    readers: CorpusReaders
    embedding: EmbeddingService
    ledger: Ledger
    blobs: BlobStore

    def send(
        self, event: Event, project: str, state: FeatureMemory, entry_ids: Iterable[str], learning_ids: Iterable[str]
    ) -> Done:
        """What the index lacks of these iterations and learnings, as batches to inspect and embed; and what is to go.

        What it holds with an equal checksum is not embedded again. Emits `DocumentChunked` and `DocumentsRemoved`; a
        gap for what the run's budget does not cover.
        """
        model = self.embedding.fingerprint(event.corpus)
        records = (state.iterations[name] for name in entry_ids if name in state.iterations)
        wanted = [document_of_record(one.record, one.entry_id, project, model) for one in records]
        learnings = [state.learnings[name] for name in learning_ids if name in state.learnings]
        wanted += [document_of_learning(one, project, model) for one in learnings if is_indexed(one)]
        gone = [one.id for one in learnings if not is_indexed(one)]
        held = {}
        if self.readers.exists(event.corpus):
            held = self.readers.reader(event.corpus).documents([*(one.document_id for one in wanted), *gone])
        lacking = [one for one in wanted if _differs(one, held.get(one.document_id))]
        left = self.ledger.budget_left(event.run_id)
        priced = [(one, self.embedding.reserve(one.embedding_texts(), event.corpus, left)) for one in lacking]
        payable = fit_within(left, ((pair, pair[1]) for pair in priced), stage="embed", subject=_subject)
        sizes = [
            Portion(len(one.chunks), sum(chunk.token_estimate for chunk in one.chunks)) for one, _ in payable.items
        ]
        emits = [
            Next(_kept([one for one, _ in pairs], self.blobs), reserve=sum((price for _, price in pairs), Spend()))
            for pairs in (payable.items[part] for part in in_portions(sizes, self.embedding.portion(event.corpus)))
        ]
        if removed := tuple(name for name in gone if name in held):
            emits.append(Next(DocumentsRemoved(document_ids=removed)))
        return Done(tuple(emits), payable.gaps)


def _differs(document: ChunkedDocument, held: DocumentFacts | None) -> bool:
    return held is None or held.checksum != document.checksum


def _size(document: ChunkedDocument) -> Portion:
    return Portion(len(document.chunks), sum(chunk.token_estimate for chunk in document.chunks))


def _subject(priced: tuple[ChunkedDocument, Spend]) -> str:
    return priced[0].document_id


def _kept(documents: Sequence[ChunkedDocument], blobs: BlobStore) -> DocumentChunked:
    batch = ChunkBatch(documents=tuple(documents))
    return DocumentChunked.of(batch, blobs.put(batch.model_dump_json().encode()))
