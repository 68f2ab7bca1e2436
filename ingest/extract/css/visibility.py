"""Says of one declaration whether text under it surely shows, by the table `known_to_show.toml` beside it.

Values are read strictly: one that a browser might not accept, or might understand otherwise, does not show.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import tinycss2

from sluice.ingest.extract.css.bounded_cache import kept_if_short
from sluice.ingest.extract.css.colours import colour_of

PIXELS = {"px": 1.0, "em": 16.0, "rem": 16.0, "pc": 16.0, "pt": 4 / 3, "mm": 3.78, "cm": 37.8, "in": 96.0, "q": 0.945}
PIXELS |= dict.fromkeys(("ex", "ch"), 8.0) | {"vw": 12.8, "vh": 7.2, "vmin": 7.2, "vmax": 12.8, "vi": 12.8, "vb": 7.2}
PIXELS |= {f"{size}{unit}": pixels for unit, pixels in list(PIXELS.items())[-6:] for size in "sld"}
"""Pixels of one unit, at the usual sizes of fonts and in a window of 1,280 by 720 pixels."""
PER_CENT_PIXELS = (12.8, 5.0)
"""Pixels of one per cent in a wide and in a narrow box: what is computed must show in both."""
_LEAST_SHARE, _LEAST_COLUMN = 0.1, 10.0
_MOST_CHARS, _MOST_NESTED, _FARTHEST_MOVE = 1_000, 8, 650.0
_DEAD = re.compile(r"(?:-ms-|-o-|-moz-(?!available))[\w-]*|progid:.*|['\"]?alpha\s*\(.*|.*(?:\\9|!).*|", re.DOTALL)
"""Values that only browsers of the past knew; those of today ignore the declaration."""
_SIDES = re.compile(
    r"(?:(margin|padding|inset)-(?:left|right|top|bottom|(?:inline|block)-(?:start|end)|(inline|block))"
    r"|left|right|top|bottom)"
)
_BORDER = re.compile(r"border(?:-(?:left|right|top|bottom|inline|block))?(?:-start|-end)?(?:-width)?")
_ENDLESS = re.compile(r"\d{100,}")
UNKNOWN = "?()"
"""Stands for a value that is not known; no table holds it."""
_CELL = re.compile(r"grid-(?:row|column)(?:-start|-end)?")
_SYSTEM_FONTS = re.compile("caption|icon|menu|message-box|status-bar|inherit|initial|unset|revert")
_MATHS = frozenset(("calc", "min", "max", "clamp"))
_TAKEN_OVER = frozenset(
    ["display", "float", "margin", "padding", "border", "width", "max-width", "text-decoration", "vertical-align"]
)
"""Properties that show what their parent showed with the same value."""
_MOVES = frozenset(("margin", "padding", "inset", "translate"))
_OF_ONE = {"opacity": 0.01, "line-height": 0.16, "vertical-align": 0.16}
"""What one per cent of these properties is, where it is none of a box's width."""


class Verdict(NamedTuple):
    """Whether text shows, the factor by which it is fainter or smaller, and the farthest moves back and forth."""

    shows: bool
    factor: float = 1.0
    back: float = 0.0
    forth: float = 0.0


SHOWS, HIDES = Verdict(shows=True), Verdict(shows=False)


@dataclass(frozen=True, slots=True)
class _Known:
    words: frozenset[str]
    lengths: tuple[tuple[float, float], ...]
    numbers: tuple[tuple[float, float], ...]
    most: int


class Table(NamedTuple):
    """The policy: see `known_to_show.toml`."""

    harmless: frozenset[str]
    inherited: frozenset[str]
    shown: Mapping[str, _Known]
    media: Mapping[str, bool]
    not_yet: frozenset[str]
    idle: frozenset[str]


@cache
def table() -> Table:
    """Read the policy once."""
    read = tomllib.loads(files("sluice.ingest.extract.css").joinpath("known_to_show.toml").read_text("utf-8"))
    media = {feature: answer == "yes" for answer, features in read["media"].items() for feature in features.split()}
    idle = (frozenset(read[name].split()) for name in ("not_yet", "idle"))
    shown = {name: _known(words.split()) for name, words in read["shown"].items()}
    return Table(frozenset(read["harmless"].split()), frozenset(read["inherited"].split()), shown, media, *idle)


