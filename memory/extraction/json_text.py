"""Decodes JSON in agents' outputs: without lone surrogates, and no deeper than the decoder goes."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
"""An escape that may stand for half a character."""


class NotJson(ValueError):
    """The text is not JSON."""


def decode(text: str, *, finite: bool = False) -> Any:
    """Return the value of a JSON text, without lone surrogates.

    NaN and the infinities, which JSON does not know, become None; they are an error if `finite`. Raises `NotJson`, also
    for a text nested deeper than the decoder goes, or with a number of thousands of digits.
    """
    try:
        value = (_FINITE if finite else _TOLERANT).decode(text)
        return scrubbed(value) if _SURROGATE.search(text) else value
    except (ValueError, RecursionError) as error:
        raise NotJson(str(error) or type(error).__name__) from error


def decoded(value: Any) -> Any:
    """Return the value of a JSON text, None for a text that is not JSON; any other value unchanged."""
    try:
        return decode(value) if isinstance(value, str) else value
    except NotJson:
        return None


def decode_lines(text: str) -> tuple[list[Any], Counter[str]]:
    """Return the values of JSON lines, and the count of other lines: `not_json`, or `half_line` for a torn last one."""
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
    """Return a JSON value with each lone surrogate in its texts, which no encoding can carry, as U+FFFD.

    Raises `RecursionError` if the value is nested too deeply.
    """
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, list):
        return [scrubbed(item) for item in value]
    if isinstance(value, dict):
        return {without_surrogates(str(key)): scrubbed(item) for key, item in value.items()}
    return value


def without_surrogates(text: str) -> str:
    """Return one text with its lone surrogates replaced, as `scrubbed` does."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def lines(text: str) -> Iterator[str]:
    """Yield the non-blank lines. Only a line feed ends a line: JSON strings may hold Unicode's other line ends."""
    return (line for line in text.split("\n") if line and not line.isspace())


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


_FINITE = json.JSONDecoder(parse_constant=_refuse)
_TOLERANT = json.JSONDecoder(parse_constant=lambda _name: None)
