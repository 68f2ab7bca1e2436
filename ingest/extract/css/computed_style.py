"""The style that an element's content inherits, and whether text in that style is readable.

Inherited are visibility, font size, variables, and the colours of text ("ink") and background ("ground"): text whose
contrast to its ground is less than `LEAST_CONTRAST` cannot be read. A colour or ground that depends on something
unknown, is an image or comes from a style sheet elsewhere is unknown, and nothing is concluded from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from sluice.ingest.extract.css.colours import Colour, colour_of
from sluice.ingest.extract.css.shapes import gradient_colours
from sluice.ingest.extract.css.visibility import is_unreadable, leaves_no_room, substituted, takes_away

LEAST_CONTRAST = 1.1
"""Least contrast of readable text to its ground (WCAG 2.2, "contrast ratio", 1 to 21). WCAG demands 3 at least."""
COLOURS = ("color", "-webkit-text-fill-color", "background", "background-color", "background-image")
GROUNDS = COLOURS[2:]
"""Properties that paint the ground; the first two of `COLOURS` paint the text."""
_RELATIVE_SIZE = re.compile(r"(?:[\d.]+(?:em|%|ex|ch)|smaller|larger|inherit|unset)$")
_WORD = re.compile(r"[\w-]++\((?>(?:[^()]++|\([^()]*+\))*)\)|[^\s(),]++")
_MOST_PAIRS = 10_000
_MOST_CHARS = 1_000
_WHITE, _BLACK = (1.0, 1.0, 1.0), (0.0, 0.0, 0.0)
_Colour = tuple[float, float, float]
Style = Mapping[str, str]
"""Values by property."""


@dataclass(frozen=True, slots=True)
class Look:
    """Style that the content of an element inherits. Colours are None if unknown; clear is transparent."""

    is_invisible: bool = False
    is_tiny: bool = False
    is_clear: bool = False
    is_filled_clear: bool = False
    ink: _Colour | None = None
    ground: _Colour | None = None
    fill: _Colour | None = None
    """The colour of letters, if set instead of `ink`."""
    is_on_panel: bool = False
    """Whether an element between the page and this one paints a ground of its own."""
    blends_into: _Colour | None = None
    """The ground that a blend mode makes swallow whatever is painted on it."""
    variables: Mapping[str, str] = field(default_factory=dict, compare=False)

    def hides_text(self) -> bool:
        """Return whether text of this look is unreadable."""
        if self.is_invisible or self.is_tiny or self.is_clear or self.is_filled_clear:
            return True
        ink = self.fill or self.ink
        if self.blends_into is not None:
            return True
        return ink is not None and self.ground is not None and _contrast(ink, self.ground) < LEAST_CONTRAST


BLACK_ON_WHITE = Look(ink=_BLACK, ground=_WHITE)
"""The initial look of a page, unless style sheets elsewhere may change it."""


def styled(look: Look, declared: tuple[tuple[str, str], ...], is_body: bool) -> tuple[Look, bool] | None:
    """Return an element's look and whether it hides text; None if the element and its content are invisible."""
    style = dict(declared)
    own = {name: value for name, value in declared if name.startswith("--")}
    if own:
        look = replace(look, variables={**look.variables, **_without_rounds(own)})
    if any("var(" in value for value in style.values()):
        style = {name: substituted(value, look.variables) for name, value in style.items()}
    if not is_body:
        if any(takes_away(name, value) for name, value in style.items()) or leaves_no_room(style):
            return None
        if look.is_on_panel and style.get("z-index", "").startswith("-"):
            return None
    changed = _changed(look, style, is_body=is_body)
    return changed, changed.hides_text()