def _known(words: Sequence[str]) -> _Known:
    ranges = [one for one in words if ".." in one]
    lengths, numbers = ([one for one in ranges if one.startswith("n:") is bare] for bare in (False, True))
    most = next((int(one[1:]) for one in words if re.fullmatch(r"x\d", one)), 1)
    return _Known(frozenset(words).difference(ranges), tuple(map(_range, lengths)), tuple(map(_range, numbers)), most)


def _range(limits: str) -> tuple[float, float]:
    least, _, most = limits.removeprefix("n:").partition("..")
    return float(least), float(most)


@cache
def named(name: str) -> str:
    """Return the name under which the policy knows a property; "" if no value of it can hide a text.

    A single side is written `margin:1`, a pair of sides `margin:2`.
    """
    if name.startswith("_") or (name.startswith("-") and not name.startswith(("-webkit-", "-moz-", "-epub-"))):
        return ""
    name = re.sub(r"^-(?:webkit|moz|epub)-", "", name)
    if name in table().harmless:
        return ""
    if _BORDER.fullmatch(name):
        return "border"
    if name in table().shown:
        return name
    if name.startswith("overflow-"):
        return "overflow"
    if _CELL.fullmatch(name):
        return "grid-area"
    side = _SIDES.fullmatch(name)
    return f"{side[1] or 'inset'}:{2 if side[2] else 1}" if side else name


@kept_if_short(16_384)
def judge(name: str, value: str) -> Verdict | None:
    """Judge a declaration of a property as `named` has it, but for colours and sizes of fonts; None if it is void."""
    if _DEAD.fullmatch(value):
        return None
    if len(value) > _MOST_CHARS:
        return HIDES
    tokens = tokens_of(value)
    if (value in ("initial", "unset", "revert") and name != "all") or (
        value == "inherit" and name.partition(":")[0] in _TAKEN_OVER
    ):
        return SHOWS
    match name:
        case "transform":
            return _transformed(tokens)
        case "scale" | "zoom":
            return _scaled([amount_of(token) for token in tokens])
        case "border" | "outline" | "box-shadow" | "text-stroke":
            return _drawn(name, tokens)
        case "font":
            is_void = not size_in_font(value) and not _SYSTEM_FONTS.search(value)
            return None if is_void and all(token.type in ("ident", "string", "literal") for token in tokens) else SHOWS
        case "flex":
            return _flexed(tokens)
        case "grid-template-columns":
            return SHOWS if UNKNOWN not in value and all(map(_has_room, tokens)) else HIDES
        case "text-decoration":
            tokens = [token for token in tokens if colour_of(written([token])) is None]
    return _listed(name, tokens)


def _listed(name: str, tokens: Sequence[Any]) -> Verdict:
    name, _, sides = name.partition(":")
    known = table().shown.get(name)
    if known is not None and "any" in known.words:
        return SHOWS
    if known is None or not 0 < len(tokens) <= int(sides or known.most):
        return HIDES
    factor, back, forth = 1.0, 0.0, 0.0
    for token in tokens:
        if token.type == "ident":
            if token.lower_value not in known.words:
                return HIDES
            continue
        amounts = amounts_of(token)
        if not amounts:
            if written([token]) not in known.words:
                return HIDES
            continue
        if token.type == "percentage" and name in _OF_ONE:
            amounts = [(token.value * _OF_ONE[name], name == "opacity")]
        for number, is_bare in amounts:
            ranges = known.numbers if is_bare and (number or not known.lengths) else known.lengths
            if not any(least <= number <= most for least, most in ranges):
                return HIDES
            if name in _MOVES:
                back, forth = max(back, -number), max(forth, number)
            factor = number if name == "opacity" else 1.0
    return Verdict(shows=True, factor=factor, back=back, forth=forth)


