"""Reads the style sheets within a page as rules: selectors, declarations, place in the cascade.

A rule is doubtful if it may or may not hold: under `@supports`, `@container`, `@scope`, `@starting-style`, an unknown
media query, a later at-rule, or in a sheet that a browser may leave out. What a doubtful rule hides is not
certainly visible; what it shows is not certainly shown.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote_to_bytes

import tinycss2

from sluice.contracts.errors import InvalidInput
from sluice.ingest.extract.css.selectors import Selector, selectors_of
from sluice.ingest.extract.css.visibility import HIDES, amount_of, judge, named, readable, table, tokens_of, written

MOST_CSS_CHARS = 1_500_000
"""Most characters of all style elements together; a page with more is refused."""
_MOST_NESTED, _MOST_SELECTORS = 12, 60_000
_UNLAYERED, _UNKNOWN_LAYER = 1_000_000, 2_000_000
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


@dataclass(frozen=True, slots=True)
class _Around:
    selectors: Sequence[Selector] | None = None
    layer: int = _UNLAYERED
    is_doubtful: bool = False
    nested: int = 0


@dataclass(slots=True)
class Sheets:
    """All sheets of a page. `is_elsewhere`: some are not within the page, so that what they say is unknown."""

    rules: list[Rule] = field(default_factory=list)
    hiding_animations: set[str] = field(default_factory=set)
    """Animations with a frame that does not surely show."""
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
        if found[1]:
            try:
                body = _from_base64(body)
            except ValueError:
                return
        self.read(body.decode("utf-8", "replace"), is_doubtful=is_doubtful, nested=nested + 1)

    def _add(self, items: Iterable[Any], around: _Around) -> list[Declaration]:
        """Add the rules among `items`, and return their declarations."""
        declared: list[Declaration] = []
        if around.nested > _MOST_NESTED:
            return declared
        for item in items:
            match item.type:
                case "declaration":
                    if (one := declaration_of(item)) is not None:
                        declared.append(one)
                case "qualified-rule":
                    self._add_rule(selectors_of(item.prelude, around.selectors), item.content, around)
                case "at-rule":
                    self._add_at_rule(item, around)
        return declared

    def _add_rule(self, selectors: list[Selector], content: Any, around: _Around) -> None:
        within = replace(around, selectors=selectors, nested=around.nested + 1)
        place = len(self.rules)
        declared = tuple(self._add(tinycss2.parse_blocks_contents(content, True, True), within))
        if not declared:
            return
        if place + len(selectors) > _MOST_SELECTORS:
            raise InvalidInput("body", "its style sheets have too many rules", "send the page without them")
        rules = [Rule(one, declared, around.layer, place, around.is_doubtful) for one in selectors if not one.is_idle]
        self.rules[place:place] = rules

    def _add_at_rule(self, rule: Any, around: _Around) -> None:
        name, prelude = rule.lower_at_keyword, rule.prelude
        within = replace(around, nested=around.nested + 1)
        bare = name.removeprefix("-webkit-").removeprefix("-moz-")
        condition = " ".join(written(prelude).split())
        if name == "import":
            self._import(prelude, around)
        elif bare == "keyframes":
            self._keyframes(rule)
        elif name == "font-face":
            self._font_face(rule)
        elif name == "property":
            self.registered.add(condition)
        elif name == "layer" and rule.content is None:
            for one in condition.split(","):
                self._layers.setdefault(one.strip(), len(self._layers))
        elif name not in table().idle and rule.content is not None:
            if name in ("media", "supports"):
                answer = media_holds(condition if name == "media" else condition.replace("(", "supports("))
                if answer is False:
                    return
                within = replace(within, is_doubtful=around.is_doubtful or answer is None)
            elif name == "layer" and condition and around.layer == _UNLAYERED and "." not in condition:
                within = replace(within, layer=self._layers.setdefault(condition, len(self._layers)))
            elif name == "layer":
                within = replace(within, layer=_UNKNOWN_LAYER, is_doubtful=True)
            elif name == "scope":
                roots = [token for token in prelude if token.type == "() block"]
                scope = selectors_of(roots[0].content) if roots else selectors_of(tokens_of(":root"))
                items = tinycss2.parse_rule_list(rule.content, True, True)
                for item in items:
                    if item.type == "qualified-rule":
                        item.prelude[:] = _at_scope(item.prelude)
                self._add(items, replace(within, is_doubtful=True, selectors=scope or None))
                return
            else:
                within = replace(within, is_doubtful=True)
            if around.selectors is None:
                self._add(tinycss2.parse_rule_list(rule.content, True, True), within)
            else:
                self._add_rule(list(around.selectors), rule.content, within)

    def _import(self, prelude: list[Any], around: _Around) -> None:
        parts = [token for token in prelude if token.type not in ("whitespace", "comment")]
        if not parts:
            return
        first = parts[0]
        if first.type == "function" and first.lower_name == "url" and first.arguments:
            first = first.arguments[0]
        rest = written(parts[1:]).strip()
        answer = media_holds(rest)
        if answer is not False:
            is_doubtful = around.is_doubtful or answer is None
            self.link(str(getattr(first, "value", "")), is_doubtful=is_doubtful, nested=around.nested)

    def _keyframes(self, rule: Any) -> None:
        for frame in tinycss2.parse_rule_list(rule.content or [], True, True):
            for item in tinycss2.parse_blocks_contents(getattr(frame, "content", None) or [], True, True):
                one = declaration_of(item) if item.type == "declaration" else None
                if one is not None and not animates_harmlessly(*one[:2]):
                    self.hiding_animations.add(written(rule.prelude).strip().strip("\"'").lower())

    def _font_face(self, rule: Any) -> None:
        found = {}
        for item in tinycss2.parse_blocks_contents(rule.content or [], True, True):
            if item.type == "declaration":
                found[item.lower_name] = written(item.value)
        if "data:" in found.get("src", "") or "size-adjust" in found:
            self.own_fonts.add(found.get("font-family", "").strip().strip("\"'").lower())


def _from_base64(body: bytes) -> bytes:
    """Decode base64 as a `data:` address has it. Raises ValueError."""
    return b64decode(body + b"=" * (-len(body) % 4))


def _at_scope(prelude: list[Any]) -> list[Any]:
    """Replace `:scope` by `&`."""
    found: list[Any] = []
    for token in prelude:
        if token.type == "ident" and token.lower_value == "scope" and found and found[-1] == ":":
            found[-1:] = tinycss2.parse_component_value_list("&")
        else:
            found.append(token)
    return found


def declaration_of(item: Any) -> Declaration | None:
    """Return a declaration that may matter to visibility; None for all others."""
    name = item.name if item.name.startswith("--") else item.lower_name
    if not name.startswith("--") and not named(name):
        return None
    value = " ".join(written(item.value).split())
    return name, value if name.startswith("--") else value.lower(), item.important


def animates_harmlessly(name: str, value: str) -> bool:
    """Return whether a frame of an animation leaves text as it is."""
    if name.startswith("--") or named(name) in ("color", "text-fill-color", "background", "font-size", "font"):
        return False
    if named(name) in ("background-color", "background-image"):
        return False
    return (judge(named(name), value) or HIDES).shows


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
    amount = amount_of(tokens_of(found[4])[0]) if found else None
    if not found or not amount or bool(found[1]) is not (found[3] == ":"):
        return None
    size = _SIZES[found[2]]
    return size >= amount[0] if found[1] == "min" or found[3] in (">", ">=") else size <= amount[0]
