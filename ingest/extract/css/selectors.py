"""Parses selectors, and matches them with elements: surely, perhaps or not at all.

Tags, ids, classes and attributes of an element and of those around it are compared. What else a selector asks for may
hold: siblings and pseudo-classes make it doubtful. What a reader does (`:hover`, `:focus`) has not happened yet, and a
rule by places (`:nth-child`) holds of no other place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import tinycss2
from tinycss2.nth import parse_nth

from sluice.ingest.extract.css.visibility import split_at_commas, table

MOST_STEPS = 1_500_000
"""Comparisons of a page's elements with selectors: about a second."""
NO, MAYBE, YES = 0, 1, 2
_MOST_PARTS, _MOST_NESTED, _MOST_ALTERNATIVES = 12, 2, 30
_GENERATED = frozenset(("before", "after"))
_PARTS_OF_TEXT = frozenset(("first-line", "first-letter", "details-content"))
_PLACES = {"first-child": ":nth-child", "first-of-type": ":nth-of-type"}
_PLACES |= {"nth-child": ":nth-child", "nth-of-type": ":nth-of-type"}
_ANY_OF = frozenset(("is", "where", "matches", "-webkit-any", "-moz-any"))
_DOUBT = tinycss2.parse_one_component_value("&")
_NONE: frozenset[str] = frozenset()


class Element(NamedTuple):
    """The tag, `#id`, `.classes` and `[tests of attributes]` that selectors name, as written and in lower case."""

    names: frozenset[str] = _NONE
    lower: frozenset[str] = _NONE
    before: frozenset[str] = _NONE
    """The same, in lower case, of the elements before it in its parent."""


class Path(NamedTuple):
    """An element, and the path of the element around it."""

    element: Element
    around: Path | None


class Compound(NamedTuple):
    """What an element must have. `is_child`: the compound to the left is of its parent, else of any element around."""

    names: frozenset[str]
    lower: frozenset[str]
    before: frozenset[str]
    is_child: bool


class Test(NamedTuple):
    """What a selector asks of an attribute. `sign` "n": step and offset of its number; none meets all."""

    sign: str
    wanted: str

    def lower(self) -> Test:
        """Return the same in lower case."""
        return self if self.wanted.islower() else Test(self.sign, self.wanted.lower())

    def holds(self, actual: str) -> bool:
        """Return whether an attribute's value is as asked for (Selectors 4, section 6.2)."""
        match self.sign:
            case "=":
                return actual == self.wanted
            case "~=":
                return self.wanted in actual.split()
            case "|=":
                return f"{actual}-".startswith(f"{self.wanted}-")
            case "^=":
                return bool(self.wanted) and actual.startswith(self.wanted)
            case "$=":
                return bool(self.wanted) and actual.endswith(self.wanted)
            case "*=":
                return bool(self.wanted) and self.wanted in actual
            case "n":
                step, offset = map(int, self.wanted.split())
                ahead = int(actual or offset) - offset
                return ahead % step == 0 and ahead // step >= 0 if step else ahead == 0
        return True


@dataclass(frozen=True, slots=True)
class Selector:
    """`compounds` from right to left; `pseudo` is the generated element that it selects, or ""."""

    compounds: tuple[Compound, ...]
    tests: Mapping[str, tuple[str, Test]]
    """By their names in `compounds`: an attribute, and what is asked of it."""
    specificity: tuple[int, int, int]
    pseudo: str
    is_doubtful: bool
    is_idle: bool
    """Whether it selects no text: it waits for what a reader has not done yet, or names a part such as a scroll bar."""

    def key(self) -> str:
        """Return the name, in lower case, that an element must have to match; "" if none is certain."""
        names = (name for name in self.compounds[0].lower if name[0] != "[")
        return max(names, default="", key=lambda name: (name[0] == "#", name[0] == "."))

    def names(self) -> Iterator[str]:
        """Yield the names, in lower case, that it looks for."""
        return (name for compound in self.compounds for name in (*compound.lower, *compound.before))


class _Invalid(Exception):
    """Raised for what no browser takes for a selector."""


