"""What the sweep promises: its exponents, and every figure of a size, from a real index."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.index.documents import number_of
from bench.index.sweep import exponent, measure_sweep
from bench.index.synthetic import SyntheticCorpus


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_the_exponent_of_a_power_law_is_found(power: float) -> None:
    assert exponent({size: 3.0 * size**power for size in (1_000, 10_000, 100_000)}) == pytest.approx(power)


@pytest.mark.slow
def test_every_size_is_measured_and_its_folder_removed(tmp_path: Path) -> None:
    figures = measure_sweep([200, 500], tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert all(np.isfinite(value) for value in figures.values())
    assert figures["full snapshot, MB at 500"] > figures["full snapshot, MB at 200"] > 0
    assert 0 < figures["1 % snapshot : full, bytes at 500"] < 1
    assert "hybrid grows as N^" in figures


def test_the_synthetic_corpus_is_the_same_wherever_one_begins() -> None:
    corpus = SyntheticCorpus()
    whole = list(corpus.batches(768))
    (tail, tail_vectors), *_ = list(corpus.batches(768, start=512))
    assert tail == whole[-1][0]
    assert np.array_equal(tail_vectors, whole[-1][1])
    assert number_of(tail.documents[0].chunks[0].chunk_id) == 512


def test_synthetic_vectors_are_of_length_one_and_clustered() -> None:
    """Two chunks of one centre are far closer than chunks of two."""
    vectors = np.concatenate([vectors for _, vectors in SyntheticCorpus().batches(4_000)])
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    nearest = np.sort(vectors[:100] @ vectors.T, axis=1)
    assert np.median(nearest[:, -2]) > 0.5 > np.median(nearest[:, -100])


def test_another_version_has_the_same_documents_with_other_texts() -> None:
    corpus = SyntheticCorpus()
    ((old, _),), ((new, _),) = list(corpus.batches(8)), list(corpus.batches(8, version=1))
    assert [one.document_id for one in old.documents] == [one.document_id for one in new.documents]
    assert old.documents[0].checksum != new.documents[0].checksum


def test_a_question_has_content_words_that_some_chunks_have() -> None:
    """Not the words of every text, else all sizes would measure nothing but the longest postings."""
    corpus = SyntheticCorpus()
    texts = [
        set(chunk.text.split()) for batch, _ in corpus.batches(2_000) for one in batch.documents for chunk in one.chunks
    ]
    words = [word for question in corpus.questions(50)[0] for word in question.split()]
    shares = [sum(word in text for text in texts) / len(texts) for word in words]
    assert 0 < max(shares) < 0.1
    assert np.mean(np.array(shares) > 0) > 0.5
