"""Reads the style sheets within a page as rules: selectors, declarations, place in the cascade.

A rule is doubtful if it may or may not hold: in another rule, under an unknown media query or any other at-rule, or in
a sheet that a browser may leave out. What a doubtful rule hides is not certainly visible; what it shows is not
certainly shown.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

import tinycss2

from sluice.contracts.errors import InvalidInput
from sluice.ingest.extract.css.selectors import Selector, selectors_of
from sluice.ingest.extract.css.visibility import (
    MOST_CHARS,
    UNKNOWN,
    named,
    pixels_of,
    readable,
    size_in_font,
    table,
    written,
)

MOST_CSS_CHARS = 1_500_000
"""Most characters of all style elements together; a page with more is refused."""
_MOST_NESTED, _MOST_SELECTORS, _MOST_STYLE_CHARS = 12, 60_000, 50_000
_UNLAYERED = 1_000_000
_WIDTH = re.compile(r"\((?:(min|max)-)?(?:device-)?(width|height)(:|<=|>=|<|>)([^<>]+)\)")
_SIZES = {"width": 1_280.0, "height": 720.0}
_DATA = re.compile(r"data:text/css[^,]*?(;base64)?,(.*)", re.IGNORECASE | re.DOTALL)

Declaration = tuple[str, str, bool]
"""Name, value in lower case, importance."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule with one selector. `layer` and `order` are its place in the cascade."""

    selector: Selector
    declarations: tuple[Declaration, ...]
    layer: int
    order: int
    is_doubtful: bool


class _Around(NamedTuple):
    """Where a rule stands: in rules of these selectors, in at-rules, in how many of both."""

    selectors: Sequence[Selector] = ()
    layer: int = _UNLAYERED
    is_doubtful: bool = False
    nested: int = 0


@dataclass(slots=True)
class Sheets:
    """All sheets of a page. `is_elsewhere`: some are not within the page, so that what they say is unknown."""

    rules: list[Rule] = field(default_factory=list)
    own_fonts: set[str] = field(default_factory=set)
    """Fonts whose letters the page itself draws."""
    registered: set[str] = field(default_factory=set)
    """Variables that `@property` may have made not inherit."""
    is_elsewhere: bool = False
    _layers: dict[str, int] = field(default_factory=dict)
    _chars: int = 0

    def read(self, sheet: str, *, is_doubtful: bool = False, nested: int = 0) -> None:
        """Add the rules of `sheet`. Raises InvalidInput past `MOST_CSS_CHARS`."""
        self._chars += len(sheet)
        if self._chars > MOST_CSS_CHARS or sheet.count("{") > _MOST_SELECTORS:
            raise InvalidInput("body", "its style sheets are too long", "send the page without them")
        items = tinycss2.parse_stylesheet(readable(sheet), skip_comments=True, skip_whitespace=True)
        is_doubtful = is_doubtful or any(getattr(item, "lower_at_keyword", "") == "namespace" for item in items)
        self._add(items, _Around(is_doubtful=is_doubtful, nested=nested))

    def link(self, address: str, *, is_doubtful: bool = False, nested: int = 0) -> None:
        """Add the sheet at `address` if it is written there (`data:`); others are not fetched."""
        found = _DATA.match("".join(address.split("\n")).strip())
        if found is None:
            self.is_elsewhere = True
            return
        body = unquote_to_bytes(found[2])
        with suppress(ValueError):
            body = b64decode(body + b"=" * (-len(body) % 4)) if found[1] else body
            self.read(body.decode("utf-8", "replace"), is_doubtful=is_doubtful, nested=nested + 1)

    def _add(self, items: Iterable[Any], around: _Around) -> None:
        """Add the rules among `items`; their declarations are of the selectors `around`."""
        declared: list[Declaration] = []
        place = len(self.rules)
        for item in items if around.nested <= _MOST_NESTED else ():
            match item.type:
                case "declaration":
                    declared += declarations_of(item)
                case "qualified-rule":
                    is_doubtful = around.is_doubtful or bool(around.selectors)
                    within = around._replace(selectors=selectors_of(item.prelude), is_doubtful=is_doubtful)
                    inner = tinycss2.parse_blocks_contents(item.content, True, True)
                    self._add(inner, within._replace(nested=around.nested + 1))
                case "at-rule":
                    self._add_at_rule(item, around._replace(nested=around.nested + 1))
        if declared:
            if place + len(around.selectors) > _MOST_SELECTORS:
                raise InvalidInput("body", "its style sheets have too many rules", "send the page without them")
            seen = (one for one in around.selectors if not one.is_idle)
            rules = [Rule(one, tuple(declared), around.layer, place, around.is_doubtful) for one in seen]
            self.rules[place:place] = rules

    def _add_at_rule(self, rule: Any, around: _Around) -> None:
        name, condition = rule.lower_at_keyword, " ".join(written(rule.prelude).split())
        if name == "import":
            self._import(rule.prelude, around)
        elif name == "font-face":
            self._font_face(rule)
        elif name == "property":
            self.registered.add(condition)
        elif name == "layer" and rule.content is None:
            for one in condition.split(","):
                self._layers.setdefault(one.strip(), len(self._layers))
        elif name not in table().idle and rule.content is not None:
            answer: bool | None = None
            if name in ("media", "supports"):
                answer = media_holds(condition if name == "media" else condition.replace("(", "supports("))
            elif name == "layer" and condition and "." not in condition and around.layer == _UNLAYERED:
                answer = True
                around = around._replace(layer=self._layers.setdefault(condition, len(self._layers)))
            if answer is not False:
                parse = tinycss2.parse_blocks_contents if around.selectors else tinycss2.parse_rule_list
                within = around._replace(is_doubtful=around.is_doubtful or answer is None)
                self._add(parse(rule.content, True, True), within)

    def _import(self, prelude: list[Any], around: _Around) -> None:
        parts = [token for token in prelude if token.type not in ("whitespace", "comment")]
        answer = media_holds(written(parts[1:]).strip())
        if parts and answer is not False:
            first = parts[0]
            if first.type == "function" and first.lower_name == "url" and first.arguments:
                first = first.arguments[0]
            address = str(getattr(first, "value", ""))
            self.link(address, is_doubtful=around.is_doubtful or answer is None, nested=around.nested)

    def _font_face(self, rule: Any) -> None:
        items = tinycss2.parse_blocks_contents(rule.content or [], True, True)
        found = {item.lower_name: written(item.value) for item in items if item.type == "declaration"}
        if "data:" in found.get("src", "") or "size-adjust" in found:
            self.own_fonts.add(found.get("font-family", "").strip().strip("\"'").lower())


