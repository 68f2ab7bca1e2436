"""Evaluates media queries for an ordinary screen: 1,280 by 720, light, with a mouse (Media Queries 4).

For an unknown feature `holds` returns None: rules under it count if they hide, and are ignored if they show
something again.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence

from sluice.ingest.extract.css.bounded_cache import kept_if_short
from sluice.ingest.extract.css.numbers import PIXELS, plain

SCREEN_PIXELS = 1_280
_SIZES = {"width": 1_280.0, "height": 720.0, "device-width": 1_280.0, "device-height": 720.0}
_SIZES |= {"inline-size": 1_280.0, "block-size": 720.0, "aspect-ratio": 16 / 9, "device-aspect-ratio": 16 / 9}
_SIZES |= {"resolution": 1.0, "color": 8.0, "color-index": 0.0, "monochrome": 0.0, "-webkit-device-pixel-ratio": 1.0}
_SIZES |= {"grid": 0.0, "device-pixel-ratio": 1.0}
_WORDS = {
    "orientation": "landscape",
    "hover": "hover",
    "any-hover": "hover",
    "pointer": "fine",
    "any-pointer": "fine",
    "prefers-color-scheme": "light",
    "prefers-reduced-motion": "no-preference",
    "prefers-reduced-transparency": "no-preference",
    "prefers-reduced-data": "no-preference",
    "prefers-contrast": "no-preference",
    "forced-colors": "none",
    "inverted-colors": "none",
    "scripting": "enabled",
    "update": "fast",
    "overflow-block": "scroll",
    "overflow-inline": "scroll",
    "display-mode": "browser",
    "color-gamut": "srgb",
    "dynamic-range": "standard",
    "video-dynamic-range": "standard",
    "scan": "progressive",
}
_NEGATIVE = frozenset(("none", "no-preference"))
_COMPARED: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
_RANGE = re.compile(r"(?:([^<>=]+?)\s*(<=|>=|<|>|=)\s*)?([a-z-]+)(?:\s*(<=|>=|<|>|=)\s*([^<>=]+))?")
_TURNED_RANGE = re.compile(r"([^<>=]+?)\s*(<=|>=|<|>|=)\s*([a-z-]+)")
_AMOUNT = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))([a-z]*)(?:\s*/\s*(\d+\.?\d*|\.\d+))?")
_RESOLUTIONS = {"dppx": 1.0, "x": 1.0, "dpi": 1 / 96, "dpcm": 2.54 / 96}
_PARTS = re.compile(r"\(|\)|[^\s()]+")
_MOST_PARTS, _MOST_NESTED = 200, 10


@kept_if_short(1_024)
def holds(query: str) -> bool | None:
    """Return whether any part of the list `query` holds; None if unknown."""
    answers = [_one_holds(part.strip().lower()) for part in query.split(",")]
    return _any(answers) if query.strip() else True


def _one_holds(query: str) -> bool | None:
    is_negated = query.startswith("not ") and not query[4:].lstrip().startswith("(")
    rest = query.removeprefix("not ").strip() if is_negated else query.removeprefix("only ").strip()
    medium, found, condition = rest.partition(" and ")
    answer: bool | None
    if rest.startswith(("(", "not ")):
        answer = condition_holds(rest, feature_holds)
    elif medium.strip() not in ("screen", "all"):
        answer = False
    else:
        answer = condition_holds(condition, feature_holds) if found else True
    return _negated(answer) if is_negated else answer


def condition_holds(written: str, judge: Callable[[str], bool | None]) -> bool | None:
    """Evaluate `and`, `or`, `not` and brackets, with `judge` for each innermost bracket; None if unknown."""
    parts = _PARTS.findall(_with_functions_closed(written))
    if not parts or len(parts) > _MOST_PARTS:
        return None
    answer, end = _sequence(parts, 0, judge, 0)
    return answer if end == len(parts) else None


def feature_holds(feature: str) -> bool | None:
    """Return whether a feature's bracket content holds: `min-width: 20em`, `400px <= width < 90em`, `hover`."""
    feature = feature.replace("\x00", "(").replace("\x01", ")").strip()
    name, found, value = feature.partition(":")
    if found and "<" not in feature and ">" not in feature:
        return _is_so(name.strip(), value.strip())
    between = _RANGE.fullmatch(feature)
    if between is None or between[3] not in _SIZES:
        turned = _TURNED_RANGE.fullmatch(feature)
        if turned and turned[3] in _SIZES:
            return _compared(turned[3], _TURNED[turned[2]], turned[1])
        if feature in _WORDS:
            return _WORDS[feature] not in _NEGATIVE
        return None
    size = between[3]
    answers = [
        _compared(size, _TURNED[between[2]], between[1]) if between[2] else True,
        _compared(size, between[4], between[5]) if between[4] else True,
    ]
    if not between[2] and not between[4]:
        return _SIZES[size] != 0
    return _all(answers)