def _transformed(tokens: Sequence[Any]) -> Verdict:
    """Judge moves, turns in the plane and a change of size; what turns a text out of the plane does not show."""
    factor, back, forth = 1.0, 0.0, 0.0
    if [token.type for token in tokens] == ["ident"]:
        return SHOWS if tokens[0].lower_value == "none" else HIDES
    for token in tokens:
        if token.type != "function":
            return HIDES
        arguments = [one for one in token.arguments if one.type not in ("whitespace", "comment") and one != ","]
        amounts = [amount_of(one) for one in arguments]
        name = token.lower_name
        if name in ("translatez", "translate3d") and not _is_still(arguments[-1:]):
            return HIDES  # behind the reader's eye
        if name.startswith("translate") and all(amounts):
            for number, _ in filter(None, amounts):
                back, forth = max(back, -number), max(forth, number)
        elif name in ("scale", "scalex", "scaley", "scale3d"):
            found = _scaled(amounts)
            if not found.shows:
                return HIDES
            factor *= found.factor
        elif name not in ("rotate", "rotatez") and not (name.startswith(("rotate", "skew")) and _is_still(arguments)):
            return HIDES
    return Verdict(shows=bool(tokens) and forth <= _FARTHEST_MOVE, factor=factor, back=back, forth=forth)


def _is_still(arguments: Sequence[Any]) -> bool:
    return bool(arguments) and all(getattr(one, "value", 1) == 0 for one in arguments)


def _scaled(amounts: Sequence[tuple[float, bool] | None]) -> Verdict:
    factors = [number if is_bare else number / PER_CENT_PIXELS[0] / 100 for number, is_bare in filter(None, amounts)]
    if not factors or len(factors) < len(amounts) or not 0.5 <= min(factors) <= max(factors) <= 3:
        return HIDES
    return Verdict(shows=True, factor=min(1.0, *factors) if len(factors) > 1 else min(1.0, factors[0]))


def _drawn(name: str, tokens: Sequence[Any]) -> Verdict:
    """Judge lines: a thick one inside a box, or along its letters, paints over text."""
    most = {"border": 200.0, "text-stroke": 1.0}.get(name, 10.0)
    if name == "box-shadow" and not any(token.type == "ident" and token.lower_value == "inset" for token in tokens):
        most = math.inf
    for token in tokens:
        if token.type == "function" and token.lower_name == "var":
            return HIDES
        if token.type == "dimension" and not abs(token.value) * PIXELS.get(token.lower_unit, math.inf) <= most:
            return HIDES
    return SHOWS


def _has_room(track: Any) -> bool:
    """Return whether a column of a grid surely has a width."""
    if track.type == "function":
        inner = [one for one in track.arguments if one.type not in ("whitespace", "comment", "literal")]
        is_repeated = track.lower_name == "repeat"
        return bool(inner) and (all(map(_has_room, inner[1:])) if is_repeated else any(map(_has_room, inner)))
    if track.type == "dimension" and track.lower_unit == "fr":
        return bool(track.value >= _LEAST_SHARE)
    amount = amount_of(track)
    return amount is None or (amount[0] >= _LEAST_COLUMN and not amount[1])


def _flexed(tokens: Sequence[Any]) -> Verdict:
    """Judge `flex`: a box that neither grows nor has a width of its own may have none."""
    words = [token.lower_value for token in tokens if token.type == "ident"]
    amounts = [amount_of(token) for token in tokens if token.type != "ident"]
    if not set(words) <= {"none", "auto", "initial", "content"} or None in amounts or not tokens:
        return HIDES
    numbers = [found for found in amounts if found]
    grows = not numbers or numbers[0][0] >= 1 or "auto" in words
    return SHOWS if grows or any(not is_bare and number >= 20 for number, is_bare in numbers) else HIDES


def readable(css: str) -> str:
    """Return `css` without numbers of so many digits that the parser raises an error."""
    return _ENDLESS.sub("9" * 20, css)


def written(tokens: Sequence[Any]) -> str:
    """Return `tokens` as text, `UNKNOWN` if they are nested too deeply."""
    try:
        return str(tinycss2.serialize(tokens))
    except RecursionError:
        return UNKNOWN


def tokens_of(value: str, *, skip_space: bool = True) -> list[Any]:
    """Return the parts of a value without comments, and without white space if `skip_space`."""
    found = tinycss2.parse_component_value_list(readable(value), skip_comments=True)
    return [token for token in found if not (skip_space and token.type == "whitespace")]


def amount_of(token: Any) -> tuple[float, bool] | None:
    """Return a number, or a length in pixels, and whether it has no unit; None if it is neither."""
    found = amounts_of(token)
    return found[0] if found else None


