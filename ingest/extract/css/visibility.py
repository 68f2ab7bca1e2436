"""Says of one declaration whether text under it surely shows, by the table `known_to_show.toml` beside it.

Values are read strictly: one that a browser might not accept, or might understand otherwise, does not show.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

import tinycss2

from sluice.ingest.extract.css.colours import colour_of

PIXELS = {"px": 1.0, "em": 16.0, "rem": 16.0, "pc": 16.0, "pt": 4 / 3, "mm": 3.78, "cm": 37.8, "in": 96.0, "q": 0.945}
PIXELS |= dict.fromkeys(("ex", "ch"), 8.0) | {"vw": 12.8, "vh": 7.2, "vmin": 7.2, "vmax": 12.8, "vi": 12.8, "vb": 7.2}
PIXELS |= {f"{size}{unit}": pixels for unit, pixels in list(PIXELS.items())[-6:] for size in "sld"}
"""Pixels of one unit, at the usual sizes of fonts and in a window of 1,280 by 720 pixels."""
PER_CENT_PIXELS = (12.8, 5.0)
"""Pixels of one per cent in a wide and in a narrow box: what is computed must show in both."""
MOST_CHARS = 1_000
"""Most characters of a value; a longer one is unknown."""
_DEAD = re.compile(r"(?:-ms-|-o-|-moz-(?!available))[\w-]*|progid:.*|['\"]?alpha\s*\(.*|.*(?:\\9|!).*|", re.DOTALL)
"""Values that only browsers of the past knew; those of today ignore the declaration."""
_ENDLESS = re.compile(r"\d{100,}")
UNKNOWN = "?()"
"""Stands for a value that is not known; no table holds it."""
_MATHS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "calc": sum,
    "min": min,
    "max": max,
    "clamp": lambda numbers: max(numbers[0], min(numbers[1:])),
}
AS_AROUND = ("inherit", "unset", "revert")


class Verdict(NamedTuple):
    """Whether text shows, the factor by which it is fainter, and the farthest moves back and forth."""

    shows: bool
    factor: float = 1.0
    back: float = 0.0
    forth: float = 0.0


SHOWS, HIDES = Verdict(shows=True), Verdict(shows=False)


class _Known(NamedTuple):
    """Values of a property that show: words, lengths in pixels, plain numbers; `most` values at once."""

    words: frozenset[str]
    lengths: Sequence[tuple[float, float]]
    numbers: Sequence[tuple[float, float]]
    most: int
    per_cent: float | None


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
    harmless, inherited, not_yet, idle = (
        frozenset(read[name].split()) for name in ("harmless", "inherited", "not_yet", "idle")
    )
    shown = {name: _known(words) for names, words in read["shown"].items() for name in names.split()}
    return Table(harmless, inherited, shown, media, not_yet, idle)


def _known(words: str) -> _Known:
    lengths, numbers = (
        [(float(least), float(most)) for least, most in re.findall(rf"(?<!\S){kind}(-?[\d.e]+?)\.\.([\d.e]+)", words)]
        for kind in ("", "n:")
    )
    most, per_cent = re.search(r"(?<!\S)x(\d+)", words), re.search(r"(?<!\S)%=([\d.]+)", words)
    limits = lengths, numbers, int(most[1]) if most else 1
    return _Known(frozenset(words.split()), *limits, float(per_cent[1]) if per_cent else None)


@lru_cache(maxsize=8_192)
def named(name: str) -> str:
    """Return the name under which the policy knows a property; "" if no value of it can hide a text."""
    if name.startswith("_") or (name.startswith("-") and not name.startswith(("-webkit-", "-moz-", "-epub-"))):
        return ""
    name = re.sub(r"^-(?:webkit|moz|epub)-", "", name)
    return "" if name in table().harmless else name


@lru_cache(maxsize=8_192)
def judge(name: str, value: str) -> Verdict | None:
    """Judge a declaration of a property as `named` has it, but for colours and sizes of fonts; None if it is void."""
    if _DEAD.fullmatch(value):
        return None
    known = table().shown.get(name)
    if known is None:
        return HIDES
    if "any" in known.words or value in ("initial", "unset", "revert"):
        return SHOWS if UNKNOWN not in value else HIDES
    tokens = tokens_of(value)
    if not 0 < len(tokens) <= known.most:
        return HIDES
    factor, back, forth = 1.0, 0.0, 0.0
    for token in tokens:
        word = written([token]).replace(" ", "")
        if word in known.words or ("colour" in known.words and colour_of(word)):
            continue
        amounts = amounts_of(token)
        if token.type == "percentage" and known.per_cent is not None:
            amounts = [(token.value * known.per_cent, not known.lengths)]
        for number, is_bare in amounts:
            ranges = known.numbers if is_bare and (number or not known.lengths) else known.lengths
            if not any(least <= number <= most for least, most in ranges):
                return HIDES
            if "moves" in known.words:
                back, forth = max(back, -number), max(forth, number)
            factor = number if name == "opacity" else 1.0
        if not amounts:
            return HIDES
    return Verdict(shows=True, factor=factor, back=back, forth=forth)


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
    """Return the parts of a value without comments, and without white space if `skip_space`; none of a long value."""
    if len(value) > MOST_CHARS:
        return []
    found = tinycss2.parse_component_value_list(readable(value), skip_comments=True)
    return [token for token in found if not (skip_space and token.type == "whitespace")]


@lru_cache(maxsize=4_096)
def pixels_of(value: str) -> float | None:
    """Return a single length, but no percentage, in pixels; None for any other value."""
    tokens = tokens_of(value) if len(value) < 30 else []
    amounts = amounts_of(tokens[0]) if len(tokens) == 1 and tokens[0].type != "percentage" else []
    return amounts[0][0] if amounts else None


def amounts_of(token: Any) -> list[tuple[float, bool]]:
    """Return a number, or a length in pixels, and whether it has no unit; two if the box around decides; else none."""
    widths = PER_CENT_PIXELS if token.type == "function" else PER_CENT_PIXELS[:1]
    try:
        return list(dict.fromkeys(_amount(token, per_cent) for per_cent in widths))
    except (ArithmeticError, LookupError, TypeError, ValueError, RecursionError):
        return []


def _amount(token: Any, per_cent: float) -> tuple[float, bool]:
    """Evaluate a number, a length, or a function of them (CSS Values 4, section 10). Raises an error for all others."""
    match token.type:
        case "number":
            return token.value, True
        case "percentage":
            return token.value * per_cent, False
        case "dimension":
            return token.value * PIXELS[token.lower_unit], False
        case "() block":
            return _sum(token.content, per_cent)
        case "function":
            return _computed(token, per_cent)
    raise ValueError(token)


def _computed(token: Any, per_cent: float) -> tuple[float, bool]:
    sums = [_sum(argument, per_cent) for argument in split_at_commas(token.arguments)]
    wanted = {"calc": 1, "clamp": 3}.get(token.lower_name, len(sums))
    if len({is_bare for _, is_bare in sums}) > 1 or len(sums) != wanted:
        raise ValueError(token)
    return _MATHS[token.lower_name]([number for number, _ in sums]), sums[0][1]


def _sum(tokens: Sequence[Any], per_cent: float) -> tuple[float, bool]:
    """Evaluate numbers alternating with `+ - * /`."""
    parts = [token for token in tokens if token.type != "whitespace"]
    total, (term, is_bare) = 0.0, _amount(parts[0], per_cent)
    for sign, token in zip(parts[1::2], parts[2::2], strict=True):
        number, bare = _amount(token, per_cent)
        if sign == "*":
            term, is_bare = term * number, is_bare and bare
        elif sign == "/" and bare:
            term /= number
        elif sign in ("+", "-") and bare == is_bare:
            total, term = total + term, number if sign == "+" else -number
        else:
            raise ValueError(token)
    return total + term, is_bare


def split_at_commas(tokens: Sequence[Any]) -> list[list[Any]]:
    """Return the parts of a list."""
    parts: list[list[Any]] = [[]]
    for piece in tokens:
        if piece == ",":
            parts.append([])
        elif piece.type != "comment":
            parts[-1].append(piece)
    return parts


_SIZES = {"smaller": 1 / 1.2, "larger": 1.2, "inherit": 1.0, "unset": 1.0}
_NAMED_SIZES = {"xx-small": 9.0, "x-small": 10.0, "small": 13.0, "medium": 16.0, "initial": 16.0, "large": 18.0}
_NAMED_SIZES |= {"x-large": 24.0, "xx-large": 32.0, "xxx-large": 48.0}


def font_size(value: str, around: float) -> float | None:
    """Return the pixels of a font size within text of `around` pixels; None if it is not understood."""
    if value in _NAMED_SIZES:
        return _NAMED_SIZES[value]
    if value in _SIZES:
        return around * _SIZES[value]
    tokens = tokens_of(value)
    if len(tokens) != 1:
        return None
    token = tokens[0]
    if token.type == "percentage":
        return around * float(token.value) / 100
    if token.type == "dimension" and token.lower_unit in ("em", "ex", "ch"):
        return around * float(token.value) * (1.0 if token.lower_unit == "em" else 0.5)
    return min((number for number, is_bare in amounts_of(token) if not is_bare or number == 0), default=None)


def size_in_font(value: str) -> str:
    """Return the font size that the shorthand `font` sets; "" if none is found."""
    for token in tokens_of(value):
        if token.type in ("dimension", "percentage", "function") or (token.type == "number" and token.value == 0):
            return written([token])
        if token.type == "ident" and token.lower_value in (*_SIZES, *_NAMED_SIZES):
            return str(token.lower_value)
    return ""
