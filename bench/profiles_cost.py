"""What a profile's domain adds to a run: the probe's measurements and the answer's insights, in milliseconds.

    python -m bench.profiles_cost DATA_DIR

`DATA_DIR` holds `squad20_dev` and `cosqa_dev`. Their passages are indexed with vectors of no meaning: what is measured
here searches by words alone.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import numpy as np

from sluice.contracts.document import Chunk, ChunkBatch, ChunkedDocument, Provenance, sha256_text
from sluice.contracts.gate import GateRequested
from sluice.contracts.plan import Plan
from sluice.contracts.retrieval import Query, Strategy
from sluice.gate.profile import load_profiles
from sluice.index.local.reader import IndexReader
from sluice.index.local.writer import IndexWriter
from sluice.index.search.compose_answer import compose_answer
from sluice.index.settings import QuerySettings
from sluice.workers.steps.domain import add_insights, measure_domain

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SETS = {"default": "squad20_dev", "marketing": "squad20_dev", "code": "cosqa_dev"}
QUESTIONS = 100


def main(data_dir: Path) -> None:
    """Print the table."""
    for name, folder in SETS.items():
        profile = load_profiles()[name]
        with tempfile.TemporaryDirectory() as root:
            port = index(Path(root), read(data_dir / folder / "corpus.jsonl"), "python" if name == "code" else None)
            readers: Any = SimpleNamespace(retrieval=lambda _, port=port: port)
            probing, looking = [], []
            for line in list(read(data_dir / folder / "queries.jsonl"))[:QUESTIONS]:
                request = GateRequested(query=line["text"], profile=name)
                probing.append(timed(lambda: measure_domain(request, profile, "c", port, NOW)))  # noqa: B023
                found = port.retrieve(Query(query=request.query, corpus="c", strategy=Strategy.BM25))
                answer = compose_answer(request.query, "c", Plan.RETRIEVE, found, 4_000)
                looking.append(timed(lambda: add_insights(answer, request, profile, readers)))  # noqa: B023
            for step, taken in (("probe", probing), ("answer", looking)):
                worst = sorted(taken)[int(0.95 * len(taken))]
                print(f"{name:10} {step:7} median {median(taken):7.3f} ms, p95 {worst:7.3f} ms")


def timed(call: Callable[[], object]) -> float:
    """Milliseconds that a call takes."""
    started = time.perf_counter()
    call()
    return (time.perf_counter() - started) * 1e3


def read(path: Path) -> Iterable[dict[str, Any]]:
    """The lines of a file of JSON."""
    with path.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def index(root: Path, documents: Iterable[dict[str, Any]], language: str | None) -> IndexReader:
    """A corpus of the documents, one chunk each."""
    chunked = [_chunked(one, language) for one in documents]
    vectors = np.random.default_rng(1).standard_normal((len(chunked), 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    with IndexWriter(root, "c") as writer:
        writer.append(ChunkBatch(documents=tuple(chunked)), vectors, "none@1")
        writer.publish()
    return IndexReader(root, "c", QuerySettings())


def _chunked(one: dict[str, Any], language: str | None) -> ChunkedDocument:
    text, number = one["text"], str(one["_id"])
    chunk = Chunk(
        chunk_id=sha256_text(number)[:32],
        document_id=number,
        ordinal=0,
        text=text,
        start_line=1,
        end_line=1 + text.count("\n"),
        language=language or "en",
        token_estimate=max(1, len(text) // 4),
        checksum=sha256_text(text),
    )
    return ChunkedDocument(
        document_id=number,
        checksum=sha256_text(text),
        title=one.get("title") or None,
        language=language or "en",
        provenance=Provenance(source="file", fetched_at=NOW),
        chunks=(chunk,),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
