"""Parses selectors, and matches them with the elements of a page: surely, perhaps or not at all.

What a reader does (`:hover`, `:focus`) has not happened yet; what this module does not know may match. Matching a page
takes at most `MOST_STEPS` comparisons; after those every selector that was not ruled out by a name may match.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tinycss2 import nth

from sluice.ingest.extract.css.visibility import table, written
from sluice.ingest.extract.html.nodes import Nodes

MOST_STEPS = 1_500_000
"""Comparisons of a page's elements with selectors: about a second."""
NO, MAYBE, YES = 0, 1, 2
_MOST_PARTS, _MOST_NESTED = 12, 4
_ATTRIBUTES = {"checked": "checked", "disabled": "disabled", "open": "open", "required": "required", "link": "href"}
_ATTRIBUTES |= {"any-link": "href"}
_PLACES = {"first-child": "nth-child", "last-child": "nth-last-child"}
_PLACES |= {"first-of-type": "nth-of-type", "last-of-type": "nth-last-of-type"}
_NTH = frozenset(("nth-child", "nth-last-child", "nth-of-type", "nth-last-of-type"))
_GENERATED = frozenset(("before", "after"))
_PARTS_OF_TEXT = frozenset(("first-line", "first-letter", "details-content"))
_OLD = _GENERATED | _PARTS_OF_TEXT

Test = Callable[["Matching", int], int]


@dataclass(slots=True)
class Compound:
    """Conditions on one element, and the combinator before it."""

    combinator: str = " "
    tag: str = ""
    names: list[str] = field(default_factory=list)
    """Ids as `#name` and classes as `.name`, as written."""
    tests: list[Test] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Selector:
    """`pseudo` is the pseudo-element that it selects, or "". `by_names`: tags, ids and classes alone settle it."""

    compounds: tuple[Compound, ...]
    specificity: tuple[int, int, int]
    pseudo: str
    by_names: bool
    is_doubtful: bool
    is_idle: bool = False
    """Whether it waits for what a reader has not done yet."""

    def key(self) -> str:
        """Return the name, in lower case, that an element must have to match; "" if none is certain."""
        last = self.compounds[-1]
        return max(last.names, default=last.tag, key=lambda name: name.startswith("#")).lower()

    def names(self) -> Iterator[str]:
        """Yield the ids and classes that it names."""
        return (name for compound in self.compounds for name in compound.names)

    def fits(self, tag: str, names: frozenset[str]) -> bool:
        """Return whether an element of that tag, and with these ids and classes in lower case, may match."""
        last = self.compounds[-1]
        return last.tag in ("", tag) and all(name.lower() in names for name in last.names)


class _Invalid(Exception):
    """Raised for what no browser takes for a selector."""


def selectors_of(tokens: Sequence[Any], around: Sequence[Selector] | None = None, nested: int = 0) -> list[Selector]:
    """Parse a list of selectors within a rule of those `around`; empty if a browser would drop it."""
    found = []
    try:
        for part in split_at_commas(tokens):
            selector = _Parser(around, nested).read(part, is_relative=around is not None)
            if selector is not None:
                found.append(selector)
    except _Invalid:
        return []
    return found


def split_at_commas(tokens: Sequence[Any]) -> Iterator[list[Any]]:
    """Yield the parts of a list."""
    part: list[Any] = []
    for piece in tokens:
        if piece == ",":
            yield part
            part = []
        elif piece.type != "comment":
            part.append(piece)
    yield part


