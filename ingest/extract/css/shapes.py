"""Clips, masks and transforms: decides whether a value leaves nothing readable of an element."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from sluice.ingest.extract.css.colours import Colour, colour_of, split_at_commas, split_at_spaces
from sluice.ingest.extract.css.numbers import DEGREES, PIXELS

FARTHEST_PIXELS = 500.0
"""Distance outside its place from which text counts as hidden; less occurs in layouts of columns and slides."""
BELOW_PIXELS = 5_000.0
"""The same to the right or down, where a reader could scroll."""
SMALLEST_SCALE = 0.1
"""Scale up to which text is unreadable."""
FAINTEST = 0.1
"""Opacity up to which text is invisible."""
_FARTHEST_PER_CENT = 1_000.0
_MOST_CHARS = 1_000
_THINNEST = 1.0
"""Width of a clip, in pixels or per cent, up to which it shows nothing."""

_LENGTH = re.compile(r"(?<![\w#.-])([+-]?(?:\d+(?:\.\d+)?|\.\d+))([a-z]+|%)?(?![\w.-])")
_FUNCTION = re.compile(r"(?<![a-z0-9])([a-z0-9]++)\(([^()]*+)\)")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)")


def lengths(value: str) -> Iterator[tuple[float, str]]:
    """Yield the numbers in `value` in pixels, each with its original unit; those in per cent unchanged."""
    for number, unit in _LENGTH.findall(value):
        if unit == "%" or unit in PIXELS:
            yield float(number) * PIXELS.get(unit, 1.0), unit


def is_far(amounts: Sequence[tuple[float, str]]) -> bool:
    """Return whether any of these moves takes a text beyond where a reader could scroll."""
    return any(
        abs(number) >= _FARTHEST_PER_CENT if unit == "%" else number < -FARTHEST_PIXELS or number > BELOW_PIXELS
        for number, unit in amounts
    )


def clips_all(value: str) -> bool:
    """Return whether a value of `clip` or `clip-path` hides everything."""
    for name, written in _FUNCTION.findall(value):
        amounts = list(lengths(written.replace(",", " ")))
        match name:
            case "inset":
                if _is_inset_away(written):
                    return True
            case "circle" | "ellipse":
                radii, _, place = written.partition(" at ")
                if any(0 <= number <= _THINNEST for number, _ in lengths(radii)) or _is_beside(place):
                    return True
            case "polygon":
                if amounts and (_is_a_line(amounts[::2]) or _is_a_line(amounts[1::2]) or is_far(amounts)):
                    return True
            case "path":
                numbers = [(float(one), "") for one in _NUMBER.findall(written)]
                if _is_a_line(numbers[::2]) or _is_a_line(numbers[1::2]):
                    return True
            case "rect":
                if len(amounts) == 4 and _is_empty_rectangle([number for number, _ in amounts]):
                    return True
            case "xywh":
                if len(amounts) >= 4 and min(amounts[2][0], amounts[3][0]) <= _THINNEST:
                    return True
    return False


def masks_all(value: str) -> bool:
    """Return whether a value of `mask` or `mask-image` is a fully transparent gradient."""
    if "gradient(" not in value:
        return False
    colours = gradient_colours(value)
    return bool(colours) and all(alpha <= FAINTEST for *_, alpha in colours)


def gradient_colours(value: str) -> list[Colour]:
    """Return the colours of all gradients in `value`."""
    found: list[Colour] = []
    if len(value) > _MOST_CHARS:
        return found
    for start in re.finditer(r"gradient\(", value):
        depth, end = 1, start.end()
        while end < len(value) and depth:
            depth += (value[end] == "(") - (value[end] == ")")
            end += 1
        for stop in split_at_commas(value[start.end() : end - 1]):
            words = split_at_spaces(stop)
            if words and (colour := colour_of(words[0])) is not None:
                found.append(colour)
    return found


def transforms_away(value: str) -> bool:
    """Return whether a `transform` moves an element out of sight, turns it edgewise or makes it too small."""
    for name, written in _FUNCTION.findall(value):
        parts = [part.strip() for part in written.split(",")]
        if name.startswith("translate"):
            if is_far([one for part in parts[:2] for one in lengths(part)]):
                return True
        elif name.startswith("scale"):
            if name != "scalez" and any(is_shrunk(part) for part in parts[:2]):
                return True
        elif name.startswith(("rotate", "skew")):
            if _is_turned_away(name, parts):
                return True
        elif name.startswith("matrix") and _is_matrix_away(parts):
            return True
    return False


def rotates_away(value: str) -> bool:
    """Return whether a `rotate` such as `x 90deg` or `1 0 0 90deg` turns an element edgewise."""
    words = value.split()
    if len(words) < 2:
        return False
    axis = words[:-1]
    is_flat = axis in (["x"], ["y"]) or (len(axis) == 3 and _float(axis[2]) == 0)
    return is_flat and _is_edgewise(words[-1])


def is_shrunk(value: str) -> bool:
    """Return whether a factor leaves at most `SMALLEST_SCALE`."""
    size = next(lengths(value), None)
    return size is not None and abs(size[0]) <= (SMALLEST_SCALE * 100 if size[1] == "%" else SMALLEST_SCALE)


def _is_beside(place: str) -> bool:
    return any(number <= -100 for number, _ in lengths(place))


def _is_inset_away(written: str) -> bool:
    edges = list(lengths(written.partition("round")[0]))
    if not edges:
        return False
    top, right = edges[0], edges[min(1, len(edges) - 1)]
    bottom, left = edges[2 if len(edges) > 2 else 0], edges[3] if len(edges) > 3 else right
    return _is_all_of_it(top, bottom) or _is_all_of_it(left, right)


def _is_all_of_it(one: tuple[float, str], other: tuple[float, str]) -> bool:
    per_cent = sum(number for number, unit in (one, other) if unit == "%")
    pixels = sum(number for number, unit in (one, other) if unit != "%")
    return per_cent >= 99 or pixels >= BELOW_PIXELS


def _is_a_line(places: Sequence[tuple[float, str]]) -> bool:
    """Return whether these coordinates are all equal, within `_THINNEST`."""
    numbers = [number for number, _ in places]
    return bool(numbers) and max(numbers) - min(numbers) <= _THINNEST


def _is_empty_rectangle(edges: Sequence[float]) -> bool:
    """Return whether top, right, bottom and left enclose nothing."""
    top, right, bottom, left = edges
    return bottom - top <= _THINNEST or right - left <= _THINNEST


def _is_turned_away(name: str, parts: Sequence[str]) -> bool:
    if name == "rotate3d":
        return len(parts) == 4 and _float(parts[2]) == 0 and _is_edgewise(parts[3])
    if name in ("rotatex", "rotatey"):
        return _is_edgewise(parts[0])
    return name.startswith("skew") and any(map(_is_edgewise, parts))


def _is_edgewise(angle: str) -> bool:
    found = re.fullmatch(r"([+-]?(?:\d+\.?\d*|\.\d+))(deg|grad|turn|rad)", angle)
    return found is not None and abs(math.cos(math.radians(float(found[1]) * DEGREES[found[2]]))) <= 0.05


def _is_matrix_away(parts: Sequence[str]) -> bool:
    numbers = [_float(part) for part in parts]
    if len(numbers) == 16:
        numbers = [numbers[at] for at in (0, 1, 4, 5, 12, 13)]
    if len(numbers) != 6:
        return False
    a, b, c, d, x, y = numbers
    return abs(a * d - b * c) <= SMALLEST_SCALE**2 or is_far([(x, ""), (y, "")])


def _float(written: str) -> float:
    try:
        return float(written)
    except ValueError:
        return math.nan
