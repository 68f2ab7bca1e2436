"""The index against a dictionary: whatever happens, it holds what a dictionary would hold."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contracts.retrieval import Query, Strategy
from index.reader import IndexReader
from index.settings import IndexSettings, QuerySettings
from index.writer import IndexWriter

DOCUMENTS = [f"d{number}" for number in range(5)]
TEXTS = ["ferrets sleep", "otters swim", "martens climb", "badgers dig"]
STEPS = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(DOCUMENTS), st.lists(st.sampled_from(TEXTS), max_size=3, unique=True)),
    st.tuples(st.just("remove"), st.sampled_from(DOCUMENTS), st.just(())),
    st.tuples(st.sampled_from(["publish", "reopen", "rebuild"]), st.just(""), st.just(())),
)
IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Hundreds of publishes: what they hold is tested here, and not how the disk flushes it."""
SETTINGS = IndexSettings(max_segments=2, keep_generations=1, flush_chunks=4)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(STEPS, min_size=1, max_size=8))
def test_any_sequence_of_steps_leaves_what_a_dictionary_would_hold(make, steps) -> None:
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        root = Path(folder)
        expected: dict[str, list[str]] = {}
        writer = IndexWriter(root, "c", SETTINGS)
        reader = IndexReader(root, "c", QuerySettings())
        for step, name, texts in [*steps, ("publish", "", ())]:
            match step:
                case "put":
                    writer.append(*make.batch([make.document(name, *texts)]))
                    expected[name] = list(texts)
                case "remove":
                    writer.remove([name])
                    expected.pop(name, None)
                case "publish":
                    writer.publish()
                    _compare(reader, make, expected)
                case "rebuild":
                    assert writer.rebuild().is_proven
                    _compare(reader, make, expected)
                case "reopen":
                    writer.close()
                    writer = IndexWriter(root, "c", SETTINGS)
        reader.close()
        writer.close()


def _compare(reader: IndexReader, make, expected: dict[str, list[str]]) -> None:
    held = sorted((name, text) for name, texts in expected.items() for text in texts)
    for strategy, question in ((Strategy.BM25, " ".join(TEXTS)), (Strategy.VECTOR, "q")):
        query = Query(query=question, strategy=strategy, top_k=100)
        found = reader.search(query, make.vector("q")).chunks
        assert sorted((chunk.document_id, chunk.text) for chunk in found) == held
    assert reader.document_count == len(expected)
    assert {name for name in DOCUMENTS if reader.has_document(name)} == set(expected)
