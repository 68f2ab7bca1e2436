"""JSON of other people's making: whatever cannot be decoded (half lines, hostile depth) is one kind of error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


class NotJson(ValueError):
    """A text is no JSON."""


def decode(text: str, *, finite: bool = False) -> Any:
    """The value of a JSON text. NaN and the infinities, which JSON does not know, become None; an error if `finite`.

    Raises:
        NotJson: it is no JSON, is nested deeper than the decoder goes, or has a number of thousands of digits.
    """
    try:
        return (_FINITE if finite else _TOLERANT).decode(text)
    except (ValueError, RecursionError) as error:
        raise NotJson(str(error) or type(error).__name__) from error


def lines(text: str) -> Iterator[str]:
    """Lines that are not blank. Only a line feed ends one: JSON strings may hold Unicode's other line ends."""
    return (line for line in text.split("\n") if line and not line.isspace())


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


_FINITE = json.JSONDecoder(parse_constant=_refuse)
_TOLERANT = json.JSONDecoder(parse_constant=lambda _name: None)
