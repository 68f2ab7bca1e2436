"""The link of a citation opens at the passage: heading, text fragment, page or line."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import pytest

from sluice.contracts.document import Provenance
from sluice.contracts.retrieval import RetrievedChunk
from sluice.index.search.citation_link import link_of, text_directive

FETCHED = Provenance(source="crawl", fetched_at=datetime(2026, 1, 1, tzinfo=UTC))


def chunk(text: str = "Download the file.", **facts: Any) -> RetrievedChunk:
    defaults: dict[str, Any] = {
        "chunk_id": "c",
        "document_id": "d",
        "url": None,
        "file_path": None,
        "start_line": 10,
        "end_line": 24,
        "language": "en",
        "section_path": (),
        "symbol_path": None,
        "title": None,
        "text": text,
        "token_estimate": 3,
        "checksum": "0" * 64,
        "metadata": {},
        "provenance": FETCHED,
        "dense_distance": None,
        "dense_rank": None,
        "lexical_score": 1.0,
        "lexical_rank": 1,
        "fused_score": 1.0,
        "rank": 1,
        "trust": 1.0,
    }
    return RetrievedChunk.model_validate(defaults | facts)


@pytest.mark.parametrize(
    ("facts", "link"),
    [
        ({"url": "https://e.org/g", "anchor": "install"}, "https://e.org/g#install:~:text=Download%20the%20file."),
        ({"url": "https://e.org/g"}, "https://e.org/g#:~:text=Download%20the%20file."),
        ({"url": "https://e.org/g#old"}, "https://e.org/g#old:~:text=Download%20the%20file."),
        (
            {"url": "https://e.org/g#old", "anchor": "new é"},
            "https://e.org/g#new%20%C3%A9:~:text=Download%20the%20file.",
        ),
        ({"url": "https://e.org/g", "anchor": "install", "text": ""}, "https://e.org/g#install"),
        ({"url": "https://e.org/p.pdf", "page": 3}, "https://e.org/p.pdf#page=3"),
        ({"file_path": "docs/p.pdf", "page": 3}, "docs/p.pdf#page=3"),
        ({"file_path": "deck.pptx", "page": 3, "anchor": "slide 4"}, "deck.pptx"),
        ({"file_path": "docs/g.md"}, "docs/g.md:10"),
        ({"file_path": "src/a.py"}, "src/a.py:10"),
        ({"file_path": "docs/g.html", "anchor": "install"}, "docs/g.html#install"),
        ({"file_path": "docs/g.html"}, "docs/g.html"),
        ({}, None),
    ],
)
def test_each_kind_of_document_is_opened_in_its_own_way(facts: dict[str, Any], link: str | None) -> None:
    assert link_of(chunk(**facts)) == link


def test_what_a_caller_handed_in_has_no_link_as_its_address_is_only_a_claim() -> None:
    handed_in = Provenance(source="submission", fetched_at=FETCHED.fetched_at)
    assert link_of(chunk(url="https://docs.python.org/3/", provenance=handed_in)) is None
    assert link_of(chunk(file_path="docs/a.md", provenance=handed_in)) is None


@pytest.mark.parametrize(
    ("passage", "directive"),
    [
        ("## Install\n\nDownload the **file**, and start it.", "text=Download the file, and start it."),
        ("Use `run -x` & *wait* - please.", "text=Use run -x & wait - please."),
        (
            "- one two three four five six seven\n- more words to be found here now, last",
            "text=one two three four five six|to be found here now, last",
        ),
        ("1. > quoted words of a list here", "text=quoted words of a list here"),
        ("\\# no heading but plain text", "text=# no heading but plain text"),
        ("| name | value |\n| --- | --- |\n| the longest cell | 1 |", "text=the longest cell"),
        ("| a \\| b of cells | x |", "text=a | b of cells"),
        ("```python\nimport heapq\n```", "text=import heapq"),
        ("# Only a title", "text=Only a title"),
        ("2 * 3 * 4 is not emphasis", "text=2 * 3 * 4 is not emphasis"),
        ("これは長い文章です。" * 20, "text=これは長い文章です。|これは長い文章です。"),
        ("The key is [secret: aws-key] here.\nThis line is quoted.", "text=This line is quoted."),
        ("Write to [email] for more.", None),
        ("A snippet of a page … https://e.org/g", "text=A snippet of a page"),
        ("A **word** and *emphasis that goes on", "text=A word and|that goes on"),
        ("```\n```\n", None),
        ("", None),
    ],
)
def test_the_text_fragment_has_the_words_that_the_page_shows(passage: str, directive: str | None) -> None:
    found = text_directive(passage)
    assert (found and "|".join(unquote(part) for part in found.split(","))) == directive


def test_dash_comma_and_ampersand_are_encoded_as_they_have_a_meaning_in_a_directive() -> None:
    words = text_directive("well-known, useful & short words")
    assert words == "text=well%2Dknown%2C%20useful%20%26%20short%20words"


def test_the_address_behind_a_snippet_is_no_part_of_the_words_that_its_link_names() -> None:
    url = "https://example.org/page"
    whole, cut = (
        chunk("Some words that the page shows", url=url),
        chunk(f"Some words that the page shows … {url}", url=url),
    )
    assert link_of(cut) == link_of(whole)