def selectors_of(tokens: Sequence[Any]) -> list[Selector]:
    """Parse a list of selectors; empty if a browser would drop it."""
    try:
        return [_Parser().read(one) for part in split_at_commas(tokens) for one in _alternatives(_stripped(part), 0)]
    except _Invalid:
        return []


def _stripped(tokens: list[Any]) -> list[Any]:
    while tokens and tokens[-1].type == "whitespace":
        tokens.pop()
    return tokens[1:] if tokens and tokens[0].type == "whitespace" else tokens


def _alternatives(tokens: list[Any], nested: int) -> list[list[Any]]:
    """Write `a:is(b, c)` as `a b` and `a c`, each doubtful; as `a` if they are many or have combinators."""
    places = (at for at, one in enumerate(tokens) if one.type == "function" and one.lower_name in _ANY_OF)
    at = next((at for at in places if at and tokens[at - 1] == ":"), 0)
    if not at:
        return [tokens]
    inner = [_stripped(part) for part in split_at_commas(tokens[at].arguments)]
    is_simple = nested < _MOST_NESTED and len(inner) <= _MOST_ALTERNATIVES
    if not is_simple or any(one.type == "whitespace" or one in (">", "+", "~") for part in inner for one in part):
        inner = [[]]
    written_out = ([*tokens[: at - 1], *part, _DOUBT, *tokens[at + 1 :]] for part in inner)
    return [one for part in written_out for one in _alternatives(part, nested + 1)]


class _Parser:
    def __init__(self) -> None:
        self._compounds: list[Compound] = []
        self._tests: dict[str, tuple[str, Test]] = {}
        self._weights = [0, 0, 0]
        self._pseudo = ""
        self._is_doubtful = self._is_idle = self._is_empty = self._is_child = False
        self._names: list[str] = []
        self._before: frozenset[str] = _NONE

    def read(self, tokens: Sequence[Any]) -> Selector:
        """Parse one selector."""
        combinator, is_begun = "", False
        pieces = iter(tokens)
        for piece in pieces:
            if piece.type == "whitespace":
                combinator = combinator or " "
            elif piece.type == "literal" and piece.value in (">", "+", "~", "||"):
                combinator = piece.value
            else:
                if combinator and is_begun:
                    self._combine(combinator)
                self._is_doubtful = self._is_doubtful or (bool(combinator) and not is_begun)
                combinator, is_begun = "", True
                self._simple(piece, pieces)
        if not is_begun or combinator:
            raise _Invalid
        self._compounds.append(self._compound())
        seen = tuple(self._compounds[: -_MOST_PARTS - 1 : -1])
        is_doubtful = self._is_doubtful or len(seen) < len(self._compounds)
        a, b, c = self._weights
        is_idle = self._is_idle or self._is_empty  # an empty element has no text
        return Selector(seen, self._tests, (a, b, c), self._pseudo, is_doubtful, is_idle)

    def _compound(self) -> Compound:
        lower = (name if name[0] == "[" else name.lower() for name in self._names)
        return Compound(frozenset(self._names), frozenset(lower), self._before, self._is_child)

    def _combine(self, combinator: str) -> None:
        """End a compound. What stands before a sibling must have its names among the siblings."""
        ended = self._compound()
        if combinator in (" ", ">"):
            self._compounds.append(ended)
            self._before, self._is_child = _NONE, combinator == ">"
        else:
            self._before = ended.before | ended.lower if combinator != "||" else _NONE
        self._is_doubtful = self._is_doubtful or self._is_empty or combinator not in (" ", ">")
        self._names, self._is_empty = [], False

    def _simple(self, piece: Any, pieces: Iterator[Any]) -> None:
        if piece.type == "ident":
            self._names.append(piece.lower_value)
            self._weights[2] += 1
        elif piece.type == "hash" and piece.is_identifier:
            self._names.append(f"#{piece.value}")
            self._weights[0] += 1
        elif piece == ".":
            following = next(pieces, None)
            if following is None or following.type != "ident":
                raise _Invalid
            self._names.append(f".{following.value}")
            self._weights[1] += 1
        elif piece.type == "[] block":
            self._attribute([one for one in piece.content if one.type not in ("whitespace", "comment")])
        elif piece == "|":  # what stands before it is no tag
            self._names.clear()
            self._is_doubtful = True
        elif piece == ":":
            self._after_colon(pieces)
        elif piece == "&":
            self._is_doubtful = True
        elif piece != "*":
            raise _Invalid

    def _attribute(self, parts: list[Any]) -> None:
        self._weights[1] += 1
        if not parts or parts[0].type != "ident" or (len(parts) > 1 and (len(parts) < 3 or parts[1] == "|")):
            self._is_doubtful = True
            return
        sign, wanted = (str(parts[1].value), str(getattr(parts[2], "value", ""))) if len(parts) > 1 else ("", "")
        self._test(parts[0].lower_value, sign, wanted)

    def _test(self, attribute: str, sign: str, wanted: str) -> None:
        name = f"[{attribute}{sign}{wanted}"
        self._tests[name] = attribute, Test(sign, wanted)
        self._names.append(name)

    def _after_colon(self, pieces: Iterator[Any]) -> None:
        piece = next(pieces, None)
        is_element = piece == ":"
        piece = next(pieces, None) if is_element else piece
        if piece is None or piece.type not in ("ident", "function"):
            raise _Invalid
        name = piece.lower_value if piece.type == "ident" else piece.lower_name
        if is_element or name in _GENERATED or name in _PARTS_OF_TEXT:
            self._pseudo = name if name in _GENERATED else ""
            self._is_doubtful = self._is_doubtful or name in _PARTS_OF_TEXT
            self._is_idle = self._is_idle or name not in _GENERATED | _PARTS_OF_TEXT
            self._weights[2] += 1
            return
        self._weights[1] += 1
        is_inner = bool(self._names) and self._names[0] not in ("html", "body")
        if name in table().not_yet or (name == "hover" and is_inner):
            self._is_idle = True
        elif name == "root":
            self._names.append("html")
        elif name in ("link", "any-link"):
            self._test("href", "", "")
        elif name == "empty":
            self._is_empty = True
        else:  # a place is doubtful even if it holds: a browser may have mended the markup in another way
            self._is_doubtful = True
            if name in _PLACES and (formula := _formula(piece)):
                self._test(_PLACES[name], "n", formula)


