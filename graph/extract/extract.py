"""Reads one document into edges. What it says depends on the document alone, never on what else is indexed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from itertools import chain
from pathlib import PurePosixPath

from tree_sitter import Tree

from sluice.contracts.grammar import has_grammar, parse
from sluice.contracts.graph.model import Edge, GraphDocument
from sluice.graph.extract.addresses import own_addresses
from sluice.graph.extract.languages.edges import tagged_edges
from sluice.graph.extract.languages.table import RULES
from sluice.graph.extract.links import link_edges
from sluice.graph.extract.mentions import languages_of, mention_edges
from sluice.graph.extract.prose.comments import read_comments
from sluice.graph.extract.prose.lines import read_lines
from sluice.graph.extract.prose.markdown import read_markdown
from sluice.graph.extract.prose.pieces import Piece
from sluice.graph.extract.prose.restructured import is_restructured, read_restructured
from sluice.graph.extract.python.edges import python_edges
from sluice.graph.extract.samples import sample_edges
from sluice.graph.extract.statements import put_together
from sluice.graph.extract.test_reports import failing_test_edges, is_test_report
from sluice.graph.extract.tool_lists import may_list_tools, tool_list_edges

_RULES = 3
"""Raised with every change of what is read from the same text, so that the graph is read anew."""
_PARSERS = (
    "tree-sitter",
    "markdown-it-py",
    *(f"tree-sitter-{name}" for name in ("c", "cpp", "go", "java", "javascript", "python", "rust", "typescript")),
)
_DATA = frozenset({".json", ".jsonl", ".xml", ".csv", ".tsv", ".log", ".rss", ".atom"})
_RESTRUCTURED = frozenset({".rst", ".txt", ".text", ""})


def extract_edges(document: GraphDocument) -> tuple[Edge, ...]:
    """All that the document states: its addresses, definitions, references, links, mentions, tools and failing tests.

    Each edge once, in ascending order. Raises nothing for any text, and takes time linear in it.
    """
    return put_together(chain(own_addresses(document), _statements(document)))


@cache
def parser_version() -> str:
    """Stands for all that decides what is read from a text: our rules and the versions of the parsers."""
    parsers = " ".join(f"{name}=={version(name)}" for name in _PARSERS)
    return f"{_RULES}-{hashlib.sha256(parsers.encode()).hexdigest()[:8]}"


def is_source_code(language: str | None) -> bool:
    """Whether a document's language is one of programs: natural ones have codes of two letters."""
    return language is not None and (len(language) > 2 or language in ("c", "go", "r"))


def _statements(document: GraphDocument) -> Iterator[Edge]:
    if is_test_report(document):
        yield from failing_test_edges(document)
        return
    if may_list_tools(document):
        yield from tool_list_edges(document)
    language = document.language
    tree = parse(language, document.text.encode("utf-8", "replace")) if has_grammar(language) else None
    if tree is not None:
        yield from python_edges(document, tree) if language == "python" else tagged_edges(document, tree)
    pieces = list(_pieces(document, tree))
    yield from link_edges(document, pieces)
    yield from mention_edges(document, pieces, _named_in(language, pieces))
    yield from sample_edges(document, pieces)


def _named_in(language: str | None, pieces: list[Piece]) -> tuple[str, ...]:
    """The languages in which names of a text are looked for."""
    if language in RULES:
        return (RULES[language].language,)
    return languages_of(pieces)


def _pieces(document: GraphDocument, tree: Tree | None) -> Iterator[Piece]:
    suffix, language = _suffix(document), document.language
    if has_grammar(language):
        return read_comments(tree, language)
    if is_source_code(language) or suffix in _DATA:
        return read_lines(document.text)
    if suffix in _RESTRUCTURED and (suffix == ".rst" or is_restructured(document.text)):
        return read_restructured(document.text)
    return read_markdown(document.text)


def _suffix(document: GraphDocument) -> str:
    name = document.path or (document.url or "").partition("?")[0].partition("#")[0]
    return PurePosixPath(name).suffix.lower()
