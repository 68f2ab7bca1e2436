"""Finds the text of a page that surely shows: where nothing but values known to show touches it.

For each element the declarations that may apply are put in the order of the cascade. A property shows if all values
down to the first that surely applies are known to show (ingest/extract/css/visibility.py); so nothing unknown can
show what something else hides. Of what adds up over the elements around a text the sum counts: moves, sizes and
opacity. Letters must stand out from every ground on which they might stand.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

from sluice.ingest.extract.css.colours import BLACK, LEAST_CONTRAST, LINK, WHITE, Colour, colour_of, contrast, over
from sluice.ingest.extract.css.selectors import MAYBE, NO, YES, Element, Matching, Path
from sluice.ingest.extract.css.sheet import Declaration, Rule, Sheets, declared_in, media_holds
from sluice.ingest.extract.css.visibility import (
    AS_AROUND,
    HIDES,
    MOST_CHARS,
    UNKNOWN,
    amounts_of,
    font_size,
    judge,
    named,
    pixels_of,
    table,
    tokens_of,
    written,
)
from sluice.ingest.extract.html.nodes import Nodes

SMALLEST_PIXELS, LARGEST_PIXELS = 6.0, 300.0
"""Font sizes outside which text is not read."""
FAINTEST = 0.3
"""Product of opacities down to which text counts as visible."""
FARTHEST_BACK, FARTHEST_FORTH = 150.0, 3_000.0
"""Pixels by which boxes around a text may move it, in all, to the left or up, and to the right or down."""
FARTHEST_COVER, _LEAST_PULL, _LEAST_ASIDE = 400.0, -8.0, 40.0
"""Pixels beyond which a box covers nothing here, the margin by which it is pulled over what is above it, and how far
it is moved sideways to lie on what is beside it."""
_FAINT = 0.2
"""Alpha of what covers nothing."""
_MOST_SUBSTITUTED, _MOST_COLOURS = 10, 8
_MOST_BEFORE = 200
"""Most names of elements beside others that are looked for; of more, all may be there."""
_TOP_LAYER, _ON_TOP = 2_000_000, (1_001, 0, 0)
"""The place of a style attribute in the cascade, above all that may hold."""
_NOT_RENDERED = frozenset(("template", "noscript", "iframe", "noembed", "noframes", "textarea", "title"))
_HINTS = {"color": "color", "bgcolor": "background-color", "text": "color", "background": "background-image"}
"""Attributes of old HTML, and the properties that they set."""
_HINTED = {"color": ("font",), "text": ("body",)}
_CLOSED = frozenset(("hidden", "popover"))
_TAGS_THAT_SAY, _SAYING = frozenset(("a", "bdo", "mark", "dialog")), _CLOSED.union(_HINTS)
"""Tags and attributes that style an element by themselves."""
_PLAIN_COLOUR = re.compile(r"#?[0-9a-f]{6}|#[0-9a-f]{3}|(?!transparent)[a-z]+")
"""Colours that an attribute of old HTML and a style understand alike."""
_GONE = ("none", "hidden", "collapse", "0", "0.0", ".0", "0%")
_GROUNDS = ("background", "background-color", "background-image")
_IMAGES = frozenset(("img", "video", "picture", "iframe", "canvas", "object", "embed", "svg"))
_BLANK_FONTS = re.compile(r"blank|wingdings|webdings|dingbats|symbol|redacted|flow ?(?:block|circular)|barcode")
_SHIFTING = ("margin", "left", "right", "top", "bottom", "inset", "trans")
_CELLS = ("grid-area", "grid-row", "grid-column", "grid-row-start", "grid-column-start")
_NONE: frozenset[str] = frozenset()
Winners = Mapping[str, Sequence[str]]
"""For each property the values that may count, the weightiest first and the last one surely."""


@dataclass(frozen=True, slots=True)
class Look:
    """What the text in an element inherits, and what the boxes around it do to it."""

    unreadable: frozenset[str] = frozenset()
    """Inherited properties with values that do not surely show."""
    size: float = 16.0
    strength: float = 1.0
    back: float = 0.0
    forth: float = 0.0
    inks: frozenset[Colour] = frozenset()
    """Colours that letters may have; none if they are unknown and not suspect."""
    grounds: frozenset[Colour] = frozenset()
    variables: Mapping[str, str] = field(default_factory=dict, compare=False)

    def shows_text(self) -> bool:
        """Return whether text of this look surely shows."""
        if self.unreadable or not SMALLEST_PIXELS <= self.size <= LARGEST_PIXELS:
            return False
        inks = (ink._replace(alpha=ink.alpha * self.strength) for ink in self.inks)
        return all(contrast(ink, ground) >= LEAST_CONTRAST for ink in inks for ground in self.grounds)


@dataclass(slots=True, eq=False)
class _Place:
    """Elements with equal names below elements with equal names: a page of a thousand elements has some fifty."""

    look: Look
    path: Path | None = None
    is_hidden: bool = False
    shows_text: bool = True
    covers: bool = False
    below: dict[object, _Place] = field(default_factory=dict)


class Cascade:
    """The styles of one page. Call `place` in page order, and never for nodes within a hidden element."""

    def __init__(self, nodes: Nodes, *, trusts_body: bool) -> None:
        self._nodes = nodes
        self._trusts_body = trusts_body
        self._matching = Matching()
        self.sheets = _sheets_of(nodes)
        self._rules: dict[str, list[Rule]] = {}
        self._tests: dict[str, set[tuple[str, Any]]] = {}
        for rule in self.sheets.rules:
            self._rules.setdefault(rule.selector.key(), []).append(rule)
            for name, (attribute, test) in rule.selector.tests.items():
                self._tests.setdefault(attribute, set()).add((name, test))
        self._named = frozenset(name for rule in self.sheets.rules for name in rule.selector.names())
        self._counted = {kind: _places(nodes, kind) for kind in self._tests if kind[0] == ":"}
        self._before = self._elements_before()
        bodies = (nodes.attributes[node] for node, tag in enumerate(nodes.tags) if tag == "body")
        self._link = next((body["link"] for body in bodies if body.get("link")), "")
        inks = frozenset() if self.sheets.is_elsewhere else frozenset((BLACK,))
        self._first = _Place(Look(inks=inks, grounds=frozenset((WHITE,))))
        self._places = [self._first] * len(self._nodes)

    def place(self, node: int) -> _Place:
        """Return what is known of an element."""
        around = self.around(node)
        tag, attributes = self._nodes.tags[node], self._nodes.attributes[node]
        element = self._element(node, self._before[node])
        is_hinted = tag in _TAGS_THAT_SAY or not _SAYING.isdisjoint(attributes)
        hints = tuple(_hints(tag, attributes, self._link)) if is_hinted else ()
        own = attributes.get("style") or ""
        key = tag, element, hints, own
        place = around.below.get(key) if self._matching.left > 0 else _Place(around.look, is_hidden=True)
        if place is None:
            path = Path(element, around.path)
            place = around.below[key] = self._placed(around, path, tag, hints, own)
        self._places[node] = place
        return place

    def around(self, node: int) -> _Place:
        """Return what is known of the element around."""
        parent = self._nodes.parents[node]
        return self._places[parent] if parent >= 0 else self._first

    def _element(self, node: int, before: frozenset[str]) -> Element:
        tag, attributes = self._nodes.tags[node], self._nodes.attributes[node]
        if self._counted:
            attributes = {**attributes, **{kind: places[node] for kind, places in self._counted.items()}}
        if not attributes:
            return Element(frozenset((tag,)), frozenset((tag,)), before)
        names = [tag, *(f".{name}" for name in (attributes.get("class") or "").split())]
        names += [f"#{attributes['id']}"] if attributes.get("id") else []
        exact = [name for name in names if name.lower() in self._named]
        lower = [name.lower() for name in exact]
        for attribute in self._tests.keys() & attributes.keys():
            value = attributes[attribute]
            self._matching.left -= len(self._tests[attribute])
            for name, test in self._tests[attribute] if self._matching.left > 0 else ():
                if test.lower().holds(value.lower()):
                    lower.append(name)
                    exact += [name] if test.holds(value) else []
        return Element(frozenset(exact), frozenset(lower), before)

    def _elements_before(self) -> list[frozenset[str]]:
        """Return for each element the names of those before it in its parent, if a selector asks for any."""
        nodes = self._nodes
        asked = _NONE.union(*(one.before for rule in self.sheets.rules for one in rule.selector.compounds))
        if not asked or len(asked) > _MOST_BEFORE:
            return [asked] * len(nodes)
        found, latest = [_NONE] * len(nodes), dict[int, frozenset[str]]()
        for node, tag in enumerate(nodes.tags):
            if tag:
                before = found[node] = latest.get(nodes.parents[node], _NONE)
                also = self._element(node, _NONE).lower & asked
                latest[nodes.parents[node]] = before if also <= before else before | also
        return found

    def _placed(self, around: _Place, path: Path, tag: str, hints: Sequence[Declaration], own: str) -> _Place:
        look = around.look
        matched: dict[str, list[tuple[Rule, int]]] = {"": [], "before": [], "after": []}
        for name in ("", *path.element.lower):
            for rule in self._rules.get(name, ()):
                how = self._matching.matches(path, rule.selector)
                if how != NO:
                    self._matching.left -= len(rule.declarations)
                    matched[rule.selector.pseudo].append((rule, min(how, MAYBE) if rule.is_doubtful else how))
        if self._matching.left <= 0:
            return _Place(look, is_hidden=True)
        if not (own or hints or any(matched.values())):
            return _Place(look, path, shows_text=around.shows_text)
        ignores_hiding = self._trusts_body and not hints and tag in ("html", "body")
        styler = _Styler(self.sheets, look, tag, _winners(matched[""], hints, own), ignores_hiding=ignores_hiding)
        found = styler.styled()
        if found is not None:
            for generated in (matched["before"], matched["after"]):
                if generated and _Styler(self.sheets, found, "", _winners(generated, (), "")).covers(is_generated=True):
                    found = None
                    break
        if found is None:
            return _Place(look, path, is_hidden=True, shows_text=False, covers=styler.covers())
        return _Place(found, path, shows_text=found.shows_text(), covers=styler.covers())


def hides(style: str) -> bool:
    """Return whether a style attribute keeps the text in its element from surely showing."""
    first = Look(inks=frozenset((BLACK,)), grounds=frozenset((WHITE,)))
    found = _Styler(Sheets(), first, "div", _winners((), (), style)).styled()
    return found is None or not found.shows_text()


def _places(nodes: Nodes, kind: str) -> list[str]:
    """Return each element's place among all of its parent, or those of its type, from 1 on; "" where it is unknown."""
    counts: Counter[tuple[int, str]] = Counter()
    found = [""] * len(nodes)
    for node, tag in enumerate(nodes.tags):
        if tag and nodes.tags[nodes.parents[node]] != "table":  # a browser puts rows into bodies of their own
            among = nodes.parents[node], tag if kind.endswith("type") else ""
            counts[among] += 1
            found[node] = str(counts[among])
    return found


