"""A tree or a collection as a corpus on disk, with its graph: made in this process, as the workers make it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench.append_documents import append_documents
from sluice.contracts.document import Document, DocumentFacts
from sluice.contracts.graph.model import DocumentRow, GraphArm
from sluice.graph.arm import Arm
from sluice.graph.extract.extract import extract_edges
from sluice.graph.generations.publish import publish
from sluice.index.local.reader import IndexReader
from sluice.index.local.writer import IndexWriter
from sluice.index.settings import QuerySettings
from sluice.ingest.embed.cache import CachedEmbedder, EmbeddingCache
from sluice.ingest.embed.minilm import MiniLM, Precision
from sluice.workers.wiring.graph_documents import graph_document
from tests.support.repository import MODELS

CORPUS = "bench"
_CACHED_VECTORS = 2_000_000


def embedder_of(cache: Path, precision: Precision = "int8") -> CachedEmbedder:
    """The local model on one thread, and its vectors of former calls."""
    cache.parent.mkdir(parents=True, exist_ok=True)
    return CachedEmbedder(MiniLM(MODELS, 1, precision=precision), EmbeddingCache(cache, _CACHED_VECTORS))


def index_documents(root: Path, documents: Sequence[Document], embedder: CachedEmbedder) -> None:
    """Chunk, embed and publish the documents as the corpus below `root`."""
    with IndexWriter(root, CORPUS) as writer:
        append_documents(writer, documents, embedder)


def publish_graph(root: Path, folder: Path) -> GraphArm:
    """Read the corpus below `root` into a graph, publish it in `folder`, and give what walks it."""
    reader = IndexReader(root, CORPUS, QuerySettings())
    try:
        rows = [_row(facts, reader) for facts in reader.all_facts()]
    finally:
        reader.close()
    publish(folder, rows, (), version=len(rows), now=datetime.now(UTC), seconds=time.monotonic)
    return Arm(folder)


def _row(facts: DocumentFacts, reader: IndexReader) -> DocumentRow:
    edges = extract_edges(graph_document(facts, list(reader.chunks(facts.document_id))))
    return DocumentRow(facts.document_id, facts.file_path, facts.url, facts.title, edges)
