"""The style sheets within a page, reduced to the rules that could hide something.

Supported are lists of selectors, nested rules, `@media` for an ordinary screen (ingest/extract/css/media_query.py),
`@layer`, `@scope` and `@property`; of `@supports`, `@container` and unknown queries only hiding rules count, as rules
that show something again may not hold. `@import`, animations and style sheets elsewhere are not followed. Rules are
indexed by a key that an element must have for the selector (ingest/extract/css/selectors.py) to match; `rule_of`
parses them when the page has such an element.

At most `MOST_CSS_CHARS` of a page are read; a page whose sheets have more than `MOST_PIECES` is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count, islice
from typing import NamedTuple

from sluice.contracts.errors import InvalidInput
from sluice.ingest.extract.css.bounded_cache import kept_if_short
from sluice.ingest.extract.css.colours import split_at_commas
from sluice.ingest.extract.css.computed_style import COLOURS, GROUNDS, some_look_alike
from sluice.ingest.extract.css.media_query import holds
from sluice.ingest.extract.css.selectors import Selector, asked_by, selector_of
from sluice.ingest.extract.css.visibility import SMALL_BOX, could_hide, declarations
from sluice.ingest.extract.html.nodes import Nodes

MOST_CSS_CHARS = 2_000_000
"""Most characters of all style elements together."""
MOST_PIECES = 200_000
"""Most rules and fragments, split by strings and comments, in all sheets. A large page has some ten thousand."""
_MENTIONS = re.compile(
    r"display|visibility|opacity|font|indent|clip|color|transform|translate|scale|position|width|height|margin|filter|inset|zoom|spacing|size|scale|rotate|mask|blend|index|background|line-height|grid|overflow|\\",
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
_VARIABLE = re.compile(r"var\(\s*(--[\w-]+)")
_PROPERTY = re.compile(r"@property\s+(--[\w-]+)\s*\{[^{}]*initial-value\s*:\s*([^;{}]+)", re.IGNORECASE)
_DOUBTFUL = ("@supports", "@container")
_SCOPE = re.compile(r"@scope\s*\(([^()]*)\)", re.IGNORECASE)
_NOT_A_NUMBER = re.compile(r"[^\w .-]+")
_MOST_SELECTOR_CHARS = 1_000
_MOST_NESTED = 30
_MOST_KEPT_CHARS = 100_000
"""Most characters of styles whose rules are cached, at some twenty times as many bytes."""
_UNLAYERED = 1_000_000


@dataclass(frozen=True, slots=True)
class Declared:
    """Unparsed declarations of one selector, and their place: most are for elements that the page lacks."""

    selector: str
    style: tuple[tuple[str, str, bool], ...]
    place: tuple[int, int]
    """The rule's layer, and its number among all rules."""


@dataclass(frozen=True, slots=True)
class _Around:
    """Context of a block: the selectors around it (None: anywhere), its layer, and whether it may not hold."""

    selectors: list[str] | None = None
    layer: int = _UNLAYERED
    is_doubtful: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """Declarations of one parsed selector; `rank` is its layer, its specificity and its place."""

    selector: Selector
    style: tuple[tuple[str, str, bool], ...]
    rank: tuple[int, int, int, int, int]


class Sheet(NamedTuple):
    """The relevant rules of a page, by the key of their last part, with the ids and attributes that any part tests."""

    rules: Mapping[str, Sequence[Declared]]
    ids: frozenset[str]
    attributes: frozenset[str]
    is_needed: bool


def sheet_of(nodes: Nodes) -> Sheet:
    """Combine the sheets of a page with its style attributes. Cached, as consecutive pages of a site share styles."""
    styles = (attributes.get("style") for attributes in nodes.attributes if attributes)
    inline = frozenset(style for style in styles if style)
    sheets = tuple(_sheets_of(nodes))
    is_short = sum(map(len, sheets)) + sum(map(len, inline)) <= _MOST_KEPT_CHARS
    return _kept_sheet(sheets, inline) if is_short else _sheet(tuple(_rules_of(sheets)), inline)


def rule_of(declared: Declared) -> Rule | None:
    """Parse a rule; None if its selector is not supported."""
    selector = selector_of(declared.selector)
    layer, place = declared.place
    return Rule(selector, declared.style, (layer, *selector.specificity, place)) if selector else None


def _sheets_of(nodes: Nodes) -> Iterator[str]:
    """Yield the style sheets within the page that could hide something."""
    room = MOST_CSS_CHARS
    for node, tag in enumerate(nodes.tags):
        if tag != "style" or holds(nodes.attributes[node].get("media") or "") is False:
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
    """Return the properties that hide somewhere on the page; colours only if two of them look alike."""
    declared = {(name, value) for rule in rules for name, value, _ in rule.style}
    declared.update((name, value) for style in inline for name, value, _ in declarations(style))
    hiding = {name for name, value in declared if _could_hide(name, value)}
    if not hiding.isdisjoint(COLOURS) or "mix-blend-mode" in hiding or some_look_alike(declared):
        hiding.update(COLOURS)
    if not hiding.isdisjoint(SMALL_BOX):
        hiding.update(SMALL_BOX)
    if "z-index" in hiding:
        hiding.update(GROUNDS)
    if "font" in hiding or "font-size" in hiding:
        hiding.update(("font", "font-size"))
    return frozenset(hiding | _variables_used(declared, hiding)) if hiding else frozenset()


