"""Segments: what is written is read back, and a compressed form finds what exact search finds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import faiss
import numpy as np
import pytest

from sluice.index.journal.records import Upsert, Vectors, document_key
from sluice.index.segments.quantization import LEAST_RECALL, LEAST_ROWS, quantize
from sluice.index.segments.segment import Mask, inner_products, search_exactly
from sluice.index.segments.segment_file import StoredSegment, build_content, join_contents, write_segment
from sluice.index.terms.terms import prepare_document


def _clustered(count: int, dimension: int = 64, seed: int = 1) -> Vectors:
    random = np.random.default_rng(seed)
    centres = random.standard_normal((count // 20 + 1, dimension))
    vectors = centres[random.integers(0, len(centres), count)] + 0.5 * random.standard_normal((count, dimension))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def _stored(folder: Path, make, count: int, name: str = "s", first: int = 0, prefix: str = "d") -> StoredSegment:
    """Documents of two chunks each, the chunks numbered from `first`."""
    vectors = _clustered(2 * count)
    documents = [make.document(f"{prefix}{i}", f"one {i}", f"two {i}", language="en") for i in range(count)]
    entries = [
        prepare_document(i + 1, Upsert.of(document, vectors[2 * i : 2 * i + 2], "m"), first + 2 * i)[0]
        for i, document in enumerate(documents)
    ]
    write_segment(folder, name, build_content(entries, 64))
    return StoredSegment(folder, name)


def test_a_segment_gives_back_what_was_written(tmp_path: Path, make) -> None:
    segment = _stored(tmp_path, make, 5)
    (document,) = segment.find_document(document_key("d3"))
    rows = segment.rows_of(document)
    assert [segment.chunk(row).text for row in rows] == ["one 3", "two 3"]
    assert [segment.chunk_id(row) for row in rows] == [segment.chunk(row).chunk_id for row in rows]
    assert segment.facts(document).document_id == "d3"
    assert segment.key_of(document) == document_key("d3")
    assert segment.numbers[rows.start] == 6
    assert set(segment.languages) == {"en"}
    assert segment.find_document(document_key("unknown")) == []


def test_merged_segments_hold_the_living_documents_of_all_in_order(tmp_path: Path, make) -> None:
    first, second = _stored(tmp_path, make, 4, "a"), _stored(tmp_path, make, 4, "b", first=8, prefix="e")
    write_segment(tmp_path, "m", join_contents([first.content({1}), second.content({0, 3})]))
    merged = StoredSegment(tmp_path, "m")
    ids = [merged.facts(document).document_id for document in range(merged.document_count)]
    assert ids == ["d0", "d2", "d3", "e1", "e2"]
    assert [merged.chunk(row).text for row in range(len(merged.numbers))][-2:] == ["one 2", "two 2"]
    assert merged.numbers.tolist() == [0, 1, 4, 5, 6, 7, 10, 11, 12, 13]
    (document,) = merged.find_document(document_key("e1"))
    rows = merged.rows_of(document)
    wanted = second.vectors_of(np.arange(2, 4))
    assert np.array_equal(merged.vectors_of(np.arange(rows.start, rows.stop)), wanted)
    assert int(merged.documents["journal_offset"][document]) == 2


def test_an_existing_segment_is_never_written_over(tmp_path: Path, make) -> None:
    _stored(tmp_path, make, 1)
    with pytest.raises(FileExistsError):
        _stored(tmp_path, make, 1)


def test_a_file_that_ends_too_soon_does_not_open(tmp_path: Path, make) -> None:
    _stored(tmp_path, make, 3)
    path = tmp_path / "s.segment"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ValueError, match="ends within"):
        StoredSegment(tmp_path, "s")


def test_few_rows_are_searched_exactly(tmp_path: Path, make) -> None:
    assert quantize(_clustered(LEAST_ROWS - 1)) is None
    assert _stored(tmp_path, make, 10).quantization is None


def test_a_question_is_compared_with_chosen_rows_on_its_own_thread() -> None:
    vectors, rows = _clustered(100), np.array([3, 97, 4])

    def compare() -> tuple[Vectors, int]:
        faiss.omp_set_num_threads(4)
        return inner_products(vectors, rows, vectors[3]), faiss.omp_get_max_threads()

    with ThreadPoolExecutor(1) as other:
        products, threads = other.submit(compare).result()
    np.testing.assert_allclose(products, vectors[rows] @ vectors[3], rtol=1e-5)
    assert threads == 1


def test_a_compressed_form_finds_what_exact_search_finds_and_scores_it_exactly(tmp_path: Path, make) -> None:
    segment = _stored(tmp_path, make, LEAST_ROWS)
    vectors = segment.vectors_of(np.arange(len(segment.numbers)))
    assert segment.quantization == "pq"
    assert segment.recall is not None
    assert segment.recall >= LEAST_RECALL
    shares = []
    random = np.random.default_rng(4)
    for vector in vectors[random.integers(0, len(vectors), 40)]:
        question = (vector + 0.1 * random.standard_normal(64)).astype(np.float32)
        scores, rows = segment.search(question, 10, None)
        wanted_scores, wanted = search_exactly(vectors, question, 10, None)
        shares.append(np.isin(wanted, rows).mean())
        assert scores[0] == pytest.approx(wanted_scores[0], abs=1e-5)
    assert np.mean(shares) >= 0.98


def test_a_form_that_loses_too_much_makes_way_for_the_next_safer_one_and_then_for_none() -> None:
    """Vectors that differ in their smallest digits only: codes of a few bits cannot tell them apart."""
    random = np.random.default_rng(0)
    alike = 1.0 + 1e-4 * random.standard_normal((2 * LEAST_ROWS, 32))
    vectors = (alike / np.linalg.norm(alike, axis=1, keepdims=True)).astype(np.float32)
    compressed = quantize(vectors)
    assert compressed is None or compressed.recall >= LEAST_RECALL
    spread = _clustered(2 * LEAST_ROWS)
    best = quantize(spread)
    safer = quantize(spread, methods=("rabitq",))
    assert best is not None
    assert best.method == "pq"
    assert safer is None or safer.method == "rabitq"


@pytest.mark.parametrize("share", [0.9, 0.4, 0.05, 0.001])
def test_a_filter_costs_no_result_whatever_its_share(tmp_path: Path, make, share: float) -> None:
    segment = _stored(tmp_path, make, LEAST_ROWS)
    vectors = segment.vectors_of(np.arange(len(segment.numbers)))
    allowed = np.random.default_rng(5).random(len(vectors)) < share
    near = vectors[::150] + 0.1 * np.random.default_rng(6).standard_normal((40, 64)).astype(np.float32)
    assert _recall(segment, vectors, near, allowed) >= 0.98
    far = _clustered(40, seed=3)
    assert _recall(segment, vectors, far, allowed) >= _recall(segment, vectors, far, None) - 0.02


def _recall(segment: StoredSegment, vectors: Vectors, questions: Vectors, allowed: Mask | None) -> float:
    """Which share of what exact search finds is found; as many rows, all of them allowed."""
    shares = []
    for question in questions:
        _, rows = segment.search(question, 10, allowed)
        _, wanted = search_exactly(vectors, question, 10, allowed)
        assert allowed is None or allowed[rows].all()
        assert len(rows) == len(wanted)
        shares.append(np.isin(wanted, rows).mean())
    return float(np.mean(shares))
