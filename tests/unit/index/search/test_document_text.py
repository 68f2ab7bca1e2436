"""A document's text put together from its chunks has every word in the line that citations name."""

from __future__ import annotations

import itertools
import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from sluice.contracts.document import Chunk, Document, Provenance, sha256_text
from sluice.contracts.trust import Inspection, PrivateSpan, Verdict
from sluice.index.search.passages import JoinedText, LineRange, join_chunks
from sluice.ingest.chunk.chunk import chunk_document
from sluice.ingest.embed.tokens import load_tokenizer
from sluice.ingest.extract.extract import extract_document
from sluice.ingest.settings import ChunkSettings

SOURCE = Provenance(source="file", fetched_at=datetime(2024, 1, 1, tzinfo=UTC))
WORDS = st.sampled_from(
    ["alpha", "Beta.", "gämma", "δέλτα", "(x)", "日本語。", sha256_text("long") * 2, "1,234", "the", "the"]
)
LINES = st.lists(WORDS, max_size=60).map(" ".join)
MARKDOWN = st.lists(
    st.one_of(
        LINES,
        st.builds("{} {}".format, st.sampled_from(["#", "##", "###"]), LINES),
        st.sampled_from(["", "", "```", "- item", "| a | b |", "| - | - |", "| one | two |", "> quote", "    code"]),
    ),
    max_size=40,
).map("\n".join)


@lru_cache(maxsize=1)
def tokenizer() -> Tokenizer:
    return load_tokenizer(None)


def chunks_of(text: str, media_type: str, **settings: int) -> tuple[str, tuple[Chunk, ...]]:
    document = Document(id="d", media_type=media_type, provenance=SOURCE, text=text)
    extracted = extract_document(document)
    return extracted.text, chunk_document(document, extracted, ChunkSettings(**settings), tokenizer()).chunks


def words_by_line(text: str) -> list[str]:
    """Each line without its white space: a cut within a line may lose or add some."""
    return ["".join(line.split()) for line in text.rstrip().split("\n")]


@pytest.mark.parametrize("settings", [{}, {"max_tokens": 40}])
@pytest.mark.parametrize("media_type", ["text/markdown", "text/plain", "text/x-python"])
@given(text=MARKDOWN)
def test_every_line_of_the_text_has_its_number(text: str, media_type: str, settings: dict[str, int]) -> None:
    """Words differ: whether one that stands at an end and at the next beginning was repeated cannot be told."""
    numbers = itertools.count()
    text = re.sub(r"[^\W\d_]+", lambda word: f"{word[0]}{next(numbers)}", text)
    extracted, chunks = chunks_of(text, media_type, **settings)
    if chunks:
        assert words_by_line(join_chunks(chunks).text) == words_by_line(extracted)


def test_what_overlapping_chunks_repeat_stands_once() -> None:
    """As they stand in corpora that an earlier release chunked with an overlap: each repeats the end of a line."""
    lines = [f"Line number {number} of the text has some words, {number} of them." for number in range(40)]
    parts = ["\n".join([lines[at - 1].split(" ", 3)[3]] * (at > 0) + lines[at : at + 4]) for at in range(0, 40, 4)]
    chunks = [chunk(number, part, max(1, 4 * number), 4 * number + 4) for number, part in enumerate(parts)]
    assert sum(len(one.text) for one in chunks) > 1.1 * len("\n".join(lines))
    assert join_chunks(chunks).text == "\n".join(lines)


def chunk(ordinal: int, text: str, start: int, end: int | None = None, **facts: Any) -> Chunk:
    return Chunk(
        chunk_id=f"c{ordinal}",
        document_id="d",
        ordinal=ordinal,
        text=text,
        start_line=start,
        end_line=start + text.count("\n") if end is None else end,
        token_estimate=1,
        checksum=sha256_text(text),
        **facts,
    )


def test_what_lies_between_chunks_is_empty_lines_and_what_was_left_out_is_named() -> None:
    blocked = Inspection(verdict=Verdict.BLOCKED)
    whole = [chunk(0, "one", 2), chunk(1, "two\nthree", 4, inspection=blocked), chunk(2, "six", 7)]
    expected = JoinedText("\none\n\n\n\n\nsix", (), (LineRange(3, 6),))
    assert join_chunks(whole) == expected
    assert join_chunks([whole[2], whole[0]]) == expected, "a chunk in quarantine is not in the index at all"


def test_a_repeated_header_of_a_table_stands_once() -> None:
    parts = [chunk(0, "| a |\n| - |\n| 1 |", 3), chunk(1, "| a |\n| - |\n| 2 |\n| 3 |", 6, 7)]
    assert join_chunks(parts).text.split("\n")[2:] == ["| a |", "| - |", "| 1 |", "| 2 |", "| 3 |"]


def test_private_spans_move_with_their_text() -> None:
    def private(start: int, end: int) -> Inspection:
        return Inspection(private=(PrivateSpan(kind="secret.key", start=start, end=end),))

    parts = [
        chunk(0, "first line\nsecond SECRET", 1, inspection=private(18, 24)),
        chunk(1, "second SECRET and more", 2, inspection=private(7, 13)),
        chunk(2, "| a |\n| - |\n| HIDDEN |", 4, 4, inspection=private(14, 20)),
    ]
    joined = join_chunks(parts)
    assert joined.text == "first line\nsecond SECRET and more\n\n| HIDDEN |"
    assert [joined.text[one.start : one.end] for one in joined.private] == ["SECRET", "HIDDEN"]