def _formula(piece: Any) -> str:
    """Return step and offset of `:nth-child(2n + 1)` as `2 1`; "" for what is no formula alone."""
    try:
        formula = parse_nth(piece.arguments) if piece.type == "function" else (0, 1)
    except (StopIteration, ValueError):  # the parser's own, for `+` alone
        return ""
    return f"{formula[0]} {formula[1]}" if formula else ""


class Matching:
    """Compares selectors with elements, up to `MOST_STEPS` times."""

    def __init__(self) -> None:
        self.left = MOST_STEPS

    def matches(self, path: Path, selector: Selector) -> int:
        """Return whether `selector` matches the element, its pseudo-element aside."""
        how, at, number = self._chain(path, selector.compounds, 0)
        while how != NO and number < len(selector.compounds):
            found, above, end = self._chain(at, selector.compounds, number)
            while found == NO:
                at = at.around if at is not None else None
                if at is None:
                    return NO
                found, above, end = self._chain(at, selector.compounds, number)
            how, at, number = min(how, found), above, end
        return min(how, MAYBE) if selector.is_doubtful else how

    def _chain(self, at: Path | None, compounds: Sequence[Compound], number: int) -> tuple[int, Path | None, int]:
        """Compare compounds of an element, its parent and so on; return how, the element around and what is left."""
        how, is_child = YES, True
        while is_child and number < len(compounds) and how != NO:
            if at is None:
                return NO, None, number
            self.left -= 1
            compound, element = compounds[number], at.element
            if not compound.names <= element.names:
                how = MAYBE if compound.lower <= element.lower else NO
            if not compound.before <= element.before:
                how = NO
            at, number, is_child = at.around, number + 1, compound.is_child
        return how, at, number
