"""Evaluates numbers of CSS: `calc()` and similar functions (CSS Values 4, section 10), `1e-3` as `0.001`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

from sluice.ingest.extract.css.bounded_cache import kept_if_short

WINDOW_PIXELS = {"vw": 10.0, "vh": 10.0, "vmin": 10.0, "vmax": 10.0, "vi": 10.0, "vb": 10.0}
"""Pixels of one per cent of a usual window."""
PIXELS = dict.fromkeys(("", "px"), 1.0) | dict.fromkeys(("em", "rem", "pc", "lh", "rlh"), 16.0)
PIXELS |= dict.fromkeys(("ex", "ch", "cap", "ic"), 8.0) | {"pt": 4 / 3, "mm": 3.8, "cm": 38.0, "in": 96.0, "q": 0.95}
PIXELS |= {f"{size}{unit}": pixels for unit, pixels in WINDOW_PIXELS.items() for size in ("", "s", "l", "d")}
PIXELS |= dict.fromkeys(("cqw", "cqh", "cqi", "cqb", "cqmin", "cqmax"), 7.2)
"""Pixels of one unit, at usual sizes of fonts and windows."""
DEGREES = {"deg": 1.0, "grad": 0.9, "turn": 360.0, "rad": 180 / math.pi}

_FUNCTION = re.compile(r"(?<![\w-])(?:-webkit-|-moz-)?(calc|min|max|clamp|abs)\(")
_COMPUTED = re.compile(r"(?:calc|min|max|clamp|abs)\(|\de[+-]?\d")
_EXPONENT = re.compile(r"(?<![\w#.-])([+-]?(?:\d+\.?\d*|\.\d+)e[+-]?\d+)(?![\d.])")
_TOKEN = re.compile(
    r"\s*(?:(\d+\.?\d*(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?)([a-z]+|%)?|(?:-webkit-|-moz-)?([a-z]+)\(|([()+*/,-]))"
)
_MOST_CHARS, _MOST_TOKENS, _MOST_NESTED = 1_000, 200, 20
_PIXELS_OF_A_PER_CENT = 12.8
"""Pixels of one per cent of a window's width, used when adding per cent to lengths."""
_Quantity = tuple[float, str]
"""A number with its unit: none, "px", "%" or "deg"."""


@kept_if_short(8_192)
def plain(value: str) -> str:
    """Return `value` with each numeric function evaluated; unchanged where that is impossible."""
    if len(value) > _MOST_CHARS or not _COMPUTED.search(value):
        return value
    parts: list[str] = []
    done = 0
    for found in _FUNCTION.finditer(value):
        if found.start() < done:
            continue
        try:
            reader = _Reader(value, found.start())
            parts += (value[done : found.start()], _written(reader.value()))
        except (ValueError, OverflowError, ZeroDivisionError, IndexError):
            continue
        done = reader.at
    return _EXPONENT.sub(_without_exponent, "".join((*parts, value[done:])))


def _without_exponent(found: re.Match[str]) -> str:
    """Return `2e3` as `2000`; a number beyond a float's range stays as written."""
    number = float(found[1])
    return _written((number, "")) if math.isfinite(number) else found[0]


class _Reader:
    """Reads one expression from `at` on; raises ValueError for unsupported syntax."""

    def __init__(self, text: str, at: int) -> None:
        self.text, self.at, self.tokens, self.nested = text, at, 0, 0

    def value(self) -> _Quantity:
        number, unit, function, mark = self._next()
        if number:
            return _quantity(float(number), unit or "")
        if mark in ("+", "-"):
            amount, kind = self.value()
            return (amount if mark == "+" else -amount), kind
        if mark == "(" or function:
            self.nested += 1
            if self.nested > _MOST_NESTED:
                raise ValueError(self.text)
            arguments = [self._sum()]
            while (end := self._next()[3]) == ",":
                arguments.append(self._sum())
            if end != ")":
                raise ValueError(self.text)
            self.nested -= 1
            return _applied(function or "calc", arguments)
        raise ValueError(self.text)

    def _sum(self) -> _Quantity:
        total = self._product()
        while (mark := self._peek()) in ("+", "-"):
            self._next()
            first, second = _alike((total, self._product()))
            total = (first[0] + (second[0] if mark == "+" else -second[0])), first[1]
        return total

    def _product(self) -> _Quantity:
        product = self.value()
        while (mark := self._peek()) in ("*", "/"):
            self._next()
            other = self.value()
            if mark == "*":
                product = product[0] * other[0], product[1] or other[1]
            else:
                product = product[0] / other[0], "" if other[1] == product[1] else product[1]
        return product

    def _next(self) -> tuple[str | None, str | None, str | None, str | None]:
        found = _TOKEN.match(self.text, self.at)
        self.tokens += 1
        if found is None or self.tokens > _MOST_TOKENS:
            raise ValueError(self.text)
        self.at = found.end()
        return found[1], found[2], found[3], found[4]

    def _peek(self) -> str | None:
        found = _TOKEN.match(self.text, self.at)
        return found[4] if found else None


def _quantity(number: float, unit: str) -> _Quantity:
    if unit in ("", "%"):
        return number, unit
    if unit in DEGREES:
        return number * DEGREES[unit], "deg"
    if unit not in PIXELS:
        raise ValueError(unit)
    return number * PIXELS[unit], "px"


def _alike(quantities: Sequence[_Quantity]) -> list[_Quantity]:
    """Convert quantities to one unit: per cent beside lengths become pixels."""
    units = {unit for _, unit in quantities if unit}
    if len(units) < 2:
        return [(number, next(iter(units), "")) for number, _ in quantities]
    if units != {"px", "%"}:
        raise ValueError(str(units))
    return [(number * _PIXELS_OF_A_PER_CENT if unit == "%" else number, "px") for number, unit in quantities]


def _applied(function: str, arguments: Sequence[_Quantity]) -> _Quantity:
    same = _alike(arguments)
    numbers, unit = [number for number, _ in same], same[0][1]
    choose: Callable[[Sequence[float]], float]
    match function, len(numbers):
        case "calc" | "abs", 1:
            return (abs(numbers[0]) if function == "abs" else numbers[0]), unit
        case "min" | "max", _:
            choose = min if function == "min" else max
            return choose(numbers), unit
        case "clamp", 3:
            return max(numbers[0], min(numbers[1], numbers[2])), unit
    raise ValueError(function)


def _written(quantity: _Quantity) -> str:
    number, unit = quantity
    if not math.isfinite(number):
        raise ValueError(unit)
    return f"{number:.6f}".rstrip("0").rstrip(".") + unit
