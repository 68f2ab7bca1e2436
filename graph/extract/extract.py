"""Reads one document into edges. The result depends on the document alone, never on the rest of the index."""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from itertools import chain
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from sluice.contracts.document import PageLink
from sluice.contracts.errors import NotInstalled, needed
from sluice.contracts.graph.model import Edge, EdgeType, GraphDocument, Node, Origin
from sluice.graph.extract.addresses import link_edges, own_addresses
from sluice.graph.extract.languages.edges import RULES, tagged_edges
from sluice.graph.extract.markdown import read_comments, read_markdown
from sluice.graph.extract.mentions import languages_of, mention_edges
from sluice.graph.extract.prose import MOST_CHARACTERS as MOST_PROSE
from sluice.graph.extract.prose import Kind, Piece, read_lines, read_links
from sluice.graph.extract.python.edges import python_edges
from sluice.graph.extract.tool_lists import failing_test_edges, is_test_report, may_list_tools, tool_list_edges
from sluice.text.grammar import has_grammar, parse
from sluice.text.restructured import is_restructured, read_restructured

if TYPE_CHECKING:
    from tree_sitter import Tree

_RULES = 9
"""Raised with every change of the edges read from the same text, so that the graph is read anew."""
_PARSERS = (
    "tree-sitter",
    "markdown-it-py",
    *(f"tree-sitter-{name}" for name in ("c", "cpp", "go", "java", "javascript", "python", "rust", "typescript")),
)
_MODULES = ("tree_sitter", "markdown_it")
_DATA = frozenset({".json", ".jsonl", ".xml", ".csv", ".tsv", ".log", ".rss", ".atom"})
_RESTRUCTURED = frozenset({".rst", ".txt", ".text", ""})


def extract_edges(document: GraphDocument) -> tuple[Edge, ...]:
    """Return all edges of the document: addresses, definitions, references, links, mentions, tools and failing tests.

    Each edge once, in ascending order. Raises nothing for any text, and takes time linear in it.
    """
    return put_together(chain(own_addresses(document), _statements(document)))


def what_is_missing() -> NotInstalled | None:
    """Return the error that names a package missing for reading documents into the graph; None where all exist."""
    lacking = next((name for name in _MODULES if find_spec(name) is None), None)
    return needed("graph", ImportError(name=lacking)) if lacking else None


@cache
def parser_version() -> str:
    """Return a version of everything that decides the edges of a text: our rules and the versions of the parsers.

    Raises NotInstalled without the extra `graph`.
    """
    if missing := what_is_missing():
        raise missing
    parsers = " ".join(f"{name}=={version(name)}" for name in _PARSERS)
    return f"{_RULES}-{hashlib.sha256(parsers.encode()).hexdigest()[:8]}"


def is_source_code(language: str | None) -> bool:
    """Return whether a document's language is one of programs: natural ones have codes of two letters."""
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
    document = _as_markdown(document)
    linked = list(read_links(document.links))
    named = {(piece.line, piece.text) for piece in linked if piece.kind is Kind.SYMBOL}
    read = (piece for piece in _pieces(document, tree) if (piece.line, piece.text.partition("(")[0]) not in named)
    pieces = [*read, *linked]
    yield from link_edges(document, pieces)
    yield from mention_edges(document, pieces, _named_in(language, pieces))
    yield from sample_edges(document, pieces)


def _named_in(language: str | None, pieces: list[Piece]) -> tuple[str, ...]:
    """Return the languages in which a text's names are looked up."""
    if language in RULES:
        return (RULES[language].language,)
    return languages_of(pieces)


def _pieces(document: GraphDocument, tree: Tree | None) -> Iterator[Piece]:
    suffix, language = _suffix(document), document.language
    if has_grammar(language):
        return read_comments(tree, language)
    if is_source_code(language) or suffix in _DATA:
        return read_lines(document.text)
    return read_markdown(document.text)


