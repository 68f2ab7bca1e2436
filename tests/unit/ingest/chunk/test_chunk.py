"""Chunking: deterministic passages that lose no word, know their place, and fit the model's window."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tokenizers import Tokenizer

from sluice.contracts.document import ChunkedDocument, Document, Provenance, embedding_text, sha256_text
from sluice.ingest.chunk.chunk import chunk_document
from sluice.ingest.embed.tokens import count_tokens, load_tokenizer
from sluice.ingest.extract.extract import extract_document, extract_text
from sluice.ingest.settings import ChunkSettings
from tests.support.repository import DATA

SOURCE = Provenance(source="file", fetched_at=datetime(2024, 1, 1, tzinfo=UTC))
DEFAULTS = ChunkSettings()

WORDS = st.sampled_from(
    ["alpha", "Beta.", "gämma", "δέλτα", "it's", "(x)", "日本語。", "na\u00efve", "a" * 150, "1,234", "—"]
)
LINES = st.lists(WORDS, max_size=40).map(" ".join)
MARKDOWN = st.lists(
    st.one_of(
        LINES,
        st.builds("{} {}".format, st.sampled_from(["#", "##", "###", "####"]), LINES),
        st.sampled_from(["", "", "```", "- item", "| a | b |", "| - | - |", "> quote", "---", "    code"]),
    ),
    max_size=30,
).map("\n".join)


@lru_cache(maxsize=1)
def tokenizer() -> Tokenizer:
    return load_tokenizer(None)


def chunked(text: str, media_type: str = "text/markdown", **fields: Any) -> ChunkedDocument:
    limits = fields.pop("settings", DEFAULTS)
    document = Document(id="d", media_type=media_type, provenance=SOURCE, text=text, **fields)
    return chunk_document(document, extract_document(document), limits, tokenizer())


def paragraphs(count: int) -> str:
    return "\n\n".join(f"Paragraph {number} says something about topic {number}." for number in range(count))


def test_a_short_document_is_one_chunk() -> None:
    (chunk,) = chunked("# Title\n\nA few words.\n").chunks
    assert (chunk.text, chunk.start_line, chunk.end_line) == ("# Title\n\nA few words.", 1, 3)
    assert chunk.section_path == ("Title",)
    assert chunk.token_estimate == count_tokens(chunk.text, tokenizer())
    assert chunk.checksum == sha256_text(chunk.text)


def test_large_sections_stand_alone_under_their_breadcrumb() -> None:
    text = f"# Guide\n\n{paragraphs(18)}\n\n## Install\n\n{paragraphs(18)}\n\n## Use\n\n{paragraphs(18)}\n"
    found = chunked(text)
    assert {chunk.section_path for chunk in found.chunks} == {("Guide",), ("Guide", "Install"), ("Guide", "Use")}
    assert any(chunk.text.startswith("## Install\n\nParagraph 0") for chunk in found.chunks)


def test_small_neighbours_share_a_chunk_under_what_they_have_in_common() -> None:
    (chunk,) = chunked("# A\n\n## B\n\nb\n\n## C\n\nc\n").chunks
    assert chunk.section_path == ("A",)


def test_a_heading_is_never_a_chunk_alone() -> None:
    body = "word " * 500
    for text in (
        f"# Heading\n\n{body}",
        f"# A\n\n## B\n\n{body}",
        f"# L\n\n- {body}\n- {body}",
        f"# T\n\n{paragraphs(80)}",
    ):
        first = chunked(text).chunks[0]
        assert len(first.text.splitlines()[-1]) > 20


def test_a_heading_inside_a_code_fence_is_no_section() -> None:
    (chunk,) = chunked("# A\n\n```\n# comment\n```\n").chunks
    assert chunk.section_path == ("A",)


def test_lines_point_into_the_text() -> None:
    text = f"# A\n\n{paragraphs(60)}\n\n## B\n\n{paragraphs(60)}\n"
    lines = text.split("\n")
    for chunk in chunked(text).chunks:
        own = lines[chunk.start_line - 1 : chunk.end_line]
        assert chunk.text.split("\n")[-len(own) :] == own


def test_identical_passages_have_ids_of_their_own() -> None:
    body = "The same sentence again. " * 40
    found = chunked(f"# A\n\n{body}\n\n# A\n\n{body}\n")
    ids = [chunk.chunk_id for chunk in found.chunks]
    assert len(set(ids)) == len(ids)
    assert all(len(chunk_id) == 32 and int(chunk_id, 16) >= 0 for chunk_id in ids)


def test_ids_depend_on_source_and_normalised_content_only() -> None:
    one = chunked("Some  words\nhere", "text/plain", url="https://a.example/x")
    same = chunked("Some words here ", "text/plain", url="https://a.example/x", metadata={"a": 1})
    other = chunked("Some words here", "text/plain", url="https://a.example/y")
    assert one.chunks[0].chunk_id == same.chunks[0].chunk_id != other.chunks[0].chunk_id
    assert one.checksum == same.checksum == other.checksum


def test_the_title_is_part_of_the_checksum() -> None:
    assert chunked("text", title="One").checksum != chunked("text", title="Two").checksum


def test_an_empty_document_has_no_chunks() -> None:
    for text in ("", " \n\t\n", "\u200b"):
        assert chunked(text, "text/plain").chunks == ()


def test_the_natural_language_is_told_once_per_document() -> None:
    assert chunked("Das ist ein deutscher Satz über das Wetter von heute.", "text/plain").language == "de"
    assert chunked("ok", "text/plain").language is None


def test_html_is_extracted_and_its_facts_fill_the_gaps() -> None:
    page = "<html lang=fr><title>Titre</title><meta name=author content=Ada><body><h1>Un</h1><p>texte</p>"
    found = chunked(page, "text/html", url="https://a.example/")
    assert (found.title, found.language, found.provenance.author) == ("Titre", "fr", "Ada")
    assert found.chunks[0].section_path == ("Un",)
    assert chunked(page, "text/html", title="Given").title == "Given"


def test_long_titles_and_headings_leave_room_for_text() -> None:
    heading = "very long heading " * 60
    found = chunked(f"# {heading}\n\n## {heading}\n\n{paragraphs(40)}", title="endless title " * 200)
    for text in found.embedding_texts():
        assert count_tokens(text, tokenizer()) <= DEFAULTS.window_tokens
    assert found.title is not None
    assert found.title.endswith("…")


def test_a_line_without_words_is_cut() -> None:
    found = chunked("x" * 100_000, "text/plain")
    assert max(len(chunk.text) for chunk in found.chunks) <= 16 * DEFAULTS.max_tokens
    assert "".join(chunk.text for chunk in found.chunks) == "x" * 100_000


def test_words_too_long_for_the_model_are_parted_without_white_space_around_them() -> None:
    words = [letter * 250 for letter in "abcd"]
    found = chunked(f"{words[0]} {words[1]}\n\n{words[2]}\n\n{words[3]}", settings=ChunkSettings(max_tokens=40))
    assert len(found.chunks) > 1
    assert all(chunk.text == chunk.text.strip() for chunk in found.chunks)
    assert all(chunk.text.count("\n") == chunk.end_line - chunk.start_line for chunk in found.chunks)
    assert "".join("".join(chunk.text.split()) for chunk in found.chunks) == "".join(words)


def test_limits_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValidationError, match="window_tokens"):
        ChunkSettings(max_tokens=500)


@given(text=MARKDOWN, media_type=st.sampled_from(["text/markdown", "text/plain"]), title=st.none() | LINES)
def test_no_word_is_lost_and_every_limit_holds(text: str, media_type: str, title: str | None) -> None:
    found = chunked(text, media_type, title=title or None)
    assert found == chunked(text, media_type, title=title or None)
    assert [chunk.ordinal for chunk in found.chunks] == list(range(len(found.chunks)))
    assert len({chunk.chunk_id for chunk in found.chunks}) == len(found.chunks)
    # Endless words are cut in the middle, so the letters are compared, not the words. Markdown shows fewer than it has.
    text = extract_text(text, media_type).text
    assert "".join("".join(chunk.text.split()) for chunk in found.chunks) == "".join(text.split())
    lines = text.split("\n")
    for chunk, embedded in zip(found.chunks, found.embedding_texts(), strict=True):
        assert chunk.text == chunk.text.strip() != ""
        assert chunk.text in "\n".join(lines[chunk.start_line - 1 : chunk.end_line])
        assert count_tokens(chunk.text, tokenizer()) <= DEFAULTS.max_tokens
        assert count_tokens(embedded, tokenizer()) <= DEFAULTS.window_tokens
        assert embedded == embedding_text(found.title, chunk)


def abstracts(count: int) -> Iterator[Document]:
    path = DATA / "scifact_train" / "corpus.jsonl"
    if not path.exists():
        pytest.skip(f"the public collection {path} is not on this machine")
    with path.open() as lines:
        for line, _ in zip(lines, range(count), strict=False):
            fields = json.loads(line)
            yield Document(
                id=fields["_id"], media_type="text/plain", provenance=SOURCE, text=fields["text"], title=fields["title"]
            )


def test_real_abstracts_are_chunked_within_the_limits() -> None:
    documents = list(abstracts(150))
    found = [chunk_document(document, extract_document(document), DEFAULTS, tokenizer()) for document in documents]
    for document in found:
        assert all(count_tokens(text, tokenizer()) <= DEFAULTS.window_tokens for text in document.embedding_texts())


def test_the_charset_that_the_server_declared_is_used() -> None:
    russian = "<p>Добрый день, это русский текст.</p>"
    data = base64.b64encode(russian.encode("windows-1251"))
    document = Document.model_validate(
        {"id": "d", "media_type": "text/html; charset=windows-1251", "data": data, "provenance": SOURCE}
    )
    assert (
        chunk_document(document, extract_document(document), DEFAULTS, tokenizer()).chunks[0].text
        == "Добрый день, это русский текст."
    )


def test_control_characters_in_a_page_are_dropped_and_not_its_end() -> None:
    page = "<h1>Title</h1><div class='heading'>a\x01b&#2;c</div><dl><dt id='x'>t\x0bt</dt><dd>d</dd></dl>\x1ftail"
    (chunk,) = chunked(page, "text/html").chunks
    assert "abc" in chunk.text
    assert "tail" in chunk.text


def test_hostile_nesting_is_split_in_time() -> None:
    nested = "".join(f"{' ' * depth}- x\n" for depth in range(600))
    started = process_time()
    assert len(chunked(nested).chunks) > 1
    assert process_time() - started < 2