def _sheets_of(nodes: Nodes) -> Sheets:
    sheets = Sheets()
    inert_to = 0
    for node, tag in enumerate(nodes.tags):
        if tag in _NOT_RENDERED:
            inert_to = max(inert_to, nodes.ends[node])
        if node < inert_to or tag not in ("style", "link"):
            continue
        get = nodes.attributes[node].get
        relation, kind = (get("rel") or "").lower().split(), (get("type") or "").strip().lower()
        answer = media_holds(get("media") or "")
        if answer is False or kind not in ("", "text/css"):
            continue
        is_doubtful = answer is None or "title" in nodes.attributes[node]
        if tag == "style":
            sheets.read("".join(nodes.texts[node : nodes.ends[node]]), is_doubtful=is_doubtful)
        elif "stylesheet" in relation and ("alternate" not in relation or _chooses_sheets(nodes)):
            sheets.link(get("href") or "", is_doubtful=is_doubtful)
    return sheets


def _chooses_sheets(nodes: Nodes) -> bool:
    return any(one.get("http-equiv", "").lower() == "default-style" for one in nodes.attributes)


def _hints(tag: str, attributes: Mapping[str, str], link: str) -> Iterator[Declaration]:
    for name, set_by in _HINTS.items():
        value = attributes.get(name)
        if value and tag in _HINTED.get(name, (tag,)):
            image = UNKNOWN if "data:" in value.lower() else "url(a)"
            yield set_by, image if name == "background" else _colour_attribute(value), False
    if tag == "a" and "href" in attributes:
        yield "color", _colour_attribute(link) if link else "-link", False
    if "popover" in attributes or tag == "dialog":
        yield from (("position", "absolute", False), ("background-color", "#fff", False), ("color", "#000", False))
    if attributes.get("hidden", "").strip().lower() == "until-found":
        yield "content-visibility", "hidden", False
    elif not _CLOSED.isdisjoint(attributes) or (tag == "dialog" and "open" not in attributes):
        yield "display", "none", False
    if tag == "bdo":
        yield "unicode-bidi", "bidi-override", False
    if tag == "mark":
        yield from (("color", "#000", False), ("background-color", "#ff0", False))


