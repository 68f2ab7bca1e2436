"""Finds the text of a page that surely shows: where nothing but values known to show touches it.

For each element the declarations that may apply are put in the order of the cascade. A property shows if all values
down to the first that surely applies are known to show (ingest/extract/css/visibility.py); so nothing unknown can
show what something else hides. Of what adds up over the elements around a text the sum counts: moves, sizes and
opacity. Letters must stand out from every ground on which they might stand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import tinycss2

from sluice.ingest.extract.css.bounded_cache import kept_if_short
from sluice.ingest.extract.css.colours import BLACK, LEAST_CONTRAST, LINK, WHITE, Colour, colour_of, contrast, over
from sluice.ingest.extract.css.selectors import MAYBE, NO, Matching, split_at_commas
from sluice.ingest.extract.css.sheet import Declaration, Rule, Sheets, declaration_of, media_holds
from sluice.ingest.extract.css.visibility import (
    HIDES,
    SHOWS,
    UNKNOWN,
    amount_of,
    font_size,
    judge,
    named,
    readable,
    size_in_font,
    table,
    tokens_of,
    written,
)
from sluice.ingest.extract.html.nodes import BLOCKS, Nodes

SMALLEST_PIXELS = 6.0
"""Font size below which text is not read."""
LARGEST_PIXELS = 300.0
FAINTEST = 0.3
"""Product of opacities and scales down to which text counts as visible."""
FARTHEST_BACK, FARTHEST_FORTH = 150.0, 3_000.0
"""Pixels by which boxes around a text may move it, in all, to the left or up, and to the right or down."""
FARTHEST_COVER = 400.0
FARTHEST_CLIPPED = 300.0
"""Pixels by which a box may lie to the right or below within one that cuts off what does not fit."""
_MOVES = frozenset(("margin", "inset", "transform", "translate"))
_FAINT, _THICKEST, _LONGEST_SHADOW = 0.2, 20.0, 8.0
"""Alpha of what covers nothing, and pixels of borders and of shadows that do not."""
_FIRST_NODES = 300
_MOST_SUBSTITUTED, _MOST_VALUE_CHARS, _MOST_COLOURS = 10, 1_000, 8
_MOST_STYLE_CHARS = 50_000
_INLINE_RANK = (3_000_000, (1_000, 0, 0), 0)
_NOT_RENDERED = frozenset(("template", "noscript", "iframe", "noembed", "noframes", "textarea", "title"))
_HINTS = {"color": "color", "bgcolor": "background-color", "text": "color", "background": "background-image"}
"""Attributes of old HTML, and the properties that they set."""
_HINTED = {"color": ("font",), "text": ("body",)}
_CLOSED = frozenset(("hidden", "popover"))
_TAGS_THAT_SAY, _SAYING = frozenset(("a", "bdo", "mark", "dialog")), _CLOSED.union(_HINTS)
"""Tags and attributes that style an element by themselves."""
_PLAIN_COLOUR = re.compile(r"#?[0-9a-f]{6}|#[0-9a-f]{3}|(?!transparent)[a-z]+")
"""Colours that an attribute of old HTML and a style understand alike."""
_CENTRING = {"translatex(-50%)": "left", "translatey(-50%)": "top", "translate(-50%)": "left"}
_CENTRING |= {"translate(-50%,-50%)": "left top", "translate(-50%,0)": "left", "translate(0,-50%)": "top"}
"""Moves back by half of a box, and the moves forth by half of the box around that they follow."""
_GONE = ("none", "hidden", "collapse", "0", "0.0", ".0", "0%")
_Candidates = tuple[frozenset[str], list[Rule], list[Rule]]
_GROUNDS = ("background", "background-color", "background-image")
_IMAGES = frozenset(("img", "video", "picture", "iframe", "canvas", "object", "embed", "svg"))
_BLANK_FONTS = re.compile(r"blank|wingdings|webdings|dingbats|symbol|redacted|flow ?(?:block|circular)|barcode")
_AS_AROUND = ("inherit", "unset", "revert")
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
    fills: frozenset[Colour] | None = None
    """The same by `-webkit-text-fill-color`."""
    grounds: frozenset[Colour] = frozenset()
    behind: frozenset[Colour] = frozenset()
    """Grounds of blocks within an inline element."""
    all_grounds: frozenset[Colour] = frozenset()
    """Grounds of every box around: something that is moved may stand on any."""
    is_clipped: bool = False
    is_on_one_line: bool = False
    variables: Mapping[str, str] = field(default_factory=dict, compare=False)

    def shows_text(self) -> bool:
        """Return whether text of this look surely shows."""
        if (
            self.unreadable
            or not self.size * min(1.0, self.strength * 2) >= SMALLEST_PIXELS
            or self.size > LARGEST_PIXELS
        ):
            return False
        if self.is_clipped and self.is_on_one_line:
            return False
        inks = self.inks if self.fills is None else self.fills
        return all(
            contrast(ink._replace(alpha=ink.alpha * self.strength), ground) >= LEAST_CONTRAST
            for ink in inks
            for ground in self.grounds
        )


@dataclass(slots=True)
class _Place:
    """Elements with equal names below elements with equal names: a page of a thousand elements has some fifty."""

    look: Look
    is_hidden: bool = False
    shows_text: bool = True
    covers: bool = False
    below: dict[object, _Place] = field(default_factory=dict)


class Cascade:
    """The styles of one page. Call `place` in page order, and never for nodes within a hidden element.

    With `trusts_body`, what hides the whole page is ignored: a script takes it away when the page is loaded.
    """

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._matching = Matching(nodes)
        self.sheets = _sheets_of(nodes)
        self._by_key: dict[str, list[Rule]] = {}
        for rule in self.sheets.rules:
            if not nodes_lack(rule.selector.pseudo):
                self._by_key.setdefault(rule.selector.key(), []).append(rule)
        self._named = frozenset(name.lower() for rule in self.sheets.rules for name in rule.selector.names())
        self._candidates: dict[tuple[str, str | None, str | None], _Candidates] = {}
        bodies = (nodes.attributes[node] for node, tag in enumerate(nodes.tags[:_FIRST_NODES]) if tag == "body")
        self._link = next((body["link"] for body in bodies if body.get("link")), "")
        self.start(trusts_body=False)

    def start(self, *, trusts_body: bool) -> None:
        """Begin at the first node."""
        self._trusts_body = trusts_body
        inks = frozenset() if self.sheets.is_elsewhere else frozenset((BLACK,))
        ground = frozenset((WHITE,))
        self._first = _Place(Look(inks=inks, grounds=ground, behind=ground, all_grounds=ground))
        self._places = [self._first] * len(self._nodes)

    def place(self, node: int) -> _Place:
        """Return what is known of an element."""
        around = self.around(node)
        tag, attributes = self._nodes.tags[node], self._nodes.attributes[node]
        names, by_names, others = self._known_of(node, tag)
        is_hinted = tag in _TAGS_THAT_SAY or not _SAYING.isdisjoint(attributes)
        hints = tuple(_hints(tag, attributes, self._link)) if is_hinted else ()
        own = attributes.get("style") or ""
        is_spent = bool(others) and self._matching.is_spent()
        matched = [] if is_spent or not others else self._matched(node, others)
        key = (tag, names, hints, own, is_spent or tuple([(id(rule), how) for rule, how in matched]))
        place = around.below.get(key)
        if place is None:
            matched += self._matched(node, by_names)
            matched += [(rule, MAYBE) for rule in others] if is_spent else []
            place = around.below[key] = self._placed(around, tag, matched, hints, own)
        self._places[node] = place
        return place

    def around(self, node: int) -> _Place:
        """Return what is known of the element around."""
        parent = self._nodes.parents[node]
        return self._places[parent] if parent >= 0 else self._first

    def _known_of(self, node: int, tag: str) -> _Candidates:
        """Return an element's ids and classes that selectors name, and the rules that these and its tag may match."""
        get = self._nodes.attributes[node].get
        key = tag, get("id"), get("class")
        if key not in self._candidates:
            names, lower = self._matching.names(node)
            found = [
                rule
                for one in ("", tag, *(lower & self._named))
                for rule in self._by_key.get(one, ())
                if rule.selector.fits(tag, lower)
            ]
            by_names = [rule for rule in found if rule.selector.by_names]
            others = [rule for rule in found if not rule.selector.by_names]
            self._candidates[key] = frozenset(one for one in names if one.lower() in self._named), by_names, others
        return self._candidates[key]

    def _matched(self, node: int, rules: Sequence[Rule]) -> list[tuple[Rule, int]]:
        if not rules:
            return []
        found = ((rule, self._matching.matches(node, rule.selector)) for rule in rules)
        return [(rule, min(how, MAYBE) if rule.is_doubtful else how) for rule, how in found if how != NO]

    def _placed(
        self, around: _Place, tag: str, matched: Sequence[tuple[Rule, int]], hints: Sequence[Declaration], own: str
    ) -> _Place:
        look = around.look
        if not (matched or hints or own):
            inner = replace(look, grounds=look.behind) if tag in BLOCKS and look.grounds is not look.behind else look
            return _Place(inner, shows_text=around.shows_text if inner is look else inner.shows_text())
        mine = [one for one in matched if one[0].selector.pseudo in ("", "part")]
        styler = _Styler(
            self.sheets, look, tag, ignores_hiding=self._trusts_body and not hints and tag in ("html", "body")
        )
        winners = _winners(mine, hints, own)
        found = styler.styled(winners)
        if found is None:
            covers = _Styler(self.sheets, look, tag).paints_over(winners)
            return _Place(look, is_hidden=True, shows_text=False, covers=covers)
        for pseudo in ("before", "after"):
            generated = [one for one in matched if one[0].selector.pseudo == pseudo]
            if generated and _Styler(self.sheets, found, "").paints_over(
                _winners(generated, (), ""), is_generated=True
            ):
                return _Place(look, is_hidden=True, shows_text=False)
        return _Place(found, shows_text=found.shows_text(), covers=styler.covers)