def _as_markdown(document: GraphDocument) -> GraphDocument:
    """Return a document that was indexed as reStructuredText with the text and links that it would have today."""
    if _suffix(document) not in _RESTRUCTURED or not is_restructured(document.text):
        return document
    read = read_restructured(document.text[:MOST_PROSE])
    line_ends = [found.start() for found in re.finditer("\n", read.text)]
    links = (PageLink(bisect_left(line_ends, one) + 1, url, read.text[one:end]) for one, end, url in read.links)
    return document._replace(text=read.text, links=tuple(links))


def _suffix(document: GraphDocument) -> str:
    name = document.path or (document.url or "").partition("?")[0].partition("#")[0]
    return PurePosixPath(name).suffix.lower()


_PROMPT = re.compile(r"^[ \t]*(?:>>>|\.\.\.) ?", re.MULTILINE)
_IMPORTS = re.compile(r"^[ \t]*(?:>>> ?)?(?:from [\w.]+ import|import \w)", re.MULTILINE)
_PYTHON = frozenset({"", "python", "py", "python3", "pycon", "ipython", "doctest"})
MOST_SAMPLES = 500
"""Most samples of one text."""
MOST_CHARACTERS = 50_000
"""Limit of one sample: longer ones are no examples."""


def sample_edges(document: GraphDocument, pieces: Iterable[Piece]) -> Iterator[Edge]:
    """Yield REFERS_TO edges of the names that code blocks import and use, as mentions."""
    samples = [piece for piece in pieces if piece.kind is Kind.BLOCK and _is_python(piece)]
    for sample in samples[:MOST_SAMPLES]:
        text = _PROMPT.sub("", sample.text) if ">>>" in sample.text else _dedented(sample.text)
        read = GraphDocument(document.document_id, None, None, None, "python", text, {})
        for edge in python_edges(read):
            if edge.type is EdgeType.REFERS_TO and edge.origin is Origin.IMPORT:
                lines = tuple(line + sample.line - 1 for line in edge.lines)
                yield edge._replace(origin=Origin.MENTION, lines=lines)


def _is_python(sample: Piece) -> bool:
    is_short = len(sample.text) <= MOST_CHARACTERS
    return is_short and sample.address in _PYTHON and _IMPORTS.search(sample.text) is not None


def _dedented(text: str) -> str:
    """Return the text without the indentation of its first line that is not blank."""
    first = next((line for line in text.split("\n") if line.strip()), "")
    indent = first[: len(first) - len(first.lstrip())]
    return "\n".join(line.removeprefix(indent) for line in text.split("\n"))


MOST_EDGES = 20_000
"""Edges of one document that are kept, the first ones. A source file of 10,000 lines has about 6,000; a file with more
is generated, and would weigh more than the rest of the corpus."""
MOST_LINES = 200
"""Lines of one edge that are kept, the first ones: more uses of a name say nothing more."""
MOST_KEY_CHARACTERS = 1_000
"""Most characters of a node's key. No meaningful name or address is longer."""
MOST_DETAIL_CHARACTERS = 100

_Key = tuple[EdgeType, Node, Node, Origin]


def put_together(edges: Iterable[Edge]) -> tuple[Edge, ...]:
    """Merge edges of equal type, ends and origin, with the lines of all and the first detail that is not empty.

    Returns the first `MOST_EDGES` of them, ascending, without those whose key is too long or not printable.
    """
    lines: dict[_Key, set[int]] = {}
    details: dict[_Key, str] = {}
    for edge in edges:
        key = edge.type, edge.source, edge.target, edge.origin
        if key not in lines:
            if len(lines) >= MOST_EDGES:
                continue
            if not (_is_storable(edge.source.key) and _is_storable(edge.target.key)):
                continue
            lines[key] = set()
        lines[key].update(edge.lines)
        if edge.detail and key not in details:
            details[key] = _storable(edge.detail)
    return tuple(
        sorted(Edge(*key, tuple(sorted(found)[:MOST_LINES]), details.get(key, "")) for key, found in lines.items())
    )


def _is_storable(key: str) -> bool:
    return 0 < len(key) <= MOST_KEY_CHARACTERS and key.isprintable()


def _storable(detail: str) -> str:
    words = " ".join(detail.split())[:MOST_DETAIL_CHARACTERS].rstrip()
    return words.encode("utf-8", "replace").decode()
