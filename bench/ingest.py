"""Ingest through the whole pipeline against the embedder alone on the same texts, in one run.

    python -m bench.ingest CORPUS.jsonl

Prints documents and chunks, both times, and their ratio. Every document is then looked up by its id,
and no chunk may be there twice.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from sluice.contracts.document import ChunkBatch
from sluice.index.folder import CorpusLayout
from sluice.index.local.reader import IndexReader
from sluice.index.settings import QuerySettings
from sluice.ingest.embed.minilm import MiniLM
from sluice.ledger.ledger import Ledger
from sluice.workers.runtime.blob_store import BlobStore
from tests.support.instance import Instance
from tests.support.repository import MODELS

CORPUS = "bench"


def measure_ingest(corpus_file: Path) -> dict[str, float]:
    """Seconds through the pipeline and of the embedder alone, and what came of it."""
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        with Instance(Path(folder)) as instance:
            started = time.perf_counter()
            done = instance.sluice("ingest", str(corpus_file.resolve()), "--corpus", CORPUS, "--json", timeout=3_600)
            pipeline_seconds = time.perf_counter() - started
            if done.returncode:
                raise RuntimeError(done.stdout + done.stderr)
            runs = json.loads(done.stdout)["run_ids"]
        texts = [text for run_id in runs for text in _texts_of(run_id, instance.data_dir)]
        found = _found(instance.data_dir)
        asked = [json.loads(line)["_id"] for line in corpus_file.read_text().splitlines() if line.strip()]
    embed_seconds = _embedder_alone(texts)
    return {
        "documents": len(asked),
        "documents_found": len(found & set(asked)),
        "chunks": sum(map(len, texts)),
        "pipeline_seconds": pipeline_seconds,
        "embedder_seconds": embed_seconds,
        "ratio": pipeline_seconds / embed_seconds,
    }


def _texts_of(run_id: str, data_dir: Path) -> list[list[str]]:
    """What the run embedded, a list per message, as its blobs hold it."""
    blobs = BlobStore(data_dir / "blobs")
    with Ledger(f"sqlite:///{data_dir / 'ledger.sqlite'}") as ledger:
        chunked = [event.body for event in ledger.events_of_kind(run_id, "DocumentChunked")]
    batches = (ChunkBatch.model_validate_json(blobs.get(body.chunks_blob)) for body in chunked)  # type: ignore[attr-defined]
    return [[text for document in batch.documents for text in document.embedding_texts()] for batch in batches]


def _found(data_dir: Path) -> set[str]:
    reader = IndexReader(data_dir / "index", CORPUS, QuerySettings())
    reader.reload()
    generation = reader._follower.latest()  # noqa: SLF001
    assert generation is not None
    chunk_ids = [part.segment.chunk_id(row) for part in generation.parts for row in part.live_rows.tolist()]
    assert len(chunk_ids) == len(set(chunk_ids)), "a chunk stands twice in the index"
    documents = {facts.document_id for facts in generation.all_facts()}
    reader.close()
    assert CorpusLayout(data_dir / "index", CORPUS).journal.exists()
    return documents


def _embedder_alone(batches: list[list[str]]) -> float:
    model = MiniLM(MODELS)
    model.embed(["warm"])
    started = time.perf_counter()
    for batch in batches:
        model.embed(batch)
    return time.perf_counter() - started


if __name__ == "__main__":
    for name, value in measure_ingest(Path(sys.argv[1])).items():
        print(f"{name:>20} {value:,.3f}")
