"""Reads one document into edges. What it says depends on the document alone, never on what else is indexed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import version
from itertools import chain

from contracts.graph.model import Edge, GraphDocument
from graph.extract.addresses import own_addresses
from graph.extract.statements import put_together

_RULES = 1
"""Raised with every change of what is read from the same text, so that the graph is read anew."""
_PARSERS = (
    "tree-sitter",
    *(f"tree-sitter-{name}" for name in ("c", "cpp", "go", "java", "javascript", "python", "rust", "typescript")),
)


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


def __getattr__(name: str) -> str:
    """`PARSER_VERSION`, which is made when it is first asked for: it looks up what is installed."""
    if name == "PARSER_VERSION":
        return parser_version()
    raise AttributeError(name)


def _statements(document: GraphDocument) -> Iterator[Edge]:
    if document.language == "python":
        yield from _python_edges()(document)


@cache
def _python_edges() -> Callable[[GraphDocument], list[Edge]]:
    try:
        found: Callable[[GraphDocument], list[Edge]] = import_module("graph.extract.python.edges").python_edges
    except ModuleNotFoundError:
        return lambda document: []
    return found
