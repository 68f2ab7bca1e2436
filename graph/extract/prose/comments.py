"""The comments and docstrings of source code into pieces: names in backquotes, roles, addresses and paths."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from tree_sitter import Query, QueryCursor, Tree

from sluice.contracts.grammar import grammar_of
from sluice.graph.extract.prose.pieces import Kind, Piece
from sluice.graph.extract.prose.restructured import read_inline

_MARKS = re.compile(r"^[ \t]*(?:///?!?|/\*\*?!?|\*/?|#+)?[ \t]?|\*/[ \t]*$")
_JAVADOC = re.compile(r"\{@(?:link|linkplain|see|code)\s+#?(?P<name>[\w.#]+)[^{}]{0,200}\}")
_COMMENTS = {
    "python": "(comment) @text (expression_statement (string) @text)",
    "rust": "(line_comment) @text (block_comment) @text",
    "java": "(line_comment) @text (block_comment) @text",
}


def read_comments(tree: Tree | None, language: str) -> Iterator[Piece]:
    """The pieces of all comments of a source in a language with a grammar, in its order."""
    if tree is None:
        return
    found = QueryCursor(_query(language)).captures(tree.root_node).get("text", [])
    for node in sorted(found, key=lambda one: one.start_byte):
        written = (node.text or b"").decode("utf-8", "replace")
        if "`" not in written and "/" not in written and "@" not in written:
            continue
        for number, line in enumerate(written.split("\n"), node.start_point.row + 1):
            yield from _read_line(_MARKS.sub("", line), number)


def _read_line(line: str, number: int) -> Iterator[Piece]:
    if "{@" in line:
        for found in _JAVADOC.finditer(line):
            yield Piece(Kind.CODE, found["name"], number)
        line = _JAVADOC.sub(" ", line)
    yield from read_inline(line, number)


@cache
def _query(language: str) -> Query:
    return Query(grammar_of(language), _COMMENTS.get(language, "(comment) @text"))
