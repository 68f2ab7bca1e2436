"""Of a page whose site or licence asks for it, a snippet and the address are shown."""

from __future__ import annotations

import pytest

from sluice.contracts.document import Provenance
from sluice.contracts.trust import Inspection, PrivateSpan
from sluice.trust.snippets import cut_at_word, shorten_snippets, snippet_length
from tests.support.retrieved import NOW, retrieval_of, retrieved

WORDS = " ".join(f"word{number}" for number in range(100))


def crawled(max_snippet: int | None = None) -> Provenance:
    return Provenance(source="crawl", fetched_at=NOW, max_snippet=max_snippet)


@pytest.mark.parametrize(
    ("licence", "limit"),
    [
        ("CC-BY-NC-4.0", 200),
        ("https://creativecommons.org/licenses/by-nc/4.0/", 200),
        ("All rights reserved.", 200),
        ("MIT", None),
        ("", None),
    ],
)
def test_a_licence_of_the_list_lets_two_hundred_characters_be_shown(licence: str, limit: int | None) -> None:
    assert snippet_length(crawled(), {"licence": licence}, ("*by-nc*", "all rights reserved*")) == limit


def test_the_strictest_of_site_and_licence_counts() -> None:
    assert snippet_length(crawled(50), {"licence": "cc-by-nc"}, ("cc-by-nc",)) == 50
    assert snippet_length(crawled(500), {"licence": "cc-by-nc"}, ("cc-by-nc",)) == 200
    assert snippet_length(crawled(500), {}, ()) == 500


def test_a_text_is_cut_at_a_word_and_the_address_follows() -> None:
    found = retrieval_of(retrieved("a", WORDS, provenance=crawled(60)), retrieved("b", WORDS))
    first, second = shorten_snippets(found, ()).chunks
    shown, _, address = first.text.partition(" … ")
    assert len(shown) <= 60
    assert WORDS.startswith(shown + " ")
    assert address == first.url
    assert first.token_estimate < second.token_estimate
    assert second.text == WORDS


def test_lines_and_spans_are_those_of_what_is_left() -> None:
    text = "one line here\n" * 20
    inspection = Inspection(
        private=(PrivateSpan(kind="card", start=2, end=8), PrivateSpan(kind="ssn", start=100, end=110))
    )
    chunk = retrieved("a", text, end_line=20, provenance=crawled(40), inspection=inspection)
    shown = shorten_snippets(retrieval_of(chunk), ()).chunks[0]
    assert shown.end_line == 3
    assert shown.inspection is not None
    assert [span.kind for span in shown.inspection.private] == ["card"]


def test_one_long_word_is_cut_where_the_limit_is() -> None:
    assert cut_at_word("x" * 300, 200) == "x" * 200
    assert cut_at_word("short", 200) == "short"