def declarations_of(item: Any) -> Iterator[Declaration]:
    """Yield a declaration if it may matter to visibility; `font` as the size and the family that it sets."""
    name = item.name if item.name.startswith("--") else item.lower_name
    value = " ".join(written(item.value).split())
    value = value if len(value) <= MOST_CHARS else UNKNOWN
    if name.startswith("--"):
        yield name, value, item.important
    elif name == "font":
        size = size_in_font(value.lower())
        if size or UNKNOWN in value or "var(" in value:
            yield "font-size", size or UNKNOWN, item.important
            yield "font-family", value.lower(), item.important
    elif named(name):
        yield name, value.lower(), item.important


def declared_in(style: str) -> tuple[Declaration, ...]:
    """Return the declarations of a style attribute that may matter to visibility."""
    if len(style) > _MOST_STYLE_CHARS:
        return (("display", UNKNOWN, True),)
    items = tinycss2.parse_blocks_contents(readable(style), skip_comments=True, skip_whitespace=True)
    return tuple(one for item in items if item.type == "declaration" for one in declarations_of(item))


def media_holds(query: str) -> bool | None:
    """Return whether a list of media queries holds on an ordinary screen; None if that is not certain."""
    answers = [_one_holds(" ".join(part.split())) for part in query.lower().split(",")]
    return True if not query.strip() or True in answers else None if None in answers else False


def _one_holds(query: str) -> bool | None:
    if query.startswith("not "):
        answer = _one_holds(query[4:])
        return None if answer is None or " and " in query else not answer
    answers = [_feature_holds(part) for part in query.removeprefix("only ").replace(")and", ") and").split(" and ")]
    return False if False in answers else None if None in answers else True


def _feature_holds(feature: str) -> bool | None:
    feature = feature.replace(" ", "")
    if re.fullmatch(r"[a-z]+", feature):
        return feature in ("screen", "all")
    if feature in table().media:
        return table().media[feature]
    found = _WIDTH.fullmatch(feature)
    amount = pixels_of(found[4]) if found else None
    if not found or amount is None or bool(found[1]) is not (found[3] == ":"):
        return None
    size = _SIZES[found[2]]
    return size >= amount if found[1] == "min" or found[3] in (">", ">=") else size <= amount
