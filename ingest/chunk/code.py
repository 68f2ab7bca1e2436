"""Splits source code into passages: by symbol if the language has a grammar, else by lines.

Every line of the file is in exactly one passage, unchanged. A class whose whole body is small is one passage; otherwise
its methods stand alone as `Class.method`, and the rest of it (its first lines, its attributes) is named after the
class. Small neighbours share a passage; large symbols are split at the statements, members and arguments of the
grammar. Code that does not parse is split by lines, and so is the part of the file beyond the parsed part.

`symbols.toml` lists the nodes of a grammar that define a symbol. Decorators, attributes and the comment right
above a definition belong to it.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.ingest.chunk.passage import Breadcrumbs, Passage
from sluice.ingest.chunk.prose import cut_text, joined
from sluice.ingest.embed.tokens import TokenSpans
from sluice.text.grammar import has_grammar, parse
from sluice.text.pattern_file import PatternFile

if TYPE_CHECKING:
    from tree_sitter import Node


_SCRAP_TOKENS = 24
"""Most tokens of lines without a symbol of their own (a class's first line, a closing brace) that join neighbours."""


@dataclass(frozen=True, slots=True)
class _Block:
    """Lines `first` to `last` (0-based, inclusive), and the symbols that own them."""

    first: int
    last: int
    owners: tuple[Symbol | None, ...]
    tokens: int

    @property
    def is_scrap(self) -> bool:
        loose = all(owner is None or owner.holds_others for owner in self.owners)
        return loose and self.tokens <= _SCRAP_TOKENS


class Code:
    """One source file to be split, with its syntax tree and token counts."""

    def __init__(self, source: str, language: str, spans: TokenSpans, breadcrumbs: Breadcrumbs):
        self._source = source
        self._spans = spans
        self._breadcrumbs = breadcrumbs
        self._starts = line_starts(source)
        self._tree = parse(language, source.encode("utf-8", "replace")) if has_grammar(language) else None

    def passages(self, pack_tokens: int) -> Iterator[Passage]:
        """Yield passages in line order. Neighbours that together have at most `pack_tokens` share one."""
        symbols = list(symbols_of(self._tree.root_node)) if self._tree else []
        for block in self._packed(self._blocks(symbols), pack_tokens):
            yield from self._split(block, self._breadcrumbs.symbol(_symbol_path(block)))

    def _blocks(self, symbols: list[Symbol]) -> Iterator[_Block]:
        owners: list[Symbol | None] = [None] * len(self._starts)
        for symbol in symbols:  # a class comes before its methods, so the innermost owner stays
            outer = owners[symbol.first]
            if outer is not None and (outer.first, outer.last) == (symbol.first, symbol.last):
                continue  # a class on one line is named after the class
            owners[symbol.first : symbol.last + 1] = [symbol] * (symbol.last + 1 - symbol.first)
        first = 0
        for owner, lines in groupby(owners):
            last = first + len(list(lines)) - 1
            yield _Block(first, last, (owner,), self._tokens(first, last))
            first = last + 1

    def _packed(self, blocks: Iterator[_Block], pack_tokens: int) -> Iterator[_Block]:
        current: _Block | None = None
        for block in blocks:
            if current is not None and self._belongs(current, block, pack_tokens):
                owners = current.owners + block.owners if block.tokens else current.owners
                current = _Block(current.first, block.last, owners, current.tokens + block.tokens)
            else:
                if current is not None:
                    yield current
                current = block
        if current is not None:
            yield current

    def _belongs(self, current: _Block, block: _Block, pack_tokens: int) -> bool:
        together = current.tokens + block.tokens
        if not current.tokens or not block.tokens or together <= pack_tokens:
            return True
        capacity = self._breadcrumbs.capacity()
        if current.is_scrap and block.tokens > capacity:
            return True  # a comment above a symbol that is split in any case goes with its beginning
        return (current.is_scrap or block.is_scrap) and together <= capacity

    def _split(self, block: _Block, symbol_path: str | None) -> Iterator[Passage]:
        start, end = self._starts[block.first], self._line_end(block.last)
        capacity = self._breadcrumbs.capacity(symbol=symbol_path)
        if block.tokens <= capacity:
            yield Passage(start, end, (), symbol_path)
            return
        for part_start, part_end in joined(self._parts(block, capacity), capacity, self._spans):
            yield Passage(part_start, part_end, (), symbol_path)

    def _parts(self, block: _Block, capacity: int) -> Iterator[tuple[int, int]]:
        """Cut the block at the starts of statements, or by lines where a statement is too large."""
        rows = {block.first}
        if self._tree:
            fits = lambda first, last: self._tokens(first, last) <= capacity  # noqa: E731
            rows.update(cut_rows(self._tree.root_node, block.first, block.last, fits))
        borders = [*(self._starts[row] for row in sorted(rows)), self._line_end(block.last)]
        for left, right in pairwise(borders):
            yield from self._fitting(left, right, capacity)

    def _fitting(self, start: int, end: int, capacity: int) -> Iterator[tuple[int, int]]:
        """Yield as many whole lines at a time as fit; cut a single line that does not fit."""
        left = start
        while left < end:
            right = left
            while right < end:
                newline = self._source.find("\n", right, end)
                line_end = end if newline < 0 else newline + 1
                if right > left and self._spans.count(left, line_end) > capacity:
                    break
                right = line_end
            if self._spans.count(left, right) > capacity:
                yield from cut_text(self._source, left, right, capacity, self._spans)
            else:
                yield left, right
            left = right

    def _tokens(self, first: int, last: int) -> int:
        return self._spans.count(self._starts[first], self._line_end(last))

    def _line_end(self, line: int) -> int:
        return self._starts[line + 1] if line + 1 < len(self._starts) else len(self._source)


def line_starts(text: str) -> array[int]:
    """Return the offset at which each line of `text` begins; only `\\n` ends a line."""
    starts = array("I", [0])
    position = text.find("\n")
    while position >= 0:
        starts.append(position + 1)
        position = text.find("\n", position + 1)
    return starts


def _symbol_path(block: _Block) -> str | None:
    """Return the names of a block's symbols: a class wholly in it replaces its methods; a scrap adds none."""
    owners = list(dict.fromkeys(owner for owner in block.owners if owner is not None))
    whole = [o for o in owners if o.holds_others and block.first <= o.first and o.last <= block.last]
    leaves = [owner for owner in owners if not owner.holds_others]
    named = whole + [leaf for leaf in leaves if not any(leaf.path.startswith(f"{o.path}.") for o in whole)]
    named = [o for o in named if not any(o is not w and o.path.startswith(f"{w.path}.") for w in whole)]
    return ", ".join(dict.fromkeys(owner.path for owner in sorted(named or owners, key=lambda o: o.first))) or None


_TYPES = PatternFile(Path(__file__).with_name("symbols.toml"))
_NAMES = ("name", "property", "type", "declarator", "left")
_TYPE_ARGUMENTS = re.compile(r"<[^<>]*>")
_DEEPEST_NESTING = 12


@dataclass(frozen=True, slots=True)
class Symbol:
    """A definition of `path`, such as `Class.method`, on lines `first` to `last` (0-based, inclusive)."""

    first: int
    last: int
    path: str
    holds_others: bool


def symbols_of(node: Node, prefix: str = "", depth: int = 0) -> Iterator[Symbol]:
    """Yield every symbol below a node in order of its first line, a class before its methods."""
    attached: int | None = None
    row_before = -1
    for child in node.named_children:
        first, last = child.start_point.row, _last_row(child)
        if child.type in _TYPES.words("attached"):
            if first > row_before:
                attached = first if attached is None or first > row_before + 1 else attached
                row_before = last
            continue
        begins = attached if attached is not None and first <= row_before + 1 else first
        attached, row_before = None, last
        defined = _defined(child)
        name = _name(defined) if defined is not None else ""
        if defined is not None and name:
            path = f"{prefix}.{name}" if prefix else name
            holds = defined.type in _TYPES.words("containers") and depth < _DEEPEST_NESTING
            yield Symbol(begins, last, path, holds)
            if holds:
                yield from symbols_of(defined.child_by_field_name("body") or defined, path, depth + 1)
        elif child.type in _TYPES.words("transparent") and depth < _DEEPEST_NESTING:
            yield from symbols_of(child, prefix, depth + 1)


def _last_row(node: Node) -> int:
    row, column = node.end_point.row, node.end_point.column
    return row - 1 if column == 0 and row > node.start_point.row else row


def _defined(node: Node) -> Node | None:
    """Return the defining node in `node`, unwrapped from decorators, exports and assignments."""
    for _ in range(4):
        if node.type in _TYPES.words("definitions") or node.type in _TYPES.words("containers"):
            return node
        if node.type in _TYPES.words("wrappers"):
            inner = next(
                (child for child in reversed(node.named_children) if child.type not in _TYPES.words("attached")), None
            )
            if inner is None:
                return None
            if inner.type == "assignment_expression":
                return inner if _is_function(inner.child_by_field_name("right")) else None
            node = inner
        elif node.type in _TYPES.words("values"):
            holder = node if "field" in node.type else next(iter(node.named_children), None)
            return holder if holder is not None and _is_function(holder.child_by_field_name("value")) else None
        else:
            return None
    return None


def _is_function(node: Node | None) -> bool:
    return node is not None and node.type in _TYPES.words("function_values")


def _name(node: Node) -> str:
    if node.type == "method_declaration" and node.child_by_field_name("receiver") is not None:
        receiver = _text(node.child_by_field_name("receiver")).strip("()").split()
        return f"{_plain(receiver[-1]) if receiver else ''}.{_text(node.child_by_field_name('name'))}".strip(".")
    if node.type == "type_declaration" and node.named_children:
        node = node.named_children[0]
    if node.type == "type_definition":
        return _plain(_text(node.child_by_field_name("declarator")))
    if node.type == "function_definition" and node.child_by_field_name("declarator") is not None:
        return _plain(_declared(node))
    named = next((found for field in _NAMES if (found := node.child_by_field_name(field)) is not None), None)
    return _plain(_text(named))


def _declared(node: Node) -> str:
    """Return the name within a C declarator, without pointers, references and parameters."""
    for _ in range(8):
        inner = node.child_by_field_name("declarator")
        if inner is None:
            inner = next((c for c in node.named_children if c.type.endswith(("declarator", "identifier"))), None)
        if inner is None or node.type.endswith("identifier"):
            break
        node = inner
    return _text(node)


def _plain(name: str) -> str:
    """Return `Foo<T>` as `Foo`, `a::b` as `a.b`, `module.exports.x` as `x`, without pointers and quotes."""
    for _ in range(3):
        name = _TYPE_ARGUMENTS.sub("", name)
    bare = name.partition("[")[0].partition("(")[0].strip("*& \t\"'#").replace("::", ".")
    return bare.removeprefix("module.").removeprefix("exports.")


def _text(node: Node | None) -> str:
    return node.text.decode("utf-8", "replace") if node is not None and node.text else ""


_MOST_DEPTH = 200
"""Deepest nesting at which code is cut; below it, no line begins a part that a person wrote as a unit."""


def cut_rows(node: Node, first: int, last: int, is_small: Callable[[int, int], bool], depth: int = 0) -> Iterator[int]:
    """Yield, in order, the rows from `first` to `last` at which a part of the code begins; some come twice.

    `is_small(first, last)` tells whether the rows between two, both included, fit. Neighbours that fit together are one
    part; a part that does not fit is split at its own parts, down to single rows.
    """
    children = node.children
    begin: int | None = None
    for place in range(bisect_left(children, first, key=lambda child: child.end_point.row), len(children)):
        child = children[place]
        start, end = max(first, child.start_point.row), min(last, child.end_point.row)
        if start > last:
            return
        if begin is not None and is_small(begin, end):
            continue
        begin = start
        yield begin
        if start < end and not is_small(start, end):
            begin = None
            if depth < _MOST_DEPTH:
                yield from cut_rows(child, start, end, is_small, depth + 1)
