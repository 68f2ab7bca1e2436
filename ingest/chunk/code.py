"""Source code to passages: by symbol where the language has a grammar, by lines where it has none.

Every line of the file is in exactly one passage, unchanged. A class whose whole body is small is one
passage; otherwise its methods stand alone as `Class.method`, and what is left of it (its first lines,
its attributes) goes by its own name. Small neighbours share a passage, large symbols are split at
the statements that the grammar sees. What does not parse is split by lines, and so is what lies
beyond the part of the file that is parsed.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise

from sluice.contracts.grammar import has_grammar, parse
from sluice.ingest.chunk.breadcrumb import Breadcrumbs
from sluice.ingest.chunk.passage import Passage
from sluice.ingest.chunk.split_text import cut_text, joined
from sluice.ingest.chunk.statements import cut_rows
from sluice.ingest.chunk.symbols import Symbol, symbols_of
from sluice.ingest.embed.tokens import TokenSpans

_SCRAP_TOKENS = 24
"""Lines of no symbol of their own (a class's first line, a closing brace) that are too few to stand alone."""


@dataclass(frozen=True, slots=True)
class _Block:
    """Lines `first` to `last` (0-based, inclusive), and the symbols whose lines they are."""

    first: int
    last: int
    owners: tuple[Symbol | None, ...]
    tokens: int

    @property
    def is_scrap(self) -> bool:
        loose = all(owner is None or owner.holds_others for owner in self.owners)
        return loose and self.tokens <= _SCRAP_TOKENS


class Code:
    """One source file to be split, with what is needed for it."""

    def __init__(self, source: str, language: str, spans: TokenSpans, breadcrumbs: Breadcrumbs):
        self._source = source
        self._spans = spans
        self._breadcrumbs = breadcrumbs
        self._starts = line_starts(source)
        self._tree = parse(language, source.encode("utf-8", "replace")) if has_grammar(language) else None

    def passages(self, pack_tokens: int) -> Iterator[Passage]:
        """Passages in order of their lines. Neighbours of together at most `pack_tokens` share one."""
        symbols = symbols_of(self._tree.root_node) if self._tree else []
        for block in self._packed(self._blocks(symbols), pack_tokens):
            yield from self._split(block, self._breadcrumbs.symbol(_symbol_path(block)))

    def _blocks(self, symbols: list[Symbol]) -> Iterator[_Block]:
        owners: list[Symbol | None] = [None] * len(self._starts)
        for symbol in symbols:  # a class comes before its methods, so the innermost owner stays
            outer = owners[symbol.first]
            if outer is not None and (outer.first, outer.last) == (symbol.first, symbol.last):
                continue  # a class on one line goes by its own name
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
        """The block cut where its statements begin; by lines where that is too much."""
        rows = {block.first}
        if self._tree:
            fits = lambda first, last: self._tokens(first, last) <= capacity  # noqa: E731
            rows.update(cut_rows(self._tree.root_node, block.first, block.last, fits))
        borders = [*(self._starts[row] for row in sorted(rows)), self._line_end(block.last)]
        for left, right in pairwise(borders):
            yield from self._fitting(left, right, capacity)

    def _fitting(self, start: int, end: int, capacity: int) -> Iterator[tuple[int, int]]:
        """As many whole lines at a time as fit; a single line that does not fit is cut."""
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
    """The offset at which each line of `text` begins; lines end with `\\n` alone."""
    starts = array("I", [0])
    position = text.find("\n")
    while position >= 0:
        starts.append(position + 1)
        position = text.find("\n", position + 1)
    return starts


def _symbol_path(block: _Block) -> str | None:
    """The symbols of a block: a class that is whole in it stands for its methods, a scrap for nothing."""
    owners = list(dict.fromkeys(owner for owner in block.owners if owner is not None))
    whole = [o for o in owners if o.holds_others and block.first <= o.first and o.last <= block.last]
    leaves = [owner for owner in owners if not owner.holds_others]
    named = whole + [leaf for leaf in leaves if not any(leaf.path.startswith(f"{o.path}.") for o in whole)]
    named = [o for o in named if not any(o is not w and o.path.startswith(f"{w.path}.") for w in whole)]
    return ", ".join(dict.fromkeys(owner.path for owner in sorted(named or owners, key=lambda o: o.first))) or None