def nodes_lack(pseudo: str) -> bool:
    """Return whether no text of the page can be that pseudo-element, or be covered by it."""
    return pseudo not in ("", "part", "before", "after")


def hides(style: str) -> bool:
    """Return whether a style attribute keeps the text in its element from surely showing."""
    first = Look(inks=frozenset((BLACK,)), grounds=frozenset((WHITE,)), behind=frozenset((WHITE,)))
    found = _Styler(Sheets(), first, "div").styled(_winners((), (), style))
    return found is None or not found.shows_text()


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
            yield set_by, f"url({value!r})" if name == "background" else _colour_attribute(value), False
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


@kept_if_short(8_192)
def _inline(style: str) -> tuple[Declaration, ...]:
    if len(style) > _MOST_STYLE_CHARS:
        return (("display", UNKNOWN, True),)
    items = tinycss2.parse_blocks_contents(readable(style), skip_comments=True, skip_whitespace=True)
    found = (declaration_of(item) for item in items if item.type == "declaration")
    return tuple(one for one in found if one is not None)


def _winners(matched: Iterable[tuple[Rule, int]], hints: Sequence[Declaration], own: str) -> dict[str, list[str]]:
    """Return the values that may count, by the order of the cascade (CSS Cascade 5, section 6.1)."""
    ranked: list[tuple[bool, int, tuple[int, int, int], int, int, str, str, bool]] = []
    for name, value, _ in hints:
        ranked.append((False, -1, (0, 0, 0), 0, 0, name, value, True))
    for rule, how in matched:
        for number, (name, value, important) in enumerate(rule.declarations):
            layer = -rule.layer if important else rule.layer
            ranked.append((important, layer, rule.selector.specificity, rule.order, number, name, value, how > MAYBE))
    for number, (name, value, important) in enumerate(_inline(own) if own else ()):
        ranked.append((important, *_INLINE_RANK, number, name, value, True))
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


