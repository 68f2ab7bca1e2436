"""Colours of CSS as red, green, blue and alpha: the notations of CSS Color 4, mixed and relative ones of level 5."""

from __future__ import annotations

import re
from typing import NamedTuple

from tinycss2 import color4, color5

from sluice.ingest.extract.css.bounded_cache import kept_if_short
from sluice.ingest.extract.css.numbers import plain

_MOST_CHARS = 200
_SYSTEM = {"canvas": "white", "canvastext": "black", "field": "white", "fieldtext": "black", "window": "white"}
_SYSTEM |= {"windowtext": "black", "linktext": "#00e", "highlighttext": "white", "buttontext": "black"}
"""System colours of a light scheme; the others cannot be used to hide text."""
_MIXED = re.compile(r"color-mix\(\s*in\s+[^,()]+,(.*)\)\Z")
_SHARE = re.compile(r"\s+([\d.]+)%\s*\Z|\A\s*([\d.]+)%\s+")
_RELATIVE = re.compile(r"([a-z]+)\(\s*from\s+(.+)\)\Z")
_CHANNELS = {"rgb": "rgb", "rgba": "rgb", "hsl": "hsl", "hsla": "hsl", "hwb": "hwb", "lab": "lab", "oklab": "lab"}
_CHANNELS |= {"lch": "lch", "oklch": "lch"}
_Triple = tuple[float, float, float]
_Matrix = tuple[_Triple, _Triple, _Triple]

_XYZ_TO_SRGB: _Matrix = (
    (3.2409699419, -1.5373831776, -0.4986107603),
    (-0.9692436363, 1.8759675015, 0.0415550574),
    (0.0556300797, -0.2039769589, 1.0569715142),
)
_D50_TO_D65: _Matrix = (
    (0.9554734528, -0.0230985369, 0.0632593087),
    (-0.0283697070, 1.0099954580, 0.0210413990),
    (0.0123140017, -0.0205076964, 1.3303659366),
)
_DISPLAY_P3_TO_XYZ: _Matrix = (
    (0.4865709486, 0.2656676932, 0.1982172852),
    (0.2289745641, 0.6917385218, 0.0792869141),
    (0.0, 0.0451133819, 1.0439443689),
)
"""CSS Color 4, section 19."""


class Colour(NamedTuple):
    """Red, green and blue of sRGB, and alpha, all in [0, 1]."""

    red: float
    green: float
    blue: float
    alpha: float = 1.0


@kept_if_short(4_096)
def colour_of(value: str) -> Colour | None:
    """Parse `value`, in lower case; None if it is not a colour, or is `currentcolor`."""
    return _colour(value.strip(), 3)


def _colour(value: str, nested: int) -> Colour | None:
    if len(value) > _MOST_CHARS or nested == 0:
        return None
    if mixed := _MIXED.match(value):
        return _mixture(mixed[1], nested - 1)
    if (relative := _RELATIVE.match(value)) and relative[1] in _CHANNELS:
        return _relative(relative[1], relative[2], nested - 1)
    try:
        found = color5.parse_color(plain(_SYSTEM.get(value, value)))
        if found is None or isinstance(found, str):
            return None
        red, green, blue = _srgb(found)
    except (NotImplementedError, ValueError, TypeError, ZeroDivisionError, OverflowError):
        return None
    alpha = 1.0 if found.alpha is None else float(found.alpha)
    red, green, blue = (min(1.0, max(0.0, part)) for part in (red, green, blue))
    return Colour(red, green, blue, alpha)


def _srgb(colour: color4.Color) -> _Triple:
    parts = [0.0 if part is None else float(part) for part in colour.coordinates]
    here = (parts[0], parts[1], parts[2])
    match colour.space:
        case "lab" | "lch":
            return _encoded(_times(_XYZ_TO_SRGB, _times(_D50_TO_D65, _triple(colour.to("xyz-d50")))))
        case "oklab" | "oklch":
            return _encoded(_times(_XYZ_TO_SRGB, _triple(colour.to("xyz-d65"))))
        case "xyz" | "xyz-d65":
            return _encoded(_times(_XYZ_TO_SRGB, here))
        case "xyz-d50":
            return _encoded(_times(_XYZ_TO_SRGB, _times(_D50_TO_D65, here)))
        case "display-p3":
            linear = (_decoded(here[0]), _decoded(here[1]), _decoded(here[2]))
            return _encoded(_times(_XYZ_TO_SRGB, _times(_DISPLAY_P3_TO_XYZ, linear)))
        case "srgb-linear":
            return _encoded(here)
        case "a98-rgb" | "prophoto-rgb" | "rec2020":
            return here  # near enough, and exact for white, black and grey
    return _triple(colour.to("srgb"))


