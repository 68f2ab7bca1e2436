"""Whether a style hides what it stands on: the ways in which pages keep text from readers' eyes.

Read as CSS reads it (comments, escapes, any case), but each declaration by itself; what several of them come to, over
a whole page, is for ingest/extract/css/cascade.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

FAINTEST = 0.1
"""Opacity up to which text is not seen."""
MOST_ALIKE = 16
"""Of 255, by which red, green and blue of a text may differ from its ground and not be told from it."""
SMALLEST_PIXELS = 2.0
"""Font size up to which text is not read."""
SMALLEST_SCALE = 0.1
"""Of an element's own size, up to which text is not read."""
FARTHEST_PIXELS = 500.0
"""How far outside its place text may stand; less than that are layouts of columns and slides."""
BELOW_PIXELS = 5_000.0
"""How far to the right or down, where a reader could scroll."""

_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:([0-9a-f]{1,6})\s?|(.))", re.IGNORECASE | re.DOTALL)
_LENGTH = re.compile(r"(?<![\w#.-])([+-]?(?:\d+(?:\.\d+)?|\.\d+))([a-z]+|%)?(?![\w.-])")
_PIXELS = dict.fromkeys(("", "px"), 1.0) | dict.fromkeys(("em", "rem", "pc"), 16.0) | dict.fromkeys(("ex", "ch"), 8.0)
_PIXELS |= {"pt": 4 / 3, "mm": 3.8, "cm": 38.0, "in": 96.0} | dict.fromkeys(("vw", "vh", "vmin", "vmax"), 10.0)
"""Of one unit, at usual sizes of fonts and windows."""
_HEX = re.compile(r"#([0-9a-f]{3,4}|[0-9a-f]{6}|[0-9a-f]{8})\b")
_ALPHA = re.compile(r"(?:rgb|hsl)a?\([^)]*[,/]\s*([\d.]+)(%?)\s*\)")
_NAMES = {"white": "ffffff", "black": "000000", "red": "ff0000", "blue": "0000ff", "gray": "808080", "grey": "808080"}
_CLIPPED = re.compile(
    r"rect\(\s*[01](?:px)?\b|inset\(\s*(?:50|100)%|(?:circle|ellipse)\(\s*0|polygon\((?:\s*0(?:px|%)?\s+0(?:px|%)?\s*,?)+\)"
)
_EDGEWISE = re.compile(r"rotate[xy]\(\s*-?(?:90|270)deg|rotate[xy]\(\s*-?(?:0?\.25|0?\.75)turn")
_COMPUTED = re.compile(r"calc\(\s*([^()\s]+)\s*\)")


def hides(style: str) -> bool:
    """Whether any declaration in `style` hides its element, although a later one may take it back."""
    colours: dict[str, str] = {}
    for name, value, _ in declarations(style):
        if takes_away(name, value) or is_unreadable(name, value):
            return True
        if name in ("color", "background", "background-color") and (colour := _colour(value)):
            colours["text" if name == "color" else "ground"] = colour
    return len(colours) == 2 and _look_alike(colours["text"], colours["ground"])


def declarations(style: str) -> Iterator[tuple[str, str, bool]]:
    """What `style` declares of the properties in `WATCHED`: name, value in lower case, whether it is important."""
    plain = _ESCAPE.sub(_unescaped, _COMMENT.sub(" ", style)) if "\\" in style or "/*" in style else style
    for name, written in _DECLARATION.findall(plain.lower()):
        value, important, _ = written.partition("!")
        yield name, " ".join(value.split()), bool(important)


def takes_away(name: str, value: str) -> bool:
    """Whether a declaration takes an element out of sight with all that is in it."""
    judge = _JUDGES.get(name)
    return judge is not None and judge(value)


def is_unreadable(name: str, value: str) -> bool:
    """Whether a declaration makes text unreadable, in an element and in those in it that do not declare otherwise."""
    judge = _INHERITED.get(name)
    return judge is not None and judge(value)


def _unescaped(escape: re.Match[str]) -> str:
    if escape[2]:
        return escape[2]
    point = int(escape[1], 16)
    return chr(point) if 0 < point < 0xD800 or 0xDFFF < point < 0x110000 else "\ufffd"


def _lengths(value: str) -> Iterator[tuple[float, str]]:
    """The numbers in `value` in pixels, each with the unit it was given in; those in per cent as they are."""
    for number, unit in _LENGTH.findall(value):
        if unit == "%" or unit in _PIXELS:
            yield float(number) * _PIXELS.get(unit, 1.0), unit


def _length(value: str) -> tuple[float, str] | None:
    """The one number that `value` is; None for what is computed, or several."""
    value = _COMPUTED.sub(r"\1", value)
    return next(_lengths(value), None) if _LENGTH.fullmatch(value) else None


def _is_tiny_font(value: str) -> bool:
    size = _length(value)
    return size is not None and _is_tiny(*size)


