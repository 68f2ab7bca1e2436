"""What the comparison with the peers promises: exact truth, honest recall, and a contestant's answers by its own clock."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.index.against import exact, measure_freshness, recall
from bench.index.contestants import SLUICE, Contestant, command_of, write
from bench.index.real import Passages
from bench.index.synthetic import SyntheticCorpus, Vectors


def test_the_truth_is_the_largest_inner_products() -> None:
    vectors = np.eye(5, dtype=np.float32)
    query = np.array([[0.1, 0.5, 0.2, 0.9, 0.3]], dtype=np.float32)
    assert sorted(exact(vectors, query, 2)[0]) == [1, 3]


def test_recall_is_the_share_of_true_neighbours_found() -> None:
    assert recall([[1, 2], [3, 9]], [[2, 1], [3, 4]]) == 0.75


@pytest.mark.slow
def test_sluice_as_a_contestant_ingests_finds_and_takes_more(tmp_path: Path) -> None:
    """The whole protocol on a real engine in a process of its own."""
    passages = _passages(600)
    questions = write(tmp_path, "questions", passages.texts[:20], passages.vectors[:20])
    with Contestant(SLUICE, command_of(SLUICE), tmp_path / SLUICE) as sluice:
        taken = sluice.ingest(write(tmp_path, "corpus", passages.texts, passages.vectors))
        assert taken["wall_seconds"] > 0
        for strategy in sluice.strategies:
            answer = sluice.search(questions, strategy)
            assert [numbers[0] for numbers in answer["found"]] == list(range(20))
            assert len(answer["wall_ms"]) == 20
        added = write(tmp_path, "added", ["newcomer of its own kind"], passages.vectors[:1])
        fresh = sluice.freshen(added, first=600, strategy="bm25", finish=False)
        assert 0 < fresh["add_ms"] < fresh["wall_ms"]
        figures = measure_freshness([sluice], passages, tmp_path, rounds=1)
        assert figures["+10 found by hybrid, ms: sluice"] > 0
        assert figures["+10 found by terms, ms: sluice, published"] > 0


@pytest.mark.slow
def test_a_contestant_that_fails_says_why(tmp_path: Path) -> None:
    nonsense = {"texts": str(tmp_path / "none.json"), "vectors": str(tmp_path / "none.npy")}
    with (
        Contestant(SLUICE, command_of(SLUICE), tmp_path / SLUICE) as sluice,
        pytest.raises(RuntimeError, match="FileNotFoundError"),
    ):
        sluice.ingest(nonsense)


def _passages(count: int) -> Passages:
    (batches, vectors) = zip(*SyntheticCorpus().batches(count), strict=True)
    texts = [chunk.text for batch in batches for document in batch.documents for chunk in document.chunks]
    everything: Vectors = np.concatenate(vectors)
    return Passages(texts, everything, texts[:20], everything[:20])