class _Parser:
    def __init__(self, around: Sequence[Selector] | None, nested: int) -> None:
        self._around, self._nested = around, nested
        self._weights = [0, 0, 0]
        self._pseudo = ""
        self._by_names, self._is_doubtful, self._is_idle = True, False, False

    def read(self, tokens: list[Any], *, is_relative: bool = False) -> Selector | None:
        """Parse one selector; None if it selects what is no text of the page, as a scroll bar."""
        while tokens and tokens[-1].type == "whitespace":
            tokens.pop()
        compounds: list[Compound] = []
        combinator: str | None = None if not is_relative else " "
        current: Compound | None = None
        has_parent = False
        at = 0
        while at < len(tokens):
            piece = tokens[at]
            at += 1
            if piece.type == "whitespace":
                combinator = combinator or (" " if current else None)
            elif piece.type == "literal" and piece.value in (">", "+", "~", "||"):
                if current is None and not is_relative:
                    raise _Invalid
                self._by_names = self._by_names and piece.value == ">"
                self._is_doubtful = self._is_doubtful or piece.value == "||"
                combinator, current = piece.value, None
            else:
                if current is None or combinator is not None:
                    current = Compound(combinator or " ")
                    compounds.append(current)
                    combinator = None
                has_parent = has_parent or piece == "&"
                at = self._simple(tokens, at, piece, current)
        if not compounds or current is None or combinator not in (None, " "):
            raise _Invalid
        if is_relative and not has_parent and self._around:
            compounds.insert(0, Compound(" ", tests=[self._among(self._around)]))
        if self._pseudo == "other":
            return None
        a, b, c = self._weights
        is_doubtful = self._is_doubtful or len(compounds) > _MOST_PARTS
        seen = tuple(compounds[-_MOST_PARTS:])
        return Selector(seen, (a, b, c), self._pseudo, self._by_names, is_doubtful, self._is_idle)

    def _simple(self, tokens: list[Any], at: int, piece: Any, into: Compound) -> int:
        following = tokens[at] if at < len(tokens) else None
        if piece.type == "ident" or piece == "*":
            if following == "|":
                self._is_doubtful = True
                return at + 1
            into.tag = "" if piece == "*" else piece.lower_value
            self._weights[2] += piece != "*"
        elif piece == "|":
            self._is_doubtful = True
        elif piece.type == "hash":
            if not piece.is_identifier:
                raise _Invalid
            into.names.append(f"#{piece.value}")
            self._weights[0] += 1
        elif piece == ".":
            if following is None or following.type != "ident":
                raise _Invalid
            into.names.append(f".{following.value}")
            self._weights[1] += 1
            return at + 1
        elif piece.type == "[] block":
            into.tests.append(_attribute(piece.content))
            self._weights[1] += 1
            self._by_names = False
        elif piece == "&":
            into.tests.append(self._among(self._around or ()))
        elif piece == ":":
            return self._after_colon(tokens, at, into)
        else:
            raise _Invalid
        return at

    def _after_colon(self, tokens: list[Any], at: int, into: Compound) -> int:
        is_element = at < len(tokens) and tokens[at] == ":"
        at += is_element
        piece = tokens[at] if at < len(tokens) else None
        if piece is None or piece.type not in ("ident", "function"):
            raise _Invalid
        name = piece.lower_value if piece.type == "ident" else piece.lower_name
        if is_element or name in _OLD:
            self._pseudo = name if name in _GENERATED else "part" if name in _PARTS_OF_TEXT else "other"
            self._is_doubtful = self._is_doubtful or self._pseudo == "part"
            self._weights[2] += 1
            return at + 1
        is_idle = name in table().not_yet or (name == "hover" and into.tag not in ("", "html", "body"))
        self._is_idle = self._is_idle or is_idle
        if name not in ("is", "where", "not", "has", "matches"):
            self._weights[1] += 1
        into.tests.append(self._pseudo_class(name, getattr(piece, "arguments", None)))
        return at + 1

    def _pseudo_class(self, name: str, arguments: list[Any] | None) -> Test:
        self._by_names = self._by_names and name == "root"
        if name == "hover":
            return lambda page, node: MAYBE if page.nodes.tags[node] in ("html", "body") else NO
        if name in table().not_yet:
            return lambda *_: NO
        if name == "root":
            return lambda page, node: YES if page.nodes.tags[node] == "html" else NO
        if name in _ATTRIBUTES:
            return lambda page, node: YES if _ATTRIBUTES[name] in page.nodes.attributes[node] else NO
        if name == "empty":
            return lambda page, node: YES if page.nodes.ends[node] == node + 1 else NO
        if name in _PLACES:
            return _placed(_PLACES[name], 0, 1)
        if name in ("lang", "dir") and arguments is not None:
            return _inherited(name, written(arguments).strip(" \"'").lower())
        if name in _NTH and arguments is not None:
            of = next((at for at, one in enumerate(arguments) if one.type == "ident" and one.lower_value == "of"), -1)
            if of > 0 and self._nested < _MOST_NESTED:
                counted = self._weighed(selectors_of(arguments[of + 1 :], nested=self._nested + 1))
                return lambda page, node: min(MAYBE, page.any(node, counted))
            try:
                formula = nth.parse_nth(arguments)
            except (StopIteration, ValueError):  # the parser's own, for `+` alone
                formula = None
            return _maybe if formula is None else _placed(name, *formula)
        if name in ("is", "where", "not", "has", "matches", "-webkit-any", "-moz-any") and arguments is not None:
            return self._logical(name, arguments)
        return _maybe

    def _logical(self, name: str, arguments: list[Any]) -> Test:
        if self._nested >= _MOST_NESTED:
            return _maybe
        found: list[Selector] = []
        for part in split_at_commas(arguments):
            try:
                selector = _Parser(self._around, self._nested + 1).read(part, is_relative=name == "has")
            except _Invalid:
                continue
            if selector is not None:
                found.append(selector)
        if name != "where":
            self._weighed(found)
        if name == "has":
            return lambda page, node: page.has(node, found)
        among = lambda page, node: page.any(node, found)  # noqa: E731 - a test, as the others are
        return among if name != "not" else lambda page, node: YES - page.any(node, found)

    def _among(self, around: Sequence[Selector]) -> Test:
        self._by_names = False
        self._weighed(around)
        return lambda page, node: page.any(node, around)

    def _weighed(self, among: Sequence[Selector]) -> Sequence[Selector]:
        heaviest = max((one.specificity for one in among), default=(0, 0, 0))
        self._weights = [a + b for a, b in zip(self._weights, heaviest, strict=True)]
        return among


