"""What an element hands down to what is in it, and whether text of that look can be read.

Handed down are visibility, the size of a font, and the colours of text and ground: text whose contrast to its ground is
less than `LEAST_CONTRAST` is not read by anyone. A colour or ground that is computed, painted by an image or left
to a style sheet elsewhere is not known, and nothing is concluded from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from tinycss2 import color4

from ingest.extract.css.bounded_cache import kept_if_short
from ingest.extract.css.visibility import is_unreadable, takes_away

LEAST_CONTRAST = 1.1
"""Of text to its ground (WCAG 2.2, "contrast ratio": 1 to 21); 3 is the least that is called readable."""
COLOURS = ("color", "background", "background-color")
"""The properties that paint text and ground."""
_RELATIVE_SIZE = re.compile(r"(?:[\d.]+(?:em|%|ex|ch)|smaller|larger|inherit|unset)$")
_MOST_PAIRS = 10_000
_WHITE, _BLACK = (1.0, 1.0, 1.0), (0.0, 0.0, 0.0)
_Colour = tuple[float, float, float]
Style = Mapping[str, str]
"""Values by property."""


@dataclass(frozen=True, slots=True)
class Look:
    """What an element hands down to what is in it. Colours are None where they are not known."""

    is_invisible: bool = False
    is_tiny: bool = False
    is_clear: bool = False
    is_filled_clear: bool = False
    ink: _Colour | None = None
    ground: _Colour | None = None

    def hides_text(self) -> bool:
        """Whether text of this look is not read by anyone."""
        if self.is_invisible or self.is_tiny or self.is_clear or self.is_filled_clear:
            return True
        return self.ink is not None and self.ground is not None and _contrast(self.ink, self.ground) < LEAST_CONTRAST


BLACK_ON_WHITE = Look(ink=_BLACK, ground=_WHITE)
"""What a page starts with where no style sheet elsewhere may say otherwise."""


def styled(look: Look, style: tuple[tuple[str, str], ...], is_body: bool) -> tuple[Look, bool] | None:
    """An element's look and whether it hides text; None where the element is out of sight with all that is in it."""
    if not is_body and any(takes_away(name, value) for name, value in style):
        return None
    changed = _changed(look, dict(style), is_body=is_body)
    return changed, changed.hides_text()


def some_look_alike(declared: Iterable[tuple[str, str]]) -> bool:
    """Whether any ink could stand on a ground of the page, or on white, and not be told from it."""
    inks: set[_Colour] = {_BLACK}
    grounds: set[_Colour] = {_WHITE}
    for name, value in declared:
        if name in COLOURS:
            colours = {colour for word in _words(value) if (colour := _colour(word)) is not None}
            (inks if name == "color" else grounds).update(colours)
    if len(inks) * len(grounds) > _MOST_PAIRS:
        return True
    return any(_contrast(ink, ground) < LEAST_CONTRAST for ink in inks for ground in grounds)


def _changed(look: Look, style: Style, *, is_body: bool) -> Look:
    if (visibility := style.get("visibility")) and not is_body:
        look = replace(look, is_invisible=is_unreadable("visibility", visibility))
    for name in ("font", "font-size"):
        if size := style.get(name):
            if is_unreadable(name, size):
                look = replace(look, is_tiny=True)
            elif not _RELATIVE_SIZE.match(size):
                look = replace(look, is_tiny=False)
    if fill := style.get("-webkit-text-fill-color"):
        look = replace(look, is_filled_clear=is_unreadable("color", fill))
    if (ink := style.get("color")) and ink not in ("inherit", "unset", "currentcolor"):
        look = replace(look, ink=_colour(ink), is_clear=is_unreadable("color", ink))
    for name in ("background", "background-color"):
        if ground := style.get(name):
            look = _grounded(look, ground)
    return look


def _grounded(look: Look, value: str) -> Look:
    """`look` on another ground. An image or a gradient is a ground that is not known."""
    if value in ("none", "transparent", "inherit", "initial", "unset", "0", "0 0"):
        return look
    if "url(" in value or "gradient" in value or "image" in value:
        return replace(look, ground=None)
    colours = [colour for word in _words(value) if (colour := _colour(word)) is not None]
    return replace(look, ground=colours[0] if len(colours) == 1 else None)


def _words(value: str) -> list[str]:
    """The parts of a value, functions whole."""
    return re.findall(r"[\w-]+\([^()]*\)|[^\s()]+", value)


@kept_if_short(4_096)
def _colour(value: str) -> _Colour | None:
    """Red, green and blue in [0, 1]; None for what is not opaque or not a plain colour."""
    try:
        colour = color4.parse_color(value[:100])
        if colour is None or isinstance(colour, str) or colour.alpha < 1:
            return None
        red, green, blue = colour.to("srgb").coordinates
    except (NotImplementedError, ValueError, TypeError, ZeroDivisionError):
        return None
    return red, green, blue


@lru_cache(maxsize=4_096)
def _contrast(one: _Colour, other: _Colour) -> float:
    """WCAG 2.2: (L1 + 0.05) / (L2 + 0.05), of the relative luminances, where the hues are as near; else 21."""
    if any(abs(a - b) > 0.2 for a, b in zip(one, other, strict=True)):
        return 21.0
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: _Colour) -> float:
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