def _variables_used(declared: Iterable[tuple[str, str]], names: Iterable[str]) -> set[str]:
    """Return the variables on which the values of these properties depend."""
    wanted, used = set(names), set[str]()
    by_name: dict[str, set[str]] = {}
    for name, value in declared:
        if "var(" in value:
            by_name.setdefault(name, set()).update(_VARIABLE.findall(value))
    while wanted:
        wanted = {variable for name in wanted for variable in by_name.get(name, ())} - used
        used |= wanted
    return used


@kept_if_short(8_192)
def _could_hide(name: str, value: str) -> bool:
    return not name.startswith("--") and could_hide(name, value)


def _rules_of(sheets: Iterable[str]) -> Iterator[Declared]:
    place = 0
    pieces = count()
    layers: dict[str, int] = {}
    for sheet in sheets:
        for name, value in _PROPERTY.findall(sheet):
            place += 1
            yield Declared("html", ((name.lower(), value.strip().lower(), False),), (-1, place))
        for around, body in _blocks(sheet, pieces, layers):
            written = _STRING.sub(_harmless, body) if '"' in body or "'" in body else body
            style = tuple(declarations(written))
            if around.is_doubtful:
                style = tuple(one for one in style if could_hide(one[0], one[1]) or one[0] in COLOURS)
            if not style:
                continue
            for selector in around.selectors or ():
                place += 1
                _require_few(place)
                yield Declared(selector, style, (around.layer, place))


def _harmless(string: re.Match[str]) -> str:
    """Return a string without anything that looks like a declaration."""
    return f'"{_NOT_A_NUMBER.sub(" ", string[0])}"'


def _require_few(rules: int) -> None:
    if rules > MOST_PIECES:
        raise InvalidInput("body", "its style sheets have too many rules", "send the page without them")


def _blocks(sheet: str, so_far: Iterator[int], layers: dict[str, int]) -> Iterator[tuple[_Around, str]]:
    """Yield the context and declarations of every rule that may hold on a screen. `so_far` counts the pieces."""
    within: list[_Around | None] = [_Around()]
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
            if "@layer" in body:
                _name_layers(body, layers)
            if (around := within[-1]) and around.selectors is not None and body.strip():
                yield around, body
            entered = _entered(selectors.strip(), around, layers) if len(within) <= _MOST_NESTED else None
            if rule is None:
                within.append(entered)
            elif entered and entered.selectors is not None:
                yield entered, rule
        elif mark == "}":
            if len(within) > 1 and (ended := within.pop()) and ended.selectors is not None:
                yield ended, "".join(pieces)
            pieces.clear()
        else:
            pieces.append(" " if mark.startswith("/*") else mark)
    if (open_at_end := within[-1]) and open_at_end.selectors is not None:
        yield open_at_end, "".join(pieces)


def _name_layers(statements: str, layers: dict[str, int]) -> None:
    """Fix the order of layers by `@layer one, two;`."""
    for statement in statements.split(";"):
        if statement.strip().startswith("@layer"):
            for name in statement.strip().removeprefix("@layer").split(","):
                layers.setdefault(name.strip(), len(layers))


def _entered(prelude: str, around: _Around | None, layers: dict[str, int]) -> _Around | None:
    """Return the context of a block within `around`; None if nothing in it holds."""
    if around is None:
        return None
    prelude = prelude.replace("<!--", " ").replace("-->", " ").strip()
    if prelude.startswith("@"):
        return _within_at_rule(prelude, around, layers)
    own = [selector for written in _split_list(prelude) if _is_of_a_length(selector := written.strip())]
    if around.selectors is None:
        return replace(around, selectors=own)
    pairs = ((outer, inner) for outer in around.selectors[:20] for inner in own[:50])
    nested = (
        inner.replace(":scope", "&").replace("&", outer, 5) if "&" in inner or ":scope" in inner else f"{outer} {inner}"
        for outer, inner in pairs
    )
    return replace(around, selectors=list(islice(filter(_is_of_a_length, nested), 100)))


def _within_at_rule(prelude: str, around: _Around, layers: dict[str, int]) -> _Around | None:
    name = prelude.split(None, 1)[0].lower().partition("(")[0]
    if name == "@media":
        answer = holds(prelude[6:].lower())
        return None if answer is False else replace(around, is_doubtful=around.is_doubtful or answer is None)
    if name == "@layer":
        layer = layers.setdefault(prelude[6:].strip() or f" {len(layers)}", len(layers))
        return replace(around, layer=layer if around.layer == _UNLAYERED else around.layer)
    if name == "@scope":
        found = _SCOPE.match(prelude)
        roots = [root.strip() for root in _split_list(found[1])] if found else [":root"]
        return replace(around, selectors=roots)
    return replace(around, is_doubtful=True) if name in _DOUBTFUL else None


def _split_list(selectors: str) -> list[str]:
    """Split a list of selectors at commas outside brackets."""
    return split_at_commas(selectors) if "(" in selectors else selectors.split(",")


def _is_of_a_length(selector: str) -> bool:
    return 0 < len(selector) <= _MOST_SELECTOR_CHARS