def _inherited(name: str, wanted: str) -> Test:
    """Compare a language or a direction with what the nearest element says; HTTP may name a page's language."""

    def test(page: Matching, node: int) -> int:
        said = page.inherited(node, name)
        if said is None or not re.fullmatch(r"[\w-]+", wanted) or (name == "dir" and said not in ("ltr", "rtl")):
            return NO if said is None and wanted == "rtl" else MAYBE
        return YES if f"{said}-".startswith(f"{wanted}-") else NO

    return test


def _maybe(*_: object) -> int:
    return MAYBE


def _attribute(content: list[Any]) -> Test:
    parts = [piece for piece in content if piece.type not in ("whitespace", "comment")]
    found = re.fullmatch(
        r"(?:(?:[\w-]+|\*)?\|)?([\w-]+)(?:([~|^$*]?=)(.*))?", written(parts[:1]) + "".join(map(_plain, parts[1:])), re.S
    )
    if found is None:
        return _maybe
    name, sign, wanted = found[1].lower(), found[2], found[3] or ""
    last = parts[-1] if len(parts) > 2 and parts[-1].type == "ident" and parts[-2].type in ("string", "ident") else None
    if last is not None:
        wanted = wanted[: -len(last.value)]

    def test(page: Matching, node: int) -> int:
        actual = page.nodes.attributes[node].get(name)
        if actual is None or not sign:
            return NO if actual is None else YES
        if _holds(actual, sign, wanted):
            return YES
        return MAYBE if _holds(actual.lower(), sign, wanted.lower()) else NO

    return test


def _plain(piece: Any) -> str:
    return str(piece.value) if piece.type in ("string", "ident", "literal") else written([piece])


def _holds(actual: str, sign: str, wanted: str) -> bool:
    match sign:
        case "=":
            return actual == wanted
        case "~=":
            return wanted in actual.split()
        case "|=":
            return actual == wanted or actual.startswith(f"{wanted}-")
        case "^=":
            return bool(wanted) and actual.startswith(wanted)
        case "$=":
            return bool(wanted) and actual.endswith(wanted)
    return bool(wanted) and wanted in actual


