"""Values of JSON texts, as agents' outputs hold them: without lone surrogates, and bounded by the decoder."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
"""An escape that may stand for half a character."""


class NotJson(ValueError):
    """A text is no JSON."""


def decode(text: str, *, finite: bool = False) -> Any:
    """The value of a JSON text, without lone surrogates.

    NaN and the infinities, which JSON does not know, become None; they are an error if `finite`.

    Raises:
        NotJson: it is no JSON, is nested deeper than the decoder goes, or has a number of thousands of digits.
    """
    try:
        value = (_FINITE if finite else _TOLERANT).decode(text)
        return scrubbed(value) if _SURROGATE.search(text) else value
    except (ValueError, RecursionError) as error:
        raise NotJson(str(error) or type(error).__name__) from error


def decoded(value: Any) -> Any:
    """The value of a JSON text, None for a text that is no JSON; anything else as it is."""
    try:
        return decode(value) if isinstance(value, str) else value
    except NotJson:
        return None


def decode_lines(text: str) -> tuple[list[Any], Counter[str]]:
    """The values of lines of JSON, and how many lines are none: `not_json`, or `half_line` for a torn last one."""
    values: list[Any] = []
    counted: Counter[str] = Counter()
    every = list(lines(text))
    for index, line in enumerate(every):
        try:
            values.append(decode(line))
        except NotJson:
            counted["half_line" if index == len(every) - 1 and not text.endswith("\n") else "not_json"] += 1
    return values, counted


def scrubbed(value: Any) -> Any:
    """A JSON value with each lone surrogate in its texts, which no encoding can carry, as U+FFFD.

    Raises:
        RecursionError: it is nested too deeply.
    """
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, list):
        return [scrubbed(item) for item in value]
    if isinstance(value, dict):
        return {without_surrogates(str(key)): scrubbed(item) for key, item in value.items()}
    return value


def without_surrogates(text: str) -> str:
    """As `scrubbed`, of one text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def lines(text: str) -> Iterator[str]:
    """Lines that are not blank. Only a line feed ends one: JSON strings may hold Unicode's other line ends."""
    return (line for line in text.split("\n") if line and not line.isspace())


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


_FINITE = json.JSONDecoder(parse_constant=_refuse)
_TOLERANT = json.JSONDecoder(parse_constant=lambda _name: None)
