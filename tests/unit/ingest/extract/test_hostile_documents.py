"""Every parse ends within seconds of processor time, whatever the document is made of.

Each row once took minutes, or is built like one that did. The bounds are generous: what is quadratic misses them by far.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from sluice.contracts.errors import InvalidInput
from sluice.ingest.crawl.page_scan import read_page
from sluice.ingest.crawl.sitemap import read_sitemap
from sluice.ingest.extract.extract import extract

CPU_SECONDS = 6.0
"""Three times what a document may take on an idle core."""


def attributes(count: int, mark: str = "") -> str:
    return " ".join(f"a{number}={mark}1{mark}" for number in range(count))


def quoted(count: int) -> str:
    return attributes(count, '"')


def entity(number: int) -> str:
    return f'<!ENTITY e{number + 1} "&e{number};&e{number};">'


HTML: dict[str, Callable[[], str]] = {
    "a tag of 40,000 attributes": lambda: f"<div {attributes(40_000)}>text</div>",
    "twelve paragraphs of 8,000 attributes": lambda: f"<p {attributes(8_000)}>text" * 12,
    "60,000 nested drawings": lambda: "<svg><g>" * 60_000,
    "100,000 nested boxes": lambda: "<div>" * 100_000 + "text",
    "100,000 nested links": lambda: "<a href=/x>" * 100_000,
    "100,000 hidden words": lambda: "<p>" + "<b hidden>x" * 100_000,
    "100,000 paragraphs": lambda: "<p>x" * 100_000,
    "one attribute of five million characters": lambda: f"<p class='{'a ' * 2_500_000}'>text",
}
OTHERS: dict[str, tuple[str, Callable[[], str]]] = {
    "JSON, 100,000 deep": ("application/json", lambda: '{"a":' * 100_000 + "1" + "}" * 100_000),
    "JSON, a million brackets": ("application/json", lambda: "[" * 1_000_000),
    "XML, a tag of 100,000 attributes": ("application/xml", lambda: f"<a {quoted(100_000)}>text</a>"),
    "XML, 100,000 deep": ("application/xml", lambda: "<a>" * 100_000),
    "XML, entities of entities": (
        "application/xml",
        lambda: f"<!DOCTYPE a [{''.join(map(entity, range(60)))}]><a>&e60;</a>",
    ),
    "a feed of 100,000 items": (
        "application/rss+xml",
        lambda: "<rss><channel>" + "<item><description>&lt;p&gt;words</description></item>" * 100_000,
    ),
    "Markdown, a million comments": ("text/markdown", lambda: "<!--" * 1_000_000),
    "Markdown, 100,000 hidden blocks": ("text/markdown", lambda: "<div hidden>" * 100_000),
}


def cpu_seconds(read: Callable[[], object]) -> float:
    """How long `read` takes the processor; a refusal by name is an end too."""
    started = time.thread_time()
    with suppress(InvalidInput):
        read()
    return time.thread_time() - started


@pytest.mark.parametrize("name", HTML)
def test_a_page_is_scanned_for_links_in_seconds(name: str) -> None:
    page = HTML[name]()
    assert cpu_seconds(lambda: read_page(page, "https://a.example/", "Bot")) < CPU_SECONDS


@pytest.mark.parametrize("name", HTML)
def test_a_page_is_extracted_in_seconds(name: str) -> None:
    page = HTML[name]().encode()
    assert cpu_seconds(lambda: extract(page, "text/html", url="https://a.example/")) < CPU_SECONDS


@pytest.mark.parametrize("name", OTHERS)
def test_another_document_is_extracted_in_seconds(name: str) -> None:
    media_type, document = OTHERS[name]
    body = document().encode()
    assert cpu_seconds(lambda: extract(body, media_type, url="https://a.example/")) < CPU_SECONDS


@pytest.mark.parametrize(
    "sitemap",
    [
        lambda: f"<urlset {quoted(100_000)}><url><loc>https://a.example/x</loc></url></urlset>",
        lambda: "<urlset>" * 100_000,
        lambda: "<urlset>" + "<url><loc>https://a.example/x</loc></url>" * 100_000,
    ],
)
def test_a_sitemap_is_read_in_seconds(sitemap: Callable[[], str]) -> None:
    body = sitemap().encode()
    assert cpu_seconds(lambda: read_sitemap(body, "https://a.example/sitemap.xml")) < CPU_SECONDS


def test_a_tag_of_too_many_attributes_keeps_its_first_ones_and_the_page_its_links() -> None:
    page = f"<a href=/first {attributes(40_000)}>one</a><a href=/second>two</a>"
    assert [link.url for link in read_page(page, "https://a.example/", "Bot").anchors] == [
        "https://a.example/first",
        "https://a.example/second",
    ]


def test_links_deeper_than_the_tree_are_found() -> None:
    page = "<div>" * 1_000 + "<a href=/deep>deep</a>"
    assert [link.url for link in read_page(page, "https://a.example/", "Bot").anchors] == ["https://a.example/deep"]


@pytest.mark.parametrize("inner", ["0,", "[],", '"a",', '{"a":1},', "1e9,"])
@pytest.mark.parametrize("depth", [1, 60, 500])
def test_json_is_laid_out_in_room_and_time_for_its_length(depth: int, inner: str) -> None:
    text = "[" * depth + inner * 200_000 + "0" + "]" * depth
    started = time.thread_time()
    laid_out = extract(text.encode(), "application/json").text
    assert len(laid_out) < 5 * len(text)
    assert time.thread_time() - started < CPU_SECONDS