def _note(unreadable: set[str], kind: str, given: Sequence[str], shows: Sequence[bool]) -> None:
    """Note whether an inherited property shows text: if all that may count do, and none is taken from around."""
    known = [does for value, does in zip(given, shows, strict=True) if value not in _AS_AROUND]
    if not all(known):
        unreadable.add(kind)
    elif len(known) == len(given):
        unreadable.discard(kind)


class _Styler:
    """Works out the look of one element from that around it."""

    def __init__(self, sheets: Sheets, look: Look, tag: str, *, ignores_hiding: bool = False) -> None:
        self._sheets, self._look, self._tag = sheets, look, tag
        self._ignores_hiding = ignores_hiding
        self._is_moved = self._is_over = self._is_narrow = self._is_tiny = self._is_thin = self._is_low = False
        self._display = ""
        self.covers = False

    def styled(self, winners: Winners) -> Look | None:
        """Return the look of the element's text; None if it and all in it do not surely show."""
        look = self._look
        own = {name: values[0] for name, values in winners.items() if name.startswith("--")}
        if own:
            self._look = replace(look, variables={**look.variables, **own})
            own = {name: self._with_variables(value) for name, value in own.items()}
            look = self._look = replace(look, variables={**look.variables, **own})
        unreadable = set(look.unreadable)
        strength, back, forth = look.strength, look.back, look.forth
        values = {name: [*map(self._with_variables, one)] for name, one in winners.items() if not name.startswith("--")}
        self._take_centring_away(values)
        for name, given in values.items():
            kind = named(name)
            if kind in ("color", "text-fill-color", "font-size", *_GROUNDS):
                continue
            if kind in ("font", "font-family"):
                _note(unreadable, "font", given, [not self._is_blank_font(value) for value in given])
                continue
            if kind in ("animation", "animation-name"):
                if any(map(self._animates, given)) and not self._ignores_hiding:
                    return None
                continue
            if kind == "line-height" and self._tag in ("sub", "sup"):
                continue
            verdicts = [judge(kind, value) or HIDES for value in given]
            if kind in table().inherited:
                _note(unreadable, kind, given, [verdict.shows for verdict in verdicts])
            elif not all(verdict.shows for verdict in verdicts):
                if not self._ignores_hiding:
                    return None
            else:
                for verdict in verdicts:
                    strength, back, forth = strength * verdict.factor, back + verdict.back, forth + verdict.forth
        if not self._ignores_hiding and (strength < FAINTEST or back > FARTHEST_BACK or forth > FARTHEST_FORTH):
            return None
        self._read_box(values)
        clips = self._clips(values)
        is_cut = clips and (self._is_low or self._is_narrow)
        is_cut = is_cut or (self._is_tiny and (clips or self._scrolls(values)))
        is_cut = is_cut or (look.is_clipped and (forth - look.forth > FARTHEST_CLIPPED or self._is_in_a_row(values)))
        if is_cut and not self._ignores_hiding:
            return None
        if self._ignores_hiding:
            unreadable, strength, back, forth = set(), 1.0, 0.0, 0.0
        look = replace(
            look, unreadable=frozenset(unreadable), strength=strength, back=back, forth=forth, size=self._size(values)
        )
        line = values.get("white-space")
        look = replace(
            look,
            is_clipped=(look.is_clipped or clips) and not self._scrolls(values) and self._tag not in ("html", "body"),
            is_on_one_line=look.is_on_one_line if line is None else any(one in ("nowrap", "pre") for one in line),
        )
        return self._coloured(look, values)

    def _take_centring_away(self, values: dict[str, list[str]]) -> None:
        """Forget a move to the middle of the box around: half of that forth, and half of the box's own size back."""
        moves = values.get("transform", [])
        move = re.sub(r",? +", ",", moves[0]) if len(moves) == 1 else ""
        sides = _CENTRING.get(move, "").split()
        is_placed = values.get("position") in (["absolute"], ["fixed"])
        if sides and is_placed and all(values.get(side) == ["50%"] for side in sides):
            for side in ("transform", *sides):
                del values[side]

    def paints_over(self, winners: Winners, *, is_generated: bool = False) -> bool:
        """Return whether an element, or one that a rule generates, is moved and may cover what is around it."""
        if is_generated and all(value in ("none", "normal") for value in winners.get("content", ["none"])):
            return False
        values = {name: [*map(self._with_variables, one)] for name, one in winners.items()}
        if any(values.get(name, ("",))[-1] in _GONE for name in ("display", "visibility", "opacity")):
            return False
        if any(named(name).partition(":")[0] in _MOVES and _is_far(value) for name in values for value in values[name]):
            return False
        self._read_box(values)
        if is_generated and self._is_over and not self._is_thin and any("url(" in one for one in values["content"]):
            return True
        painted = self._coloured(self._look, values, is_box=True)
        return self.covers if painted is not None else True

    def _read_box(self, values: Winners) -> None:
        """Note how an element's box lies: moved out of the flow, as thin as a line, of a height that does not grow."""
        self._display = values.get("display", ("",))[0]
        floats = any(value not in ("none", "auto", "unset") for value in values.get("float", ()))
        self._is_over = any(value in ("absolute", "fixed") for value in values.get("position", ()))
        for name, given in values.items():
            kind, verdicts = named(name).partition(":")[0], [judge(named(name), value) or HIDES for value in given]
            if kind in ("inset", "translate", "transform"):
                self._is_over = self._is_over or any(
                    verdict[1:] != SHOWS[1:] or not verdict.shows for verdict in verdicts
                )
            elif kind == "margin":
                is_beside = self._tag not in BLOCKS or floats or self._display.startswith("inline")
                self._is_over = self._is_over or any(_pulls(name, value, is_beside=is_beside) for value in given)
            elif kind == "grid-area":
                self._is_over = self._is_over or any(map(str.isdigit, "".join(given)))
        self._is_moved = self._is_over or floats
        sizes = [_pixels(value) for name in ("height", "width") for value in values.get(name, ())]
        self._is_thin = any(size is not None and size <= 6 for size in sizes)
        self._is_narrow = any((_pixels(value) or 99) < 60 for value in values.get("width", ()))
        self._is_tiny = any((_pixels(value) or 99) < 30 for value in values.get("height", ()))
        self._is_low = any(
            _pixels(value) is not None
            for name in ("height", "max-height", "block-size", "max-block-size", "aspect-ratio")
            for value in values.get(name, ())
        )

    def _coloured(self, look: Look, values: Winners, *, is_box: bool = False) -> Look:
        is_block = self._tag in BLOCKS or self._display not in ("", "inline", "contents")
        around = look.behind if is_block else look.grounds
        if self._is_moved and not is_box:
            around = around | look.all_grounds
        inks, fills, unreadable = look.inks, look.fills, set(look.unreadable)
        for name, given in values.items():
            kind = named(name)
            if kind in ("color", "text-fill-color"):
                before = inks if kind == "color" else fills
                found: set[Colour] = set()
                is_known = []
                for value in given:
                    is_known.append(True)
                    if value in (*_AS_AROUND, "currentcolor"):
                        found |= before or frozenset()
                    elif value == "-link":
                        found |= frozenset() if self._sheets.is_elsewhere else {LINK}
                    elif (colour := BLACK if value in ("initial", "canvastext") else colour_of(value)) is not None:
                        found.add(colour)
                    else:
                        is_known[-1] = False
                _note(unreadable, kind, given, is_known)
                if kind == "color":
                    inks = frozenset(found)
                else:
                    fills = frozenset(found) if any(value != "currentcolor" for value in given) else None
        base: frozenset[Colour] | None = None
        added: set[Colour] = set()
        is_unknown = is_painted = False
        is_placed = any(name.startswith(("background-s", "background-p", "background-r")) for name in values)
        for name in _GROUNDS:
            for value in values.get(name, ()):
                paint = _paint_of(value)
                is_unknown = is_unknown or paint.is_unknown
                is_painted = is_painted or paint.is_painted
                for colour in (*paint.colours, *(inks if paint.is_ink else ())):
                    seen = {over(colour, ground) for ground in around} if colour.alpha < 1 else {colour}
                    if not (paint.is_partial or (is_placed and "gradient" in value)) and len(values[name]) == 1:
                        base = (base or frozenset()) | seen
                    else:
                        added |= seen
        self.covers = (is_painted or self._tag in _IMAGES) and self._is_over and not self._is_thin
        self.covers = self.covers or (_draws(values) and (self._is_over or "position" in values))
        self.covers = self.covers and not any(value.startswith("-") for value in values.get("z-index", ()))
        if self._display == "contents":
            return replace(look, inks=inks, fills=fills, unreadable=frozenset(unreadable))
        grounds = (around if base is None else base) | added
        if base is not None and self._is_low and not is_box:
            grounds |= around
        if is_unknown or len(grounds) > _MOST_COLOURS:
            unreadable.add("background")
        elif base is not None:
            unreadable.discard("background")
        return replace(
            look,
            inks=inks,
            fills=fills,
            grounds=grounds,
            behind=grounds if is_block else look.behind,
            all_grounds=look.all_grounds | grounds,
            unreadable=frozenset(unreadable),
        )

    def _size(self, values: Winners) -> float:
        sizes = []
        for name, given in values.items():
            if name in ("font", "font-size"):
                for value in given:
                    size = font_size(size_in_font(value) if name == "font" else value, self._look.size)
                    sizes.append(0.0 if size is None else size)
        size = min(sizes, default=self._look.size)
        return self._look.size if self._ignores_hiding and size < SMALLEST_PIXELS else size

    def _clips(self, values: Winners) -> bool:
        return any(
            word in ("hidden", "clip")
            for name in values
            if name.startswith("overflow")
            for value in values[name]
            for word in value.split()
        )

    def _is_in_a_row(self, values: Winners) -> bool:
        """Return whether a box as wide as its row does not shrink, so that the next one lies outside."""
        return any(value.startswith("0 0 ") and _is_wide(value) for value in values.get("flex", ()))

    def _scrolls(self, values: Winners) -> bool:
        return any(value in ("auto", "scroll") for name in ("overflow", "overflow-x") for value in values.get(name, ()))

    def _animates(self, value: str) -> bool:
        words = re.findall(r"[\w-]+", value)
        return UNKNOWN in value or not self._sheets.hiding_animations.isdisjoint(words)

    def _is_blank_font(self, value: str) -> bool:
        first = value.partition(",")[0]
        return bool(_BLANK_FONTS.search(first)) or any(font and font in first for font in self._sheets.own_fonts)

    def _with_variables(self, value: str) -> str:
        """Return `value` with each `var()` replaced; `UNKNOWN` for a variable that is not surely known."""
        for _ in range(_MOST_SUBSTITUTED):
            if "var(" not in value:
                return value
            if len(value) > _MOST_VALUE_CHARS:
                break
            try:
                value = self._once_substituted(tokens_of(value, skip_space=False))
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
        name, _, fallback = written(arguments).partition(",")
        name = name.strip()
        if name in self._sheets.registered:
            return UNKNOWN
        known = self._look.variables.get(name)
        if known is None:
            known = fallback.strip() if "," in written(arguments) else "unset"
        return known


