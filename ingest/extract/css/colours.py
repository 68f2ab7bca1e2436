"""Colours that are exactly known, and how well they can be told apart."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from tinycss2 import color4

LEAST_CONTRAST = 1.25
"""Least contrast of readable text to its ground (WCAG 2.2, "contrast ratio", 1 to 21). WCAG demands 3 at least."""
_SPACES = ("srgb", "hsl", "hwb")


class Colour(NamedTuple):
    """Red, green and blue of sRGB, and alpha, all in [0, 1]."""

    red: float
    green: float
    blue: float
    alpha: float = 1.0


WHITE, BLACK, LINK = Colour(1.0, 1.0, 1.0), Colour(0.0, 0.0, 0.0), Colour(0.0, 0.0, 0.933)
"""The ground, the text and the links of a page without styles."""


@lru_cache(maxsize=4_096)
def colour_of(written: str) -> Colour | None:
    """Return the colour that `written` names in sRGB, HSL or HWB; None for any other notation or an invalid one."""
    try:
        found = color4.parse_color(written)
        if found is None or isinstance(found, str) or found.space not in _SPACES:
            return None
        red, green, blue = (min(1.0, max(0.0, part or 0.0)) for part in found.to("srgb").coordinates)
        return Colour(red, green, blue, min(1.0, max(0.0, 1.0 if found.alpha is None else found.alpha)))
    except (ArithmeticError, NotImplementedError, TypeError, ValueError):
        return None


@lru_cache(maxsize=4_096)
def over(above: Colour, ground: Colour) -> Colour:
    """Return the colour that is seen where `above` is painted on an opaque `ground`."""
    parts = (above.alpha * a + (1 - above.alpha) * b for a, b in zip(above[:3], ground[:3], strict=True))
    return Colour(*parts)


@lru_cache(maxsize=4_096)
def contrast(ink: Colour, ground: Colour) -> float:
    """Return the contrast of `ink`, painted on an opaque `ground` (WCAG 2.2)."""
    lighter, darker = sorted((_luminance(over(ink, ground)), _luminance(ground)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: Colour) -> float:
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour[:3])
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