def amounts_of(token: Any) -> list[tuple[float, bool]]:
    """Return a number with whether it has no unit; two where the width of the box around it decides; else none."""
    if token.type == "function" and token.lower_name in _MATHS:
        try:
            return list(dict.fromkeys(_computed(token, per_cent, 0) for per_cent in PER_CENT_PIXELS))
        except (ArithmeticError, ValueError, IndexError):
            return []
    try:
        return [_number(token, PER_CENT_PIXELS[0])]
    except ValueError:
        return []


def _number(token: Any, per_cent: float) -> tuple[float, bool]:
    if token.type == "number" and math.isfinite(token.value):
        return token.value, True
    if token.type == "percentage" and math.isfinite(token.value):
        return token.value * per_cent, False
    if token.type == "dimension" and token.lower_unit in PIXELS and math.isfinite(token.value):
        return token.value * PIXELS[token.lower_unit], False
    raise ValueError(token)


def _computed(token: Any, per_cent: float, nested: int) -> tuple[float, bool]:
    """Evaluate `calc`, `min`, `max`, `clamp` and brackets (CSS Values 4, section 10). Raises ValueError."""
    if token.type != "() block" and not (token.type == "function" and token.lower_name in _MATHS):
        return _number(token, per_cent)
    if nested > _MOST_NESTED:
        raise ValueError(token)
    arguments: list[list[Any]] = [[]]
    for one in token.content if token.type == "() block" else token.arguments:
        if one == ",":
            arguments.append([])
        elif one.type not in ("whitespace", "comment"):
            arguments[-1].append(one)
    sums = [_sum(argument, per_cent, nested + 1) for argument in arguments]
    numbers, kinds = [number for number, _ in sums], {is_bare for _, is_bare in sums}
    function = token.lower_name if token.type == "function" else "calc"
    if len(kinds) != 1 or len(numbers) != {"calc": 1, "clamp": 3}.get(function, len(numbers)):
        raise ValueError(token)
    if function == "clamp":
        return max(numbers[0], min(numbers[1], numbers[2])), kinds.pop()
    return (max if function == "max" else min)(numbers), kinds.pop()


def _sum(tokens: list[Any], per_cent: float, nested: int) -> tuple[float, bool]:
    """Evaluate numbers alternating with `+ - * /`."""
    total, is_bare = _computed(tokens[0], per_cent, nested)
    terms: list[float] = []
    for sign, token in zip(tokens[1::2], tokens[2::2], strict=True):
        number, bare = _computed(token, per_cent, nested)
        if sign == "*":
            total, is_bare = total * number, is_bare and bare
        elif sign == "/" and bare:
            total /= number
        elif sign in ("+", "-") and bare == is_bare:
            terms.append(total)
            total = number if sign == "+" else -number
        else:
            raise ValueError(token)
    return sum(terms, total), is_bare


def font_size(value: str, around: float) -> float | None:
    """Return the pixels of a font size within text of `around` pixels; None if it is not understood."""
    tokens = tokens_of(value)
    if len(tokens) != 1:
        return None
    words = {"smaller": around / 1.2, "larger": around * 1.2, "inherit": around, "unset": around, "xx-small": 9.0}
    words |= {"x-small": 10.0, "small": 13.0, "medium": 16.0, "initial": 16.0, "large": 18.0, "x-large": 24.0}
    words |= {"xx-large": 32.0, "xxx-large": 48.0}
    token = tokens[0]
    if token.type == "ident":
        return words.get(token.lower_value)
    if token.type == "percentage":
        return around * float(token.value) / 100
    if token.type == "dimension" and token.lower_unit in ("em", "ex", "ch"):
        return around * float(token.value) * (1.0 if token.lower_unit == "em" else 0.5)
    amounts = [number for number, is_bare in amounts_of(token) if not is_bare or number == 0]
    return min(amounts, default=None)


def size_in_font(value: str) -> str:
    """Return the font size that the shorthand `font` sets; "" if none is found."""
    for token in tokens_of(value):
        if token.type in ("dimension", "percentage", "function") or (token.type == "number" and token.value == 0):
            return written([token])
        if token.type == "ident" and font_size(token.lower_value, 16.0) is not None:
            return str(token.lower_value)
    return ""