@dataclass(frozen=True, slots=True)
class _Paint:
    colours: tuple[Colour, ...] = ()
    is_partial: bool = False
    """Whether a gradient may leave a part of the box unpainted."""
    is_ink: bool = False
    is_painted: bool = False
    is_unknown: bool = False


@kept_if_short(4_096)
def _paint_of(value: str) -> _Paint:
    colours: list[Colour] = []
    has_gradient, is_placed, is_ink, is_painted, is_unknown = (
        False,
        False,
        False,
        False,
        len(value) > 10 * _MOST_VALUE_CHARS or UNKNOWN in value,
    )
    for piece in tokens_of(value[: 10 * _MOST_VALUE_CHARS]):
        colour = colour_of(written([piece]))
        if colour is not None:
            colours += [colour] if colour.alpha else []
            is_painted = is_painted or colour.alpha > _FAINT
        elif piece.type == "function" and piece.lower_name.endswith("gradient"):
            stops = [colour_of(written([one])) for one in piece.arguments]
            known = [one for one in stops if one is not None]
            colours += [one for one in known if one.alpha]
            has_gradient = True
            is_painted = is_painted or not known or any(one.alpha > _FAINT for one in known)
            is_unknown = (
                is_unknown
                or not known
                or any(
                    one.type == "function" and colour is None
                    for one, colour in zip(piece.arguments, stops, strict=True)
                )
            )
        elif piece.type in ("url", "function"):
            is_painted = True
            is_unknown = is_unknown or not is_address(piece)
        elif piece.type == "ident" and piece.lower_value == "currentcolor":
            is_ink = is_painted = True
        elif piece != ",":
            is_placed = True
    return _Paint(tuple(colours), has_gradient and is_placed, is_ink, is_painted, is_unknown)