def _without_rounds(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that do not refer to themselves."""
    return {name: value for name, value in variables.items() if name not in value}


def some_look_alike(declared: Iterable[tuple[str, str]]) -> bool:
    """Return whether some text colour is indistinguishable from some ground of the page, or from white."""
    inks: set[_Colour] = {_BLACK}
    grounds: set[_Colour] = {_WHITE}
    has_variables = False
    for name, value in declared:
        is_variable = name.startswith("--")
        if is_variable or name in COLOURS:
            has_variables = has_variables or "var(" in value
            colours = {colour for word in _words(value) if (colour := _colour(word)) is not None}
            colours.update(_opaque(gradient_colours(value)))
            if is_variable or name not in GROUNDS:
                inks.update(colours)
            if is_variable or name in GROUNDS:
                grounds.update(colours)
                has_variables = has_variables or "currentcolor" in value
    if has_variables or len(inks) * len(grounds) > _MOST_PAIRS:
        return True
    return any(_contrast(ink, ground) < LEAST_CONTRAST for ink in inks for ground in grounds)


def _changed(look: Look, style: Style, *, is_body: bool) -> Look:
    if (visibility := style.get("visibility")) and not is_body:
        look = replace(look, is_invisible=is_unreadable("visibility", visibility))
    for name in ("font", "font-size", "font-size-adjust"):
        if size := style.get(name):
            if is_unreadable(name, size):
                look = replace(look, is_tiny=True)
            elif name != "font-size-adjust" and not _RELATIVE_SIZE.match(size):
                look = replace(look, is_tiny=False)
    if fill := style.get("-webkit-text-fill-color"):
        look = replace(look, is_filled_clear=is_unreadable("color", fill), fill=_colour(fill))
    if (ink := style.get("color")) and ink not in ("inherit", "unset", "currentcolor"):
        look = replace(look, ink=_colour(ink), is_clear=is_unreadable("color", ink))
    around = look.ground
    for name in GROUNDS:
        if (ground := style.get(name)) and not (name == "background-image" and "gradient" not in ground):
            look = _grounded(look, ground, is_panel=not is_body)
    if (blend := style.get("mix-blend-mode")) and around is not None and _swallows(blend, around):
        look = replace(look, blends_into=around)
    return look


def _swallows(blend: str, ground: _Colour) -> bool:
    """Return whether that blend mode leaves `ground` unchanged by what is painted on it (Compositing 1, section 9)."""
    if blend in ("screen", "lighten", "color-dodge", "plus-lighter"):
        return _contrast(ground, _WHITE) < LEAST_CONTRAST
    return blend in ("multiply", "darken", "color-burn") and _contrast(ground, _BLACK) < LEAST_CONTRAST


def _grounded(look: Look, value: str, *, is_panel: bool) -> Look:
    """Return `look` with the ground `value`. An image or a gradient of several colours is an unknown ground.

    An image before a colour is assumed to have that colour: authors choose it so for readability.
    """
    if value in ("none", "transparent", "inherit", "initial", "unset", "0", "0 0"):
        return look
    if value == "currentcolor":
        return replace(look, ground=look.ink, is_on_panel=is_panel)
    if "gradient" in value:
        stops = list(_opaque(gradient_colours(value)))
        is_one = bool(stops) and all(_contrast(stops[0], stop) < LEAST_CONTRAST for stop in stops)
        return replace(look, ground=stops[0] if is_one and "url(" not in value else None, is_on_panel=is_panel)
    colours = [colour for word in _words(value) if (colour := _colour(word)) is not None]
    return replace(look, ground=colours[0] if len(colours) == 1 else None, is_on_panel=is_panel or look.is_on_panel)


def _opaque(colours: Iterable[Colour]) -> Iterator[_Colour]:
    return ((red, green, blue) for red, green, blue, alpha in colours if alpha == 1)


def _words(value: str) -> list[str]:
    """Return the parts of a value, functions whole; none if it is longer than `_MOST_CHARS`."""
    return _WORD.findall(value) if len(value) <= _MOST_CHARS else []


def _colour(value: str) -> _Colour | None:
    """Return red, green and blue in [0, 1]; None if `value` is not an opaque colour."""
    colour = colour_of(value)
    return None if colour is None or colour.alpha < 1 else colour[:3]


@lru_cache(maxsize=4_096)
def _contrast(one: _Colour, other: _Colour) -> float:
    """Return WCAG 2.2 contrast, (L1 + 0.05) / (L2 + 0.05); 21 if red, green or blue differ by more than 0.2."""
    if any(abs(a - b) > 0.2 for a, b in zip(one, other, strict=True)):
        return 21.0
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: _Colour) -> float:
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