def _is_so(name: str, value: str) -> bool | None:
    if name in _WORDS:
        return value == _WORDS[name]
    for prefix, sign in (("min-", ">="), ("max-", "<="), ("-webkit-min-", ">="), ("-webkit-max-", "<=")):
        if name.startswith(prefix) and name.removeprefix(prefix) in _SIZES:
            return _compared(name.removeprefix(prefix), sign, value)
    return _compared(name, "=", value) if name in _SIZES else None


def _compared(size: str, sign: str, written: str) -> bool | None:
    found = _AMOUNT.fullmatch(plain(written.strip()))
    if found is None:
        return None
    amount, unit = float(found[1]), found[2]
    if found[3]:
        amount /= float(found[3]) or 1.0
    elif unit in _RESOLUTIONS:
        amount *= _RESOLUTIONS[unit]
    elif unit in PIXELS:
        amount *= PIXELS[unit]
    else:
        return None
    return _COMPARED[sign](_SIZES[size], amount)


def _with_functions_closed(written: str) -> str:
    """Replace the brackets of functions within features by other signs, so that the rest are conditions."""
    signs: list[str] = []
    within: list[bool] = []
    for place, sign in enumerate(written):
        if sign == "(":
            within.append(place > 0 and (written[place - 1].isalnum() or written[place - 1] in "-_"))
            signs.append("\x00" if within[-1] else "(")
        elif sign == ")" and within:
            signs.append("\x01" if within.pop() else ")")
        else:
            signs.append(sign)
    return "".join(signs)


def _sequence(
    parts: Sequence[str], at: int, judge: Callable[[str], bool | None], nested: int
) -> tuple[bool | None, int]:
    answers: list[bool | None] = []
    joins_by_or = False
    while at < len(parts) and parts[at] != ")":
        if parts[at] in ("and", "or"):
            joins_by_or = parts[at] == "or"
            at += 1
            continue
        is_negated = parts[at] == "not"
        at += is_negated
        if at >= len(parts):
            return None, at
        answer, at = _bracket(parts, at, judge, nested) if parts[at] == "(" else (judge(parts[at]), at + 1)
        answers.append(_negated(answer) if is_negated else answer)
    return (_any(answers) if joins_by_or else _all(answers)), at


def _bracket(
    parts: Sequence[str], at: int, judge: Callable[[str], bool | None], nested: int
) -> tuple[bool | None, int]:
    end = at + 1
    if end < len(parts) and (parts[end] in ("(", "not")) and nested < _MOST_NESTED:
        answer, end = _sequence(parts, end, judge, nested + 1)
        return answer, end + 1
    words = []
    while end < len(parts) and parts[end] not in ("(", ")"):
        words.append(parts[end])
        end += 1
    return judge(" ".join(words)), end + 1


def _negated(answer: bool | None) -> bool | None:
    return None if answer is None else not answer


def _any(answers: Sequence[bool | None]) -> bool | None:
    if True in answers:
        return True
    return None if None in answers else False


def _all(answers: Sequence[bool | None]) -> bool | None:
    if False in answers:
        return False
    return None if None in answers else bool(answers)
