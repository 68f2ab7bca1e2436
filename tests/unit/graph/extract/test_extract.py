"""What is read from one document: each edge once, in one order, for any text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.contracts.graph.model import Edge, EdgeType, GraphDocument, Node, NodeLabel, Origin, document_node, unknown
from sluice.graph.extract.extract import MOST_EDGES, MOST_LINES, extract_edges, parser_version, put_together

_LANGUAGES = (None, "en", "python", "javascript", "typescript", "tsx", "go", "rust", "java", "c", "cpp", "yaml")
_PATHS = (None, "a", "shop/docs/cart.md", "shop/docs/cart.rst", "shop/cart.js", ".mcp.json", "x/mcp/shop.json")


def document(
    path: str | None = None, text: str = "", language: str | None = None, url: str | None = None
) -> GraphDocument:
    return GraphDocument("d1", path, url, None, language, text, {})


def addresses_of(path: str | None, url: str | None = None) -> set[str]:
    edges = extract_edges(document(path, url=url))
    assert all(edge.target == document_node("d1") for edge in edges)
    return {edge.source.key for edge in edges if edge.type is EdgeType.RESOLVES_TO}


def test_a_document_answers_to_its_path_to_every_end_of_it_to_its_name_and_to_its_url() -> None:
    assert addresses_of("shop/web/cart/add.js", "https://shop.example/add?x=1#top") == {
        "path:shop/web/cart/add.js",
        "path:web/cart/add.js",
        "path:cart/add.js",
        "path:?/add.js",
        "https://shop.example/add?x=1",
    }


def test_prose_answers_to_its_path_without_the_suffix_and_what_stands_for_a_folder_to_the_folder() -> None:
    assert {"path:shop/docs", "path:shop/docs/README"} <= addresses_of("shop/docs/README.md")
    assert "path:shop/docs" not in addresses_of("shop/docs/cart.md")


@pytest.mark.parametrize("url", ["ftp://shop.example/", "https://name:word@shop.example/", "no address", "http://["])
def test_what_is_no_web_address_is_answered_to_by_no_document(url: str) -> None:
    assert addresses_of(None, url) == set()


def test_equal_statements_are_one_edge_with_the_lines_of_all_and_the_first_detail_there_is() -> None:
    source, target = document_node("d1"), unknown("python", "save")
    said = [
        Edge(EdgeType.REFERS_TO, source, target, Origin.NAME, (7, 3)),
        Edge(EdgeType.REFERS_TO, source, target, Origin.NAME, (3, 1), "first"),
        Edge(EdgeType.REFERS_TO, source, target, Origin.NAME, (), "second"),
    ]
    assert put_together(said) == (Edge(EdgeType.REFERS_TO, source, target, Origin.NAME, (1, 3, 7), "first"),)


def test_edges_and_lines_of_one_document_are_bounded() -> None:
    source = document_node("d1")
    many = [
        Edge(EdgeType.REFERS_TO, source, unknown("c", f"f{n}"), Origin.NAME, tuple(range(1, 500 if n == 0 else 2)))
        for n in range(MOST_EDGES + 10)
    ]
    edges = put_together(many)
    assert len(edges) == MOST_EDGES
    assert edges[0].lines == tuple(range(1, MOST_LINES + 1))


@pytest.mark.parametrize("key", ["x" * 2_000, "half \ud800", "two\nlines", ""])
def test_a_key_that_cannot_be_kept_is_left_out(key: str) -> None:
    assert put_together([Edge(EdgeType.LINKS_TO, document_node("d1"), Node(NodeLabel.URL, key), Origin.LINK)]) == ()


def test_the_version_of_the_parsers_is_short_and_stays() -> None:
    assert 0 < len(parser_version()) <= 16
    assert parser_version().isascii()


@given(
    text=st.text(),
    path=st.sampled_from(_PATHS) | st.text(),
    language=st.sampled_from(_LANGUAGES),
    url=st.none() | st.text(),
)
def test_no_text_makes_it_raise_and_the_same_text_gives_the_same_edges(
    text: str, path: str | None, language: str | None, url: str | None
) -> None:
    edges = extract_edges(document(path, text, language, url))
    assert edges == extract_edges(document(path, text, language, url))
    assert list(edges) == sorted(set(edges))