def _colour_attribute(value: str) -> str:
    value = value.strip().lower()
    if not _PLAIN_COLOUR.fullmatch(value):
        return UNKNOWN
    value = f"#{value}" if colour_of(value) is None and len(value) == 6 else value
    return value if colour_of(value) else UNKNOWN


def _winners(matched: Iterable[tuple[Rule, int]], hints: Sequence[Declaration], own: str) -> dict[str, list[str]]:
    """Return the values that may count, by the order of the cascade (CSS Cascade 5, section 6.1)."""
    ranked: list[tuple[bool, int, tuple[int, int, int], int, int, str, str, bool]] = []
    for name, value, _ in hints:
        ranked.append((False, -1, (0, 0, 0), 0, 0, name, value, True))
    for rule, how in matched:
        for number, (name, value, important) in enumerate(rule.declarations):
            layer = _TOP_LAYER if how < YES else -rule.layer if important else rule.layer
            ranked.append((important, layer, rule.selector.specificity, rule.order, number, name, value, how == YES))
    for number, (name, value, important) in enumerate(declared_in(own) if own else ()):
        ranked.append((important, _TOP_LAYER, _ON_TOP, 0, number, name, value, True))
    found: dict[str, list[str]] = {}
    settled: set[str] = set()
    for *_, name, value, is_sure in sorted(ranked, reverse=True):
        if name not in settled and (name.startswith("--") or judge(named(name), value) is not None):
            found.setdefault(name, []).append(value)
            if is_sure:
                settled.add(name)
    for name, values in found.items():
        if name.startswith("--"):
            values[:] = values if len(values) == 1 and name in settled else [UNKNOWN]
        elif name not in settled:
            values.append("unset")
    return found