def _triple(colour: color4.Color) -> _Triple:
    first, second, third = colour.coordinates
    return first or 0.0, second or 0.0, third or 0.0


def _times(matrix: _Matrix, at: _Triple) -> _Triple:
    one, two, three = (a * at[0] + b * at[1] + c * at[2] for a, b, c in matrix)
    return one, two, three


def _encoded(linear: _Triple) -> _Triple:
    parts = (min(1.0, max(0.0, part)) for part in linear)
    red, green, blue = (part * 12.92 if part <= 0.0031308 else 1.055 * part ** (1 / 2.4) - 0.055 for part in parts)
    return red, green, blue


def _decoded(part: float) -> float:
    part = min(1.0, max(0.0, part))
    return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4


def _mixture(written: str, nested: int) -> Colour | None:
    """Mix two colours, in sRGB whatever the space: exact where they are alike, and near enough elsewhere."""
    parts = split_at_commas(written)
    if len(parts) != 2:
        return None
    shares: list[float | None] = []
    colours: list[Colour] = []
    for part in parts:
        share = _SHARE.search(part)
        colour = _colour(_SHARE.sub("", part).strip(), nested)
        if colour is None:
            return None
        colours.append(colour)
        shares.append(None if share is None else float((share[1] or share[2]).strip(".") or 0) / 100)
    first, second = shares
    first = first if first is not None else (1 - second if second is not None else 0.5)
    second = second if second is not None else 1 - first
    if first + second <= 0:
        return None
    one, other = colours
    faded = min(1.0, first + second)
    weights = first / (first + second) * one.alpha, second / (first + second) * other.alpha
    alpha = sum(weights)
    if alpha <= 0:
        return Colour(0.0, 0.0, 0.0, 0.0)
    red, green, blue = ((weights[0] * a + weights[1] * b) / alpha for a, b in zip(one[:3], other[:3], strict=True))
    return Colour(red, green, blue, alpha * faded)


def _relative(function: str, written: str, nested: int) -> Colour | None:
    """Derive a colour from another: its channels unchanged, or (of red, green and blue) each computed."""
    words = split_at_spaces(written.replace("/", " / "))
    origin = _colour(words[0], nested) if words else None
    if origin is None or len(words) not in (4, 6):
        return None
    alpha: float | None = origin.alpha if len(words) == 4 else _number(words[5], {"alpha": origin.alpha})
    names = _CHANNELS[function]
    if list(names) == words[1:4]:
        return None if alpha is None else origin._replace(alpha=alpha)
    if names != "rgb":
        return None
    known = {"r": origin.red * 255, "g": origin.green * 255, "b": origin.blue * 255}
    parts = [_number(word, known) for word in words[1:4]]
    if alpha is None or None in parts:
        return None
    red, green, blue = (min(1.0, max(0.0, (part or 0.0) / 255)) for part in parts)
    return Colour(red, green, blue, alpha)


def _number(word: str, known: dict[str, float]) -> float | None:
    named = re.sub(r"(?<![\w.-])(r|g|b|alpha)(?![\w-])", lambda found: str(known.get(found[1], found[1])), word)
    found = re.fullmatch(r"([+-]?(?:\d+\.?\d*|\.\d+))(%?)", plain(named))
    if found is None:
        return None
    return float(found[1]) * ((0.01 if "alpha" in known else 2.55) if found[2] else 1.0)


def split_at_commas(written: str) -> list[str]:
    """Split at commas outside brackets."""
    return _split(written, ",")


def split_at_spaces(written: str) -> list[str]:
    """Split at spaces outside brackets."""
    return [part for part in _split(" ".join(written.split()), " ") if part]


def _split(written: str, at: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for place, sign in enumerate(written):
        if sign == "(":
            depth += 1
        elif sign == ")":
            depth -= 1
        elif sign == at and depth == 0:
            parts.append(written[start:place].strip())
            start = place + 1
    return [*parts, written[start:].strip()]
