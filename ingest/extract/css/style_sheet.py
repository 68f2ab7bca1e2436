"""The style sheets within a page, down to the rules that could hide something.

Heeded are lists of selectors, nested rules, `@media` for a screen of `SCREEN_PIXELS`, `@supports` and `@layer`.
`@import` and style sheets elsewhere are not followed. A rule stands under what an element must have for its selector
(ingest/extract/css/selectors.py) to hold, and is taken apart by `rule_of` when the page has such an element.

Read are `MOST_CSS_CHARS` of a page at most; one whose sheets have more than `MOST_PIECES` is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, islice
from typing import NamedTuple

from contracts.errors import InvalidInput
from ingest.extract.css.bounded_cache import kept_if_short
from ingest.extract.css.computed_style import COLOURS, some_look_alike
from ingest.extract.css.selectors import Selector, asked_by, selector_of
from ingest.extract.css.visibility import declarations, is_unreadable, takes_away
from ingest.extract.html.nodes import Nodes

SCREEN_PIXELS = 1_280
MOST_CSS_CHARS = 2_000_000
"""Of all style elements together."""
MOST_PIECES = 200_000
"""Of all of them: rules, and what strings and comments make of a rule. A large page has some ten thousand."""
_MENTIONS = re.compile(
    r"display|visibility|opacity|font|indent|clip|color|transform|translate|scale|position|width|height|margin|filter|inset|zoom|spacing|size|\\",
    re.IGNORECASE,
)
_TEXT = r"(?>(?:[^{}\"'/\\]++|/(?!\*))*)"
_PIECE = re.compile(
    rf"({_TEXT})\{{({_TEXT})\}}|((?!/\*|[{{}}\"'\\]){_TEXT})|"
    r"\"(?>(?:\\.|[^\"\\\n])*)\"?|'(?>(?:\\.|[^'\\\n])*)'?|/\*.*?(?:\*/|\Z)|\\.|.",
    re.DOTALL,
)
"""A whole rule of the usual kind, other text, a string, a comment, an escape, or one sign."""
_STRING = re.compile(r"\"(?:\\.|[^\"\\\n])*\"?|'(?:\\.|[^'\\\n])*'?", re.DOTALL)
_FEATURE = re.compile(r"\(\s*(min|max)-width\s*:\s*([\d.]+)(px|em|rem)\s*\)")
_AT_TAKEN = ("@supports", "@layer", "@container", "@scope", "@starting-style")
_MOST_SELECTOR_CHARS = 1_000
_MOST_NESTED = 30
_MOST_KEPT_CHARS = 100_000
"""Of styles whose rules are kept, which take some twenty times as many bytes."""
_ANYWHERE = [""]


@dataclass(frozen=True, slots=True)
class Declared:
    """What one selector declares, as it is written, and its place: most are for elements that the page has not."""

    selector: str
    style: tuple[tuple[str, str, bool], ...]
    place: int


@dataclass(frozen=True, slots=True)
class Rule:
    """What one selector declares; `rank` is its specificity and its place."""

    selector: Selector
    style: tuple[tuple[str, str, bool], ...]
    rank: tuple[int, int, int, int]


class Sheet(NamedTuple):
    """The rules of a page that matter, by what their last part asks for; ids and attributes that any part asks for."""

    rules: Mapping[str, Sequence[Declared]]
    ids: frozenset[str]
    attributes: frozenset[str]
    is_needed: bool


def sheet_of(nodes: Nodes) -> Sheet:
    """What the sheets of a page with its style attributes come to.

    Kept for some pages, as those of a site are styled alike and come one after the other.
    """
    styles = (attributes.get("style") for attributes in nodes.attributes if attributes)
    inline = frozenset(style for style in styles if style)
    sheets = tuple(_sheets_of(nodes))
    is_short = sum(map(len, sheets)) + sum(map(len, inline)) <= _MOST_KEPT_CHARS
    return _kept_sheet(sheets, inline) if is_short else _sheet(tuple(_rules_of(sheets)), inline)


def rule_of(declared: Declared) -> Rule | None:
    """None where its selector holds what is not followed."""
    selector = selector_of(declared.selector)
    return Rule(selector, declared.style, (*selector.specificity, declared.place)) if selector else None


def _sheets_of(nodes: Nodes) -> Iterator[str]:
    """The style sheets within the page that could hide something."""
    room = MOST_CSS_CHARS
    for node, tag in enumerate(nodes.tags):
        if tag != "style" or "print" in (nodes.attributes[node].get("media") or ""):
            continue
        sheet = "".join(nodes.texts[node : nodes.ends[node]])[:room]
        room -= len(sheet)
        if _MENTIONS.search(sheet):
            yield sheet


@lru_cache(maxsize=16)
def _kept_sheet(sheets: tuple[str, ...], inline: frozenset[str]) -> Sheet:
    return _sheet(_kept_rules(sheets), inline)


@lru_cache(maxsize=16)
def _kept_rules(sheets: tuple[str, ...]) -> tuple[Declared, ...]:
    return tuple(_rules_of(sheets))


def _sheet(rules: Sequence[Declared], inline: frozenset[str]) -> Sheet:
    hiding = _hiding_names(rules, inline) if rules or inline else frozenset()
    by_key: dict[str, list[Declared]] = {}
    ids: set[str] = set()
    attributes: set[str] = set()
    for rule in rules:
        style = tuple(declared for declared in rule.style if declared[0] in hiding)
        if style and (asked := asked_by(rule.selector)):
            by_key.setdefault(asked.key, []).append(Declared(rule.selector, style, rule.place))
            ids.update(asked.ids)
            attributes.update(asked.attributes)
    return Sheet(by_key, frozenset(ids), frozenset(attributes), bool(hiding))


def _hiding_names(rules: Sequence[Declared], inline: Iterable[str]) -> frozenset[str]:
    """The properties that hide somewhere on the page; those of colour only where two of them look alike."""
    declared = {(name, value) for rule in rules for name, value, _ in rule.style}
    declared.update((name, value) for style in inline for name, value, _ in declarations(style))
    hiding = {name for name, value in declared if _hides(name, value)}
    if "color" in hiding or some_look_alike(declared):
        hiding.update(COLOURS)
    if "font" in hiding or "font-size" in hiding:
        hiding.update(("font", "font-size"))
    return frozenset(hiding)


@kept_if_short(8_192)
def _hides(name: str, value: str) -> bool:
    return takes_away(name, value) or is_unreadable(name, value)


def _rules_of(sheets: Iterable[str]) -> Iterator[Declared]:
    place = 0
    pieces = count()
    for sheet in sheets:
        for selectors, body in _blocks(sheet, pieces):
            plain = _STRING.sub('""', body) if '"' in body or "'" in body else body
            style = tuple(declarations(plain))
            if not style:
                continue
            for selector in selectors:
                place += 1
                _require_few(place)
                yield Declared(selector, style, place)


def _require_few(rules: int) -> None:
    if rules > MOST_PIECES:
        raise InvalidInput("body", "its style sheets have too many rules", "send the page without them")


def _blocks(sheet: str, so_far: Iterator[int]) -> Iterator[tuple[list[str], str]]:
    """(selectors, declarations) of every rule that holds on a screen. `so_far` counts the pieces."""
    within: list[list[str] | None] = [_ANYWHERE]
    pieces: list[str] = []
    for found in _PIECE.finditer(sheet):
        _require_few(next(so_far))
        prelude, rule, text = found.groups()
        mark = found[0] if rule is None else "{"
        if text is not None:
            pieces.append(text)
        elif mark == "{":
            written = "".join((*pieces, prelude or ""))
            pieces.clear()
            body, _, selectors = written.rpartition(";")
            if (around := within[-1]) and around != _ANYWHERE and body.strip():
                yield around, body
            entered = _entered(selectors.strip(), around) if len(within) <= _MOST_NESTED else None
            if rule is None:
                within.append(entered)
            elif entered and entered != _ANYWHERE:
                yield entered, rule
        elif mark == "}":
            if len(within) > 1 and (ended := within.pop()) and ended != _ANYWHERE:
                yield ended, "".join(pieces)
            pieces.clear()
        else:
            pieces.append(" " if mark.startswith("/*") else mark)
    if (open_at_end := within[-1]) and open_at_end != _ANYWHERE:
        yield open_at_end, "".join(pieces)


def _entered(prelude: str, around: list[str] | None) -> list[str] | None:
    """The selectors that hold within a block; None where nothing in it does."""
    if around is None:
        return None
    if prelude.startswith("@"):
        name = prelude.split(None, 1)[0].lower().partition("(")[0]
        taken = name in _AT_TAKEN or (name == "@media" and _is_for_screen(prelude[6:].lower()))
        return around if taken else None
    own = [selector for written in prelude.split(",") if _is_of_a_length(selector := written.strip())]
    if around == _ANYWHERE:
        return own
    pairs = ((outer, inner) for outer in around[:20] for inner in own[:50])
    nested = (inner.replace("&", outer, 5) if "&" in inner else f"{outer} {inner}" for outer, inner in pairs)
    return list(islice(filter(_is_of_a_length, nested), 100))


def _is_of_a_length(selector: str) -> bool:
    return 0 < len(selector) <= _MOST_SELECTOR_CHARS


def _is_for_screen(query: str) -> bool:
    return any(_one_is_for_screen(part.strip()) for part in query.split(","))


def _one_is_for_screen(query: str) -> bool:
    for part in query.split(" and "):
        part = part.strip().removeprefix("only ").strip()
        width = _FEATURE.fullmatch(part)
        if width:
            pixels = (
                float(width[2].strip(".") or 0) * (1 if width[3] == "px" else 16) if width[2].count(".") < 2 else 0.0
            )
            if (pixels > SCREEN_PIXELS) if width[1] == "min" else (pixels < SCREEN_PIXELS):
                return False
        elif part not in ("screen", "all", ""):
            return False
    return True