class _Styler:
    """Works out the look of one element from that around it."""

    def __init__(self, sheets: Sheets, look: Look, tag: str, winners: Winners, *, ignores_hiding: bool = False) -> None:
        self._sheets, self._tag, self._ignores_hiding = sheets, tag, ignores_hiding
        self._look = look
        own = {name: values[0] for name, values in winners.items() if name.startswith("--")}
        if own:
            self._look = replace(look, variables={**look.variables, **own})
            own = {name: self._with_variables(value) for name, value in own.items()}
            self._look = replace(look, variables={**look.variables, **own})
        self._values = {
            name: [*map(self._with_variables, one)] for name, one in winners.items() if not name.startswith("--")
        }

    def styled(self) -> Look | None:
        """Return the look of the element's text; None if it and all in it do not surely show."""
        look, values = self._look, self._values
        unreadable = set(look.unreadable)
        strength, back, forth = look.strength, look.back, look.forth
        for name, given in values.items():
            kind = named(name)
            if kind in ("color", "font-size", *_GROUNDS) or (kind == "line-height" and self._tag in ("sub", "sup")):
                continue
            if kind == "font-family":
                _note(unreadable, kind, given, [not self._is_blank_font(value) for value in given])
                continue
            verdicts = [judge(kind, value) or HIDES for value in given]
            shows = [verdict.shows for verdict in verdicts]
            if kind in table().inherited:
                _note(unreadable, kind, given, shows)
            elif not all(shows) and not self._ignores_hiding:
                return None
            for verdict in verdicts:
                strength, back, forth = strength * verdict.factor, back + verdict.back, forth + verdict.forth
        if self._ignores_hiding:
            unreadable, strength, back, forth = set(), 1.0, 0.0, 0.0
        elif strength < FAINTEST or back > FARTHEST_BACK or forth > FARTHEST_FORTH or self._is_cut():
            return None
        look = replace(look, strength=strength, back=back, forth=forth, size=self._size())
        return self._coloured(look, unreadable)

    def covers(self, *, is_generated: bool = False) -> bool:
        """Return whether an element, or one that a rule generates, is painted and may lie on what is around it."""
        values = self._values
        if is_generated and all(value in ("none", "normal") for value in values.get("content", ["none"])):
            return False
        if any(values.get(name, ("",))[-1] in _GONE for name in ("display", "visibility", "opacity")):
            return False
        if any(pixels is not None and pixels <= 6 for pixels in self._pixels("height", "width")):
            return False
        if not self._is_over() or any(value.startswith("-") for value in values.get("z-index", ())):
            return False
        paints = [_paint_of(value) for name in _GROUNDS for value in values.get(name, ())]
        is_image = self._tag in _IMAGES or any("url(" in value for value in values.get("content", ()))
        return is_image or any(paint.is_painted for paint in paints) or "backdrop-filter" in values

    def _is_over(self) -> bool:
        """Return whether a box is moved out of the flow, but not so far that it covers nothing here."""
        is_over = any(value in ("absolute", "fixed") for value in self._values.get("position", ()))
        for name, given in self._values.items():
            kind = named(name)
            for value in given if kind.startswith(_SHIFTING) else ():
                pieces = [one for piece in tokens_of(value) for one in getattr(piece, "arguments", None) or [piece]]
                amounts = [amount for piece in pieces for amount, _ in amounts_of(piece)]
                if min(amounts, default=0.0) < -FARTHEST_COVER:
                    return False
                if kind.startswith("margin"):
                    is_over = is_over or min(amounts, default=0.0) < _LEAST_PULL
                elif kind in ("left", "right"):
                    is_over = is_over or max(map(abs, amounts), default=0.0) > _LEAST_ASIDE
                else:
                    is_over = is_over or any(amounts) or not (judge(kind, value) or HIDES).shows
            is_over = is_over or (kind in _CELLS and any(map(str.isdigit, "".join(given))))
        return is_over

    def _is_cut(self) -> bool:
        """Return whether a box that hides what does not fit may have less room than its text needs."""
        heights = self._pixels("height", "max-height", "block-size", "max-block-size", "aspect-ratio")
        is_on_one_line = any(value in ("nowrap", "pre") for value in self._values.get("white-space", ()))
        if self._overflows("hidden", "clip") and (
            heights or is_on_one_line or min(self._pixels("width"), default=99) < 60
        ):
            return True
        return min(self._pixels("height"), default=99) < 30 and self._overflows("auto", "scroll")

    def _overflows(self, *words: str) -> bool:
        given = (one for name, values in self._values.items() if name.startswith("overflow") for one in values)
        return any(word in value.split() for value in given for word in words)

    def _pixels(self, *names: str) -> list[float]:
        found = (pixels_of(value) for name in names for value in self._values.get(name, ()))
        return [pixels for pixels in found if pixels is not None]

    def _coloured(self, look: Look, unreadable: set[str]) -> Look:
        """Return `look` with the colours that letters and the ground behind them may have."""
        inks, grounds = look.inks, look.grounds
        if given := self._values.get("color"):
            _note(unreadable, "color", given, [ink is not None for ink in map(self._ink, given)])
            inks = frozenset().union(*(self._ink(value) or () for value in given))
        paints = [_paint_of(value) for name in _GROUNDS for value in self._values.get(name, ())]
        base, added = set[Colour](), set[Colour]()
        is_sure = all(len(self._values.get(name, ())) < 2 for name in _GROUNDS)
        for paint in paints:
            colours = (*paint.colours, *(inks if paint.is_ink else ()))
            seen = {
                over(colour, ground) for colour in colours for ground in (grounds if colour.alpha < 1 else (WHITE,))
            }
            (base if is_sure and not paint.is_partial else added).update(seen)
        if any(paint.is_unknown for paint in paints) or len(base | added) > _MOST_COLOURS:
            unreadable.add("background")
        elif base:
            unreadable.discard("background")
        grounds = frozenset((base or grounds) | added)
        return replace(look, inks=inks, grounds=grounds, unreadable=frozenset(unreadable))

    def _ink(self, value: str) -> frozenset[Colour] | None:
        """Return the colours that letters have by a value of `color`; None if they are unknown."""
        if value in (*AS_AROUND, "currentcolor"):
            return self._look.inks
        if value == "-link":
            return frozenset() if self._sheets.is_elsewhere else frozenset((LINK,))
        colour = BLACK if value in ("initial", "canvastext") else colour_of(value)
        return None if colour is None else frozenset((colour,))

    def _size(self) -> float:
        sizes = [font_size(value, self._look.size) or 0.0 for value in self._values.get("font-size", ())]
        size = min(sizes, default=self._look.size)
        return self._look.size if self._ignores_hiding and size < SMALLEST_PIXELS else size

    def _is_blank_font(self, value: str) -> bool:
        first = value.partition(",")[0]
        return bool(_BLANK_FONTS.search(first)) or any(font and font in first for font in self._sheets.own_fonts)

    def _with_variables(self, value: str) -> str:
        """Return `value` with each `var()` replaced; `UNKNOWN` for a variable that is not surely known."""
        for _ in range(_MOST_SUBSTITUTED):
            if "var(" not in value:
                return value if len(value) <= MOST_CHARS else UNKNOWN
            try:
                value = self._once_substituted(tokens_of(value, skip_space=False)) or UNKNOWN
            except RecursionError:
                break
        return UNKNOWN

    def _once_substituted(self, tokens: Iterable[Any]) -> str:
        parts: list[str] = []
        for piece in tokens:
            if piece.type == "function" and piece.lower_name == "var":
                parts.append(self._variable(piece.arguments))
            elif piece.type == "function":
                parts.append(f"{piece.name}({self._once_substituted(piece.arguments)})")
            elif piece.type == "() block":
                parts.append(f"({self._once_substituted(piece.content)})")
            else:
                parts.append(written([piece]))
        return "".join(parts)

    def _variable(self, arguments: Sequence[Any]) -> str:
        name, comma, fallback = written(arguments).partition(",")
        if name.strip() in self._sheets.registered:
            return UNKNOWN
        return self._look.variables.get(name.strip(), fallback.strip() if comma else "unset")


