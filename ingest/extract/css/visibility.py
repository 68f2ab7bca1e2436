"""Decides whether a style hides its element, by the ways in which pages hide text from readers.

Parsed as CSS is (comments, escapes, any case), but each declaration by itself; ingest/extract/css/cascade.py combines
them over a whole page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from sluice.ingest.extract.css.colours import Colour, colour_of
from sluice.ingest.extract.css.numbers import plain
from sluice.ingest.extract.css.shapes import (
    BELOW_PIXELS,
    FAINTEST,
    FARTHEST_PIXELS,
    clips_all,
    is_far,
    is_shrunk,
    lengths,
    masks_all,
    rotates_away,
    transforms_away,
)

MOST_ALIKE = 16
"""Difference in red, green and blue, of 255, up to which a text is indistinguishable from its ground."""
SMALLEST_PIXELS = 2.0
"""Font size up to which text is unreadable."""
LEAST_ROOM_PIXELS = 4.0
"""Height or width of a box with hidden overflow, up to which no line of it is readable."""
_BLURRED_PIXELS = 5.0

_COMMENT = re.compile(r"/\*.*?(?:\*/|\Z)", re.DOTALL)
ESCAPE = re.compile(r"\\(?:([0-9a-f]{1,6})\s?|(.))", re.IGNORECASE | re.DOTALL)
_LENGTH = re.compile(r"([+-]?(?:\d+(?:\.\d+)?|\.\d+))([a-z]+|%)?")
_VARIABLE = re.compile(r"var\(\s*(--[\w-]+)\s*(?:,((?>(?:[^()]++|\([^()]*+\))*)))?\)")
_MOST_SUBSTITUTED, _MOST_VALUE_CHARS = 20, 1_000
_OVERFLOWS = ("overflow", "overflow-x", "overflow-y", "overflow-block", "overflow-inline")


def hides(style: str) -> bool:
    """Return whether any declaration in `style` hides its element, although a later one may revert it."""
    colours: dict[str, Colour] = {}
    found: dict[str, str] = {}
    for name, value, _ in declarations(style):
        found[name] = value
    for name, written in found.items():
        value = substituted(written, found)
        if takes_away(name, value) or is_unreadable(name, value):
            return True
        if name in ("color", "background", "background-color") and (colour := colour_of(value.split(" ")[0])):
            colours["text" if name == "color" else "ground"] = colour
    return leaves_no_room(found) or (len(colours) == 2 and _look_alike(colours["text"], colours["ground"]))


def declarations(style: str) -> Iterator[tuple[str, str, bool]]:
    """Yield declarations of `WATCHED` properties and variables: name, value in lower case, importance."""
    if "\\" in style or "/*" in style:
        style = ESCAPE.sub(unescaped, _COMMENT.sub(" ", style))
    for name, written in _DECLARATION.findall(style.lower()):
        value, important, _ = written.partition("!")
        yield name, plain(" ".join(value.split())), bool(important)


def unescaped(escape: re.Match[str]) -> str:
    """Return the character of a CSS escape (CSS Syntax 3, section 4.3.7)."""
    if escape[2]:
        return escape[2]
    point = int(escape[1], 16)
    return chr(point) if 0 < point < 0xD800 or 0xDFFF < point < 0x110000 else "\ufffd"


def could_hide(name: str, value: str) -> bool:
    """Return whether a declaration hides by itself, or might with others, or by a variable."""
    if "var(" in value:
        return name not in ("background", "background-color", "background-image")
    if name in ("line-height", "z-index"):
        return value.startswith(("0", "-"))
    if name == "mix-blend-mode":
        return value != "normal"
    if name in _ROOM and (size := _length(value)) and 0 <= size[0] <= LEAST_ROOM_PIXELS and size[1] != "%":
        return True
    return takes_away(name, value) or is_unreadable(name, value)


def takes_away(name: str, value: str) -> bool:
    """Return whether a declaration hides an element with all that is in it."""
    judge = _JUDGES.get(name)
    return judge is not None and judge(value)


def is_unreadable(name: str, value: str) -> bool:
    """Return whether a declaration makes text unreadable, in an element and in descendants that do not override it."""
    judge = _INHERITED.get(name)
    return judge is not None and judge(value)


def _length(value: str) -> tuple[float, str] | None:
    """Return the single number of `value`; None if it is computed or has several."""
    return next(lengths(value), None) if _LENGTH.fullmatch(value) else None


def leaves_no_room(style: Mapping[str, str]) -> bool:
    """Return whether a box is too small for a line, and hides its overflow."""
    if not any(style.get(name, "visible").split(" ")[0] in ("hidden", "clip", "scroll") for name in _OVERFLOWS):
        return False
    if "line-height" in style and (line := _length(style["line-height"])) and abs(line[0]) < 0.1:
        return True
    sizes = (size for name in _ROOM if name in style and (size := _length(style[name])))
    return any(0 <= number <= LEAST_ROOM_PIXELS and unit != "%" for number, unit in sizes)


def substituted(value: str, variables: Mapping[str, str]) -> str:
    """Return `value` with each `var()` replaced; an unknown variable without a fallback stays."""
    if "var(" not in value or len(value) > _MOST_VALUE_CHARS:
        return value
    for _ in range(_MOST_SUBSTITUTED):
        found = _VARIABLE.search(value)
        if found is None:
            break
        known = variables.get(found[1])
        put = known if known is not None else found[2]
        if put is None or len(value) + len(put) > _MOST_VALUE_CHARS:
            return value
        value = f"{value[: found.start()]}{put.strip()}{value[found.end() :]}"
    return plain(value)


def _is_tiny_font(value: str) -> bool:
    size = _length(value)
    return size is not None and _is_tiny(*size)


def _is_tiny_shorthand(value: str) -> bool:
    """Handle `font: 700 12px/1 Arial`: the size is the first number with a unit, or a zero."""
    sizes = [(number, unit) for number, unit in lengths(value.replace("/", " ")) if unit or number == 0]
    return bool(sizes) and _is_tiny(*sizes[0])


def _is_tiny(number: float, unit: str) -> bool:
    return 0 <= number <= (SMALLEST_PIXELS / 16 * 100 if unit == "%" else SMALLEST_PIXELS)


def _is_faint(value: str) -> bool:
    degree = _length(value)
    return degree is not None and degree[0] <= (FAINTEST * 100 if degree[1] == "%" else FAINTEST)


def _is_no_room(value: str) -> bool:
    size = _length(value)
    if size is None:
        return False
    return size[0] == 0 or size in ((1.0, ""), (1.0, "px")) or (size[1] != "%" and 0 < size[0] < 1)


def _is_outside(value: str) -> bool:
    return any(number < -FARTHEST_PIXELS or number > BELOW_PIXELS for number, unit in lengths(value) if unit != "%")


def _is_outside_box(value: str) -> bool:
    return _is_outside(value) or any(number <= -100 for number, unit in lengths(value) if unit == "%")


def _is_indented_away(value: str) -> bool:
    return any(number <= -100 or (number >= 100 and unit == "%") for number, unit in lengths(value))


def _is_right_out(value: str) -> bool:
    """Return whether a `right` or `bottom` puts an element beyond the other edge."""
    return _is_outside_box(value) or any(number >= 150 and unit == "%" for number, unit in lengths(value))


def _is_margin_out(value: str) -> bool:
    return _is_outside(value) or any(number <= -150 and unit == "%" for number, unit in lengths(value))


def _is_filtered_away(value: str) -> bool:
    for name, written in _FILTER.findall(value):
        amount = _length(written.strip())
        if amount is None:
            continue
        if name == "blur" and amount[0] >= _BLURRED_PIXELS:
            return True
        if name in ("opacity", "contrast") and _is_faint(written.strip()):
            return True
    return False


def _is_scaled_away(value: str) -> bool:
    return any(map(is_shrunk, value.split()[:2]))


def _is_drawn_together(value: str) -> bool:
    """Return whether the letters overlap."""
    return any(number <= -SMALLEST_PIXELS * 4 for number, unit in lengths(value) if unit != "%")


def _is_transparent(value: str) -> bool:
    colour = colour_of(value)
    return colour is not None and colour.alpha <= FAINTEST


def _look_alike(one: Colour, other: Colour) -> bool:
    return all(abs(a - b) * 255 <= MOST_ALIKE for a, b in zip(one[:3], other[:3], strict=True))


_ROOM = tuple(f"{limit}{side}" for limit in ("", "max-") for side in ("width", "height", "inline-size", "block-size"))
_SIDES = ("", "-left", "-top", "-right", "-bottom", "-inline", "-block", "-inline-start", "-block-start")
_MARGINS = tuple(f"margin{side}" for side in _SIDES)
_FILTER = re.compile(r"(?<![a-z-])([a-z-]++)\(([^()]*+)\)")
_JUDGES: Mapping[str, Callable[[str], bool]] = {
    "display": lambda value: value == "none",
    "content-visibility": lambda value: value == "hidden",
    "opacity": _is_faint,
    "filter": _is_filtered_away,
    **dict.fromkeys(_ROOM, _is_no_room),
    "grid-template-rows": lambda value: value in ("0fr", "0", "0px", "minmax(0, 0)"),
    "text-indent": _is_indented_away,
    **dict.fromkeys(("left", "top", "inset", "inset-inline", "inset-block"), _is_outside_box),
    **dict.fromkeys(("inset-inline-start", "inset-block-start"), _is_outside_box),
    **dict.fromkeys(("right", "bottom", "inset-inline-end", "inset-block-end"), _is_right_out),
    **dict.fromkeys(_MARGINS, _is_margin_out),
    "translate": lambda value: is_far(list(lengths(value))),
    **dict.fromkeys(("scale", "zoom"), _is_scaled_away),
    "rotate": rotates_away,
    "letter-spacing": _is_drawn_together,
    **dict.fromkeys(("transform", "-webkit-transform"), transforms_away),
    **dict.fromkeys(("clip", "clip-path", "-webkit-clip-path"), clips_all),
    **dict.fromkeys(("mask", "mask-image", "-webkit-mask", "-webkit-mask-image"), masks_all),
    **dict.fromkeys(("mask-size", "-webkit-mask-size"), lambda value: any(n == 0 for n, _ in lengths(value))),
}
"""Judges by property: whether a value of it hides."""
_INHERITED: Mapping[str, Callable[[str], bool]] = {
    "visibility": lambda value: value in ("hidden", "collapse"),
    "font-size": _is_tiny_font,
    "font": _is_tiny_shorthand,
    "font-size-adjust": lambda value: value in ("0", "0.0"),
    **dict.fromkeys(("color", "-webkit-text-fill-color"), _is_transparent),
}
"""Judges by inherited property: whether a value of it hides."""
SMALL_BOX = frozenset((*_OVERFLOWS, *_ROOM, "line-height"))
"""The properties that together may leave no room: see `leaves_no_room`."""
WATCHED = frozenset(
    (
        *_JUDGES,
        *_INHERITED,
        *SMALL_BOX,
        "z-index",
        "mix-blend-mode",
        "background",
        "background-color",
        "background-image",
    )
)
"""The properties that can hide, or show again."""
_DECLARATION = re.compile(rf"(?:\A|;)\s*+({'|'.join(map(re.escape, sorted(WATCHED)))}|--[\w-]+)\s*+:([^;]*+)")
