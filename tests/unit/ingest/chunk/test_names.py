"""A passage holds the name of what it is about, a heading or a term; none begins just below it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sluice.contracts.document import ChunkedDocument, Document, Provenance
from sluice.ingest.chunk.chunk import chunk_to_limit
from sluice.ingest.embed.tokens import count_tokens, shared_tokenizer
from sluice.ingest.extract.extract import extract_document
from sluice.ingest.settings import ChunkSettings

SOURCE = Provenance(source="file", fetched_at=datetime(2024, 1, 1, tzinfo=UTC))
NAMES = [f"option_{number}" for number in range(12)]


def chunked(text: str, media_type: str) -> ChunkedDocument:
    document = Document(id="d", media_type=media_type, provenance=SOURCE, text=text)
    found = chunk_to_limit(document, extract_document(document), ChunkSettings(), shared_tokenizer())
    for chunk in found.document.chunks:
        assert chunk.token_estimate == count_tokens(chunk.text, shared_tokenizer()) <= ChunkSettings().max_tokens
    return found.document


def words_of(name: str, sentences: int = 9) -> list[str]:
    return [f"Sentence {number} on how {name.upper()} changes what is done by the pump." for number in range(sentences)]


def in_markdown() -> str:
    return "# Options\n\n" + "\n\n".join(f"**{name}**\n\n" + "\n\n".join(words_of(name)) for name in NAMES)


def in_html() -> str:
    terms = (f"<dt>{name}</dt><dd>{''.join(f'<p>{one}</p>' for one in words_of(name))}</dd>" for name in NAMES)
    return f"<html><body><main><h1>Options</h1><dl>{''.join(terms)}</dl></main></body></html>"


def in_restructured(directive: str) -> str:
    bodies = ("\n\n".join("   " + one for one in words_of(name)) for name in NAMES)
    return "Options\n=======\n\n" + "\n\n".join(
        f".. {directive}:: {name}\n\n{body}" for name, body in zip(NAMES, bodies, strict=True)
    )


@pytest.mark.parametrize(
    ("text", "media_type"),
    [
        (in_markdown(), "text/markdown"),
        (in_html(), "text/html"),
        (in_restructured("setting"), "text/x-rst"),
        (in_restructured("py:function"), "text/x-rst"),
    ],
)
def test_each_passage_of_a_definition_holds_its_term(text: str, media_type: str) -> None:
    for chunk in chunked(text, media_type).chunks:
        for name in NAMES[:-1]:
            if f"how {name.upper()} " in chunk.text:
                assert name in chunk.text
        assert chunk.text.rstrip("*`\n").rpartition("\n")[2].strip("*# `") not in NAMES, "it ends with a name"


def test_each_passage_of_a_long_section_begins_with_its_heading_and_names_its_own_lines() -> None:
    text = "# Pumps\n\n## Valves\n\n" + "\n\n".join(words_of("x", 60)) + "\n"
    lines = text.split("\n")
    first, *others = chunked(text, "text/markdown").chunks
    assert first.text.startswith("# Pumps\n\n## Valves\n\n")
    assert len(others) > 2
    for chunk in others:
        heading, _, own = chunk.text.partition("\n")
        assert heading == "## Valves"
        assert own == "\n".join(lines[chunk.start_line - 1 : chunk.end_line]).rstrip()


def test_words_behind_the_last_term_are_not_said_to_be_of_it() -> None:
    text = "# Options\n\n**--quiet**\n\n" + "\n\n".join(words_of("x", 60))
    last = chunked(text, "text/markdown").chunks[-1]
    assert last.text.startswith("# Options\nSentence")