def _note(unreadable: set[str], kind: str, given: Sequence[str], shows: Sequence[bool]) -> None:
    """Note whether an inherited property shows text: if all that may count do, and none is taken from around."""
    known = [does for value, does in zip(given, shows, strict=True) if value not in AS_AROUND]
    if not all(known):
        unreadable.add(kind)
    elif len(known) == len(given):
        unreadable.discard(kind)


class _Paint(NamedTuple):
    """What a value of a background paints. `is_partial`: a gradient may leave a part of the box unpainted."""

    colours: Sequence[Colour]
    is_partial: bool
    is_ink: bool
    is_painted: bool
    is_unknown: bool


@lru_cache(maxsize=4_096)
def _paint_of(value: str) -> _Paint:
    colours: list[Colour] = []
    tokens = tokens_of(value)
    has_gradient = is_placed = is_ink = is_image = False
    is_unknown = not tokens or UNKNOWN in value
    for piece in tokens:
        if piece.type == "function" and piece.lower_name.endswith("gradient"):
            has_gradient = True
            stops = [colour_of(written([one])) for one in piece.arguments]
            colours += filter(None, stops)
            known = [
                colour for one, colour in zip(piece.arguments, stops, strict=True) if colour or one.type == "function"
            ]
            is_unknown = is_unknown or not known or None in known
        elif colour := colour_of(written([piece])):
            colours.append(colour)
        elif piece.type in ("url", "function"):
            is_image = True
            address = piece.value if piece.type == "url" else written(piece.arguments)
            is_unknown = is_unknown or "data:" in address.lower() or getattr(piece, "lower_name", "url") != "url"
        elif piece.type == "ident" and piece.lower_value == "currentcolor":
            is_ink = True
        elif piece != ",":
            is_placed = True
    is_painted = is_ink or is_image or (has_gradient and is_unknown) or any(one.alpha > _FAINT for one in colours)
    solid = tuple(colour for colour in colours if colour.alpha)
    return _Paint(solid, has_gradient and is_placed, is_ink, is_painted, is_unknown)