def is_address(piece: Any) -> bool:
    """Return whether a piece is an image elsewhere, rather than one written here or a function that is not known."""
    written_so = (
        piece.value if piece.type == "url" else written(piece.arguments) if piece.lower_name == "url" else "data:"
    )
    return "data:" not in written_so.lower()


def _pixels(value: str) -> float | None:
    tokens = tokens_of(value)
    if len(tokens) != 1 or tokens[0].type == "percentage":
        return None
    found = amount_of(tokens[0])
    return found[0] if found else None


def _draws(values: Winners) -> bool:
    """Return whether a box paints over more than its lines by a border, a shadow or a filter of what lies behind."""
    if any(value != "none" for value in values.get("backdrop-filter", ())):
        return True
    for name, given in values.items():
        if name.startswith("border") and named(name) == "border":
            if any(amount > _THICKEST for value in given for amount in _lengths(tokens_of(value))):
                return True
        elif name == "box-shadow":
            for value in given:
                for shadow in split_at_commas(tokens_of(value)):
                    across, down, blur, spread, *_ = *_lengths(shadow), 0.0, 0.0, 0.0, 0.0
                    if max(abs(across), abs(down)) + spread - blur > _LONGEST_SHADOW:
                        return True
    return False


def _lengths(tokens: Sequence[Any]) -> list[float]:
    return [found[0] for found in map(amount_of, tokens) if found is not None]


def _is_far(value: str) -> bool:
    """Return whether a value moves a box so far that it covers nothing here."""
    tokens = tokens_of(value)
    amounts = [amount_of(one) for piece in tokens for one in getattr(piece, "arguments", None) or [piece]]
    return any(found is not None and found[0] < -FARTHEST_COVER for found in amounts)


def _is_wide(value: str) -> bool:
    amount = amount_of(tokens_of(value)[-1])
    return amount is not None and amount[0] > FARTHEST_CLIPPED


def _pulls(name: str, value: str, *, is_beside: bool) -> bool:
    """Return whether a margin pulls a box over what is above it, or `is_beside` it."""
    sides = [amount_of(piece) for piece in tokens_of(value)] or [None]
    above, left = sides[0], sides[min(3, len(sides) - 1)] if len(sides) != 3 else sides[1]
    if name != "margin":
        above, left = (sides[0], None) if "top" in name or "block" in name else (None, sides[0])
    return any(side is not None and side[0] < -8 for side in (above, left if is_beside else None))
