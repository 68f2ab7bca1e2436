"""A found chunk with its surroundings reads as the document does, and is cited by the right lines."""

from __future__ import annotations

import bisect

import pytest

from sluice.contracts.document import Chunk, sha256_text
from sluice.contracts.retrieval import Query, Strategy
from sluice.contracts.trust import Finding, Inspection, PrivateSpan, Verdict
from sluice.index.local.reader import IndexReader
from sluice.index.local.writer import IndexWriter
from sluice.index.search.passages import Place, join_inspections, join_with_places
from sluice.index.settings import QuerySettings


def _cut(text: str, start: int, end: int, ordinal: int = 0) -> Chunk:
    """A chunk as a chunker cuts it: a piece of the text with the lines that it is from."""
    lines = [0, *(position + 1 for position, character in enumerate(text) if character == "\n")]
    piece = text[start:end]
    return Chunk(
        chunk_id=f"c{ordinal}",
        document_id="d",
        ordinal=ordinal,
        text=piece,
        start_line=bisect.bisect_right(lines, start),
        end_line=bisect.bisect_right(lines, end - 1),
        token_estimate=len(piece.split()),
        checksum=sha256_text(piece),
    )


def test_paragraphs_are_joined_by_the_empty_line_between_them_and_lines_by_their_end() -> None:
    text = "first line\nsecond line\n\n\nthird line"
    chunks = [_cut(text, 0, 10), _cut(text, 11, 22), _cut(text, 25, 35)]
    assert join_with_places(chunks)[0] == "first line\nsecond line\n\nthird line"


def test_a_sentence_that_was_cut_within_a_line_is_whole_again() -> None:
    text = "one long line that was cut somewhere"
    assert join_with_places([_cut(text, 0, 13), _cut(text, 14, 36)])[0] == text


def test_what_a_chunk_repeats_of_the_one_before_stands_once() -> None:
    text = "alpha beta gamma delta epsilon zeta eta theta"
    assert join_with_places([_cut(text, 0, 30), _cut(text, 17, 45)])[0] == text


def test_a_line_that_both_happen_to_share_is_not_lost() -> None:
    text = "end of it\nend of it\nand on"
    assert join_with_places([_cut(text, 0, 9), _cut(text, 10, 26)])[0] == text


ANIMALS = ("ant", "bee", "cat", "dog", "elk", "fox", "gnu")


@pytest.fixture
def reader(tmp_path, make):
    texts = [f"paragraph {number} speaks of {word}" for number, word in enumerate(ANIMALS)]
    with IndexWriter(tmp_path, "c") as writer:
        writer.append(*make.batch([make.document("before", "another document"), make.document("animals", *texts)]))
        writer.append(*make.batch([make.document("after", "yet another document")]))
        writer.publish()
    reader = IndexReader(tmp_path, "c", QuerySettings())
    yield reader
    reader.close()


def _ask(reader: IndexReader, question: str, **more: object):
    return reader.search(Query.model_validate({"query": question, "strategy": Strategy.BM25, **more}))


def test_a_passage_has_the_text_lines_tokens_and_ids_of_its_chunks(reader) -> None:
    (alone,) = _ask(reader, "dog").chunks
    (found,) = _ask(reader, "dog", neighbours=1).chunks
    assert found.text == "\n\n".join(
        f"paragraph {n} speaks of {word}" for n, word in [(2, "cat"), (3, "dog"), (4, "elk")]
    )
    assert (found.start_line, found.end_line) == (21, 49)
    assert found.token_estimate == 15
    assert found.checksum == sha256_text(found.text)
    assert found.chunk_id == alone.chunk_id == found.passage[1]
    assert len(set(found.passage)) == 3
    assert alone.passage == ()


def test_the_document_s_ends_are_the_passage_s_ends(reader) -> None:
    (first,) = _ask(reader, "ant", neighbours=3).chunks
    (last,) = _ask(reader, "gnu", neighbours=3).chunks
    assert (first.start_line, first.end_line) == (1, 39)
    assert (last.start_line, last.end_line) == (31, 69)
    assert "another" not in first.text + last.text


def test_neighbourhoods_that_overlap_become_one_passage_at_the_better_ones_rank(reader) -> None:
    found = _ask(reader, "bee dog dog gnu", neighbours=1)
    best = found.chunks[0]
    assert [(chunk.rank, chunk.start_line, chunk.end_line) for chunk in found.chunks] == [(1, 1, 49), (2, 51, 69)]
    assert "dog" in best.text
    assert best.text.count("cat") == 1


def test_what_lies_between_two_found_ones_joins_them(reader) -> None:
    """bee and fox are apart until dog, found last, reaches both."""
    found = _ask(reader, "bee bee fox fox dog", neighbours=1)
    assert [(chunk.start_line, chunk.end_line) for chunk in found.chunks] == [(1, 69)]


def test_passages_count_in_the_budget_and_fall_back_to_what_was_found(reader) -> None:
    found = _ask(reader, "bee gnu", neighbours=1, max_tokens=20)
    assert [chunk.token_estimate for chunk in found.chunks] == [15, 5] or [
        chunk.token_estimate for chunk in found.chunks
    ] == [10, 5]
    assert sum(chunk.token_estimate for chunk in found.chunks) <= 20
    none = _ask(reader, "bee gnu", neighbours=1, max_tokens=4)
    assert (none.chunks, none.metadata.budget_dropped) == ((), 2)


def test_what_was_found_in_a_passage_stands_where_its_chunks_text_stands_now() -> None:
    text = "pay 123456 and then more of it is SECRET here"
    first, second = _cut(text, 0, 30), _cut(text, 20, 45)
    first = first.model_copy(update={"inspection": Inspection(private=(_span("card", first.text, "123456"),))})
    of_second = Inspection(
        verdict=Verdict.WARNED,
        findings=(Finding(rule="override", start=second.text.index("more"), end=len(second.text)),),
        private=(_span("secret.github-pat", second.text, "SECRET"),),
    )
    second = second.model_copy(update={"inspection": of_second})
    joined, places = join_with_places([first, second])
    inspection = join_inspections([first, second], places)
    assert inspection is not None
    assert inspection.verdict is Verdict.WARNED
    assert joined == text
    assert [text[one.start : one.end] for one in inspection.private] == ["123456", "SECRET"]
    assert [text[one.start : one.end] for one in inspection.findings] == ["more of it is SECRET here"]


def test_a_span_that_two_chunks_repeat_is_one() -> None:
    text = "and before it 123456 and then more"
    chunks = [_cut(text, 0, 24), _cut(text, 10, 34)]
    chunks = [
        one.model_copy(update={"inspection": Inspection(private=(_span("card", one.text, "123456"),))})
        for one in chunks
    ]
    joined, places = join_with_places(chunks)
    inspection = join_inspections(chunks, places)
    assert inspection is not None
    assert [joined[one.start : one.end] for one in inspection.private] == ["123456"]


def test_what_was_found_in_a_header_row_that_a_table_repeats_is_left_out_with_it() -> None:
    chunk = _cut("| head SECRET |\n| row |", 0, 23)
    inspection = Inspection(private=(_span("card", chunk.text, "SECRET"), _span("ssn", chunk.text, "row")))
    found = join_inspections([chunk.model_copy(update={"inspection": inspection})], [Place(10, 16)])
    assert found is not None
    assert found.private == (PrivateSpan(kind="ssn", start=28, end=31),)


def _span(kind: str, text: str, value: str) -> PrivateSpan:
    return PrivateSpan(kind=kind, start=text.index(value), end=text.index(value) + len(value))