def _placed(name: str, step: int, offset: int) -> Test:
    def test(page: Matching, node: int) -> int:
        ahead = page.place(node, of_type=name.endswith("of-type"), from_end="last" in name) - offset
        return YES if (ahead == 0 if step == 0 else ahead % step == 0 and ahead // step >= 0) else NO

    return test


class Matching:
    """Matches selectors with the elements of one page."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self._left = MOST_STEPS
        self._names: dict[tuple[str | None, str | None], tuple[frozenset[str], frozenset[str]]] = {}
        self._of_node: list[tuple[frozenset[str], frozenset[str]] | None] = [None] * len(nodes)
        self._places: dict[tuple[bool, bool], list[int]] = {}
        self._before: list[int] | None = None

    def names(self, node: int) -> tuple[frozenset[str], frozenset[str]]:
        """Return an element's id and classes as written, as `#id` and `.class`, and the same in lower case."""
        known = self._of_node[node]
        if known is not None:
            return known
        attributes = self.nodes.attributes[node]
        key = attributes.get("id"), attributes.get("class")
        if key not in self._names:
            written = [f".{name}" for name in (key[1] or "").split()] + ([f"#{key[0]}"] if key[0] else [])
            self._names[key] = frozenset(written), frozenset(map(str.lower, written))
        found = self._of_node[node] = self._names[key]
        return found

    def inherited(self, node: int, name: str) -> str | None:
        """Return the nearest value of an attribute around, in lower case."""
        while (
            node >= 0 and name not in self.nodes.attributes[node] and self._left > 0 and self.nodes.tags[node] != "bdi"
        ):
            self._left -= 1
            node = self.nodes.parents[node]
        return self.nodes.attributes[node].get(name, "").strip().lower() if node >= 0 else None

    def is_spent(self) -> bool:
        """Return whether no comparison is left."""
        return self._left <= 0

    def matches(self, node: int, selector: Selector) -> int:
        """Return whether `selector` matches the element, its pseudo-element aside."""
        found = self._match(node, selector.compounds, len(selector.compounds) - 1)
        return min(found, MAYBE) if selector.is_doubtful else found

    def any(self, node: int, selectors: Sequence[Selector]) -> int:
        """Return how surely one of `selectors` matches the element."""
        return max((self.matches(node, one) for one in selectors), default=NO)

    def has(self, node: int, selectors: Sequence[Selector]) -> int:
        """Return whether something matches one of the relative `selectors`; one with siblings or several parts may."""
        best = NO
        for one in selectors:
            first, parent = one.compounds[0], self.nodes.parents[node]
            if len(one.compounds) > 1:
                best = max(best, MAYBE)
                continue
            is_beside = first.combinator in ("+", "~")
            start, end = (
                (self.nodes.ends[node], self.nodes.ends[parent]) if is_beside else (node + 1, self.nodes.ends[node])
            )
            above = parent if is_beside else node
            for within in range(start, end):
                if best == YES or self._left <= 0:
                    break
                self._left -= 1
                if self.nodes.tags[within] and (first.combinator == " " or self.nodes.parents[within] == above):
                    best = max(best, self._is(within, first))
                    if first.combinator == "+":
                        break
        return best if self._left > 0 else max(best, MAYBE)

    def _match(self, node: int, compounds: tuple[Compound, ...], last: int) -> int:
        """Match from right to left, the nearest candidate first."""
        found = self._is(node, compounds[last])
        if found == NO or last == 0:
            return found
        if self._left <= 0:
            return MAYBE
        combinator = compounds[last].combinator
        step = self._sibling if combinator in ("+", "~") else self.nodes.parents.__getitem__
        candidate = step(node)
        best = NO
        while candidate >= 0 and best < found:
            best = max(best, min(found, self._match(candidate, compounds, last - 1)))
            if combinator in (">", "+"):
                break
            candidate = step(candidate)
        return best

    def _is(self, node: int, compound: Compound) -> int:
        self._left -= 1
        if compound.tag and self.nodes.tags[node] != compound.tag:
            return NO
        found = YES
        if compound.names:
            written, lower = self.names(node)
            for name in compound.names:
                if name not in written:
                    if name.lower() not in lower:
                        return NO
                    found = MAYBE
        if self._left <= 0:
            return MAYBE if compound.tests else found
        for test in compound.tests:
            found = min(found, test(self, node))
            if found == NO:
                break
        return found

    def place(self, node: int, *, of_type: bool, from_end: bool) -> int:
        """Return the 1-based place of an element among its siblings."""
        if (of_type, from_end) not in self._places:
            counts: dict[tuple[int, str], int] = {}
            places = [0] * len(self.nodes)
            for one in reversed(range(len(places))) if from_end else range(len(places)):
                if tag := self.nodes.tags[one]:
                    group = self.nodes.parents[one], tag if of_type else ""
                    counts[group] = places[one] = counts.get(group, 0) + 1
            self._places[of_type, from_end] = places
        return self._places[of_type, from_end][node]

    def _sibling(self, node: int) -> int:
        """Return the element before `node` in its parent; -1 for the first."""
        if self._before is None:
            latest: dict[int, int] = {}
            self._before = []
            for one, tag in enumerate(self.nodes.tags):
                parent = self.nodes.parents[one]
                self._before.append(latest.get(parent, -1))
                if tag:
                    latest[parent] = one
        return self._before[node]
