"""Reads Markdown and the comments of sources as pieces of prose."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from html import unescape
from typing import TYPE_CHECKING

from sluice.graph.extract.prose import MOST_CHARACTERS, Kind, Piece, read_inline
from sluice.text.grammar import grammar_of

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token
    from tree_sitter import Query, Tree

_MARKS = re.compile(r"^[ \t]*(?:///?!?|/\*\*?!?|\*/?|#+)?[ \t]?|\*/[ \t]*$")
_JAVADOC = re.compile(r"\{@(?:link|linkplain|see|code)\s+#?(?P<name>[\w.#]+)[^{}]{0,200}\}")
_COMMENTS = {
    "python": "(comment) @text (expression_statement (string) @text)",
    "rust": "(line_comment) @text (block_comment) @text",
    "java": "(line_comment) @text (block_comment) @text",
}


def read_comments(tree: Tree | None, language: str) -> Iterator[Piece]:
    """Yield the pieces of all comments of a source in a language with a grammar, in source order."""
    if tree is None:
        return
    from tree_sitter import QueryCursor

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
    from tree_sitter import Query

    return Query(grammar_of(language), _COMMENTS.get(language, "(comment) @text"))


_ANCHOR = re.compile(r"""<a\s[^<>]{0,500}?\bhref\s*=\s*(?:"([^"<>]{1,2000})"|'([^'<>]{1,2000})')""", re.IGNORECASE)
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n.*?\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)


def read_markdown(text: str) -> Iterator[Piece]:
    """Yield the pieces of a text, in its order."""
    text = text[:MOST_CHARACTERS]
    front = _FRONT_MATTER.match(text)
    if front is not None:  # the parser would read its rules as a heading
        text = "\n" * front[0].count("\n") + text[front.end() :]
    for token in _parser().parse(text):
        line = token.map[0] + 1 if token.map else 1
        if token.type == "inline":
            yield from _inline(token.children or (), line)
        elif token.type == "fence":
            yield Piece(Kind.BLOCK, token.content, line + 1, token.info.strip().partition(" ")[0].lower())
        elif token.type == "code_block":
            yield Piece(Kind.BLOCK, token.content, line)
        elif token.type == "html_block":
            yield from _anchors(token.content, line)


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    class Parser(MarkdownIt):
        """Accepts every address as it is written; later steps decide which of them lead somewhere."""

        def validateLink(self, url: str) -> bool:  # noqa: N802
            return bool(url)

        def normalizeLink(self, url: str) -> str:  # noqa: N802
            return url

    return Parser("commonmark").enable("table").disable(["emphasis"])


def _inline(children: Sequence[Token], line: int) -> Iterator[Piece]:
    words: list[str] = []
    address = ""
    begun = line
    for child in children:
        if child.type in ("softbreak", "hardbreak"):
            line += 1
            words.append(" ")
        elif child.type == "link_open":
            address, begun, words = str(child.attrs.get("href", "")), line, []
        elif child.type == "link_close":
            if address:
                yield Piece(Kind.LINK, "".join(words), begun, address)
            address, words = "", []
        elif child.type == "code_inline":
            words.append(child.content)
            yield Piece(Kind.CODE, child.content, line)
        elif child.type == "text":
            words.append(child.content)
            if not address:
                yield Piece(Kind.WORDS, child.content, line)
        elif child.type == "html_inline":
            yield from _anchors(child.content, line)


def _anchors(html: str, line: int) -> Iterator[Piece]:
    counted = 0
    for found in _ANCHOR.finditer(html):
        line += html.count("\n", counted, found.start())
        counted = found.start()
        yield Piece(Kind.LINK, "", line, unescape(found[1] or found[2]))