def _is_tiny_shorthand(value: str) -> bool:
    """`font: 700 12px/1 Arial`: the size is the first number with a unit, or a naught."""
    sizes = [(number, unit) for number, unit in _lengths(value.replace("/", " ")) if unit or number == 0]
    return bool(sizes) and _is_tiny(*sizes[0])


def _is_tiny(number: float, unit: str) -> bool:
    return 0 <= number <= (SMALLEST_PIXELS / 16 * 100 if unit == "%" else SMALLEST_PIXELS)


def _is_faint(value: str) -> bool:
    degree = _length(value)
    return degree is not None and degree[0] <= (FAINTEST * 100 if degree[1] == "%" else FAINTEST)


def _is_no_room(value: str) -> bool:
    size = _length(value)
    return size is not None and (size[0] == 0 or size in ((1.0, ""), (1.0, "px")))


def _is_outside(value: str) -> bool:
    return any(number < -FARTHEST_PIXELS or number > BELOW_PIXELS for number, unit in _lengths(value) if unit != "%")


def _is_outside_box(value: str) -> bool:
    return _is_outside(value) or any(number <= -100 for number, unit in _lengths(value) if unit == "%")


def _is_indented_away(value: str) -> bool:
    return any(number <= -100 or (number >= 100 and unit == "%") for number, unit in _lengths(value))


def _is_moved_away(value: str) -> bool:
    if "translate" in value and _is_outside(value.replace("(", " ").replace(",", " ").replace(")", " ")):
        return True
    if _EDGEWISE.search(value):
        return True
    found = re.search(r"scale(?:x|y|3d)?\(\s*(\d+(?:\.\d+)?|\.\d+)", value)
    return found is not None and float(found[1]) <= SMALLEST_SCALE


def _is_shrunk(value: str) -> bool:
    size = _length(value)
    return size is not None and 0 <= size[0] <= (SMALLEST_SCALE * 100 if size[1] == "%" else SMALLEST_SCALE)


def _is_drawn_together(value: str) -> bool:
    """Letters on top of each other."""
    return any(number <= -SMALLEST_PIXELS * 4 for number, unit in _lengths(value) if unit != "%")


def _is_transparent(value: str) -> bool:
    if value == "transparent":
        return True
    found = _ALPHA.match(value)
    if found and value.count(",") in (0, 3) and found[1].count(".") < 2 and found[1] != ".":
        return float(found[1]) <= (FAINTEST * 100 if found[2] else FAINTEST)
    digits = _HEX.fullmatch(value)
    alpha = "" if digits is None else {4: digits[1][3:] * 2, 8: digits[1][6:]}.get(len(digits[1]), "")
    return alpha != "" and int(alpha, 16) <= FAINTEST * 255


def _colour(value: str) -> str | None:
    """Six hexadecimal digits of a colour that is written as such or has a common name."""
    word = value.split(" ")[0]
    digits = _HEX.fullmatch(word)
    if digits is None:
        return _NAMES.get(word)
    return "".join(digit * 2 for digit in digits[1][:3]) if len(digits[1]) < 6 else digits[1][:6]


def _look_alike(one: str, other: str) -> bool:
    parts = (0, 2, 4)
    return all(abs(int(one[at : at + 2], 16) - int(other[at : at + 2], 16)) <= MOST_ALIKE for at in parts)


_JUDGES: Mapping[str, Callable[[str], bool]] = {
    "display": lambda value: value == "none",
    "content-visibility": lambda value: value == "hidden",
    "opacity": _is_faint,
    "filter": lambda value: "opacity(" in value and _is_faint(value.partition("opacity(")[2].partition(")")[0]),
    **dict.fromkeys(("width", "height", "max-width", "max-height", "block-size", "inline-size"), _is_no_room),
    "text-indent": _is_indented_away,
    **dict.fromkeys(("left", "top", "right", "bottom", "inset"), _is_outside_box),
    **dict.fromkeys(("margin", "margin-left", "margin-top", "margin-right", "margin-bottom"), _is_outside),
    "translate": _is_outside,
    **dict.fromkeys(("scale", "zoom"), _is_shrunk),
    "letter-spacing": _is_drawn_together,
    "transform": _is_moved_away,
    **dict.fromkeys(("clip", "clip-path"), lambda value: _CLIPPED.search(value) is not None),
}
"""By property: whether a value of it hides."""
_INHERITED: Mapping[str, Callable[[str], bool]] = {
    "visibility": lambda value: value in ("hidden", "collapse"),
    "font-size": _is_tiny_font,
    "font": _is_tiny_shorthand,
    **dict.fromkeys(("color", "-webkit-text-fill-color"), _is_transparent),
}
"""By property that an element hands down: whether a value of it hides."""
WATCHED = frozenset((*_JUDGES, *_INHERITED, "background", "background-color"))
"""The properties that can hide, or show again."""
_DECLARATION = re.compile(rf"(?:\A|;)\s*+({'|'.join(map(re.escape, sorted(WATCHED)))})\s*+:([^;]*+)")
