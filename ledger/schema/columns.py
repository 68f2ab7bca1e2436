"""Columns that many of the ledger's tables share: free text, counts, and amounts of work per unit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import BigInteger, Column, ColumnElement, Dialect, Integer, Text, bindparam, false, or_, tuple_
from sqlalchemy.types import TypeDecorator

from sluice.contracts.errors import InvalidInput

UNITS = ("nanousd", "pages", "bytes", "tokens", "microseconds")
"""Units of work: the suffixes of the columns that hold ceilings, reservations and spend."""
ROW_ID = BigInteger().with_variant(Integer, "sqlite")
"""An integer row number that the database assigns."""


class FreeText(TypeDecorator[str]):
    """Text from outside: PostgreSQL takes neither NUL nor half of a surrogate pair, so both are replaced."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Return the text in a form that every database accepts."""
        return None if value is None else storable(value)


def storable(text: str) -> str:
    """Return `text` as a column of free text stores it."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()


def moment(seconds: float) -> datetime:
    """Convert a column's seconds since the epoch to a UTC datetime."""
    return datetime.fromtimestamp(seconds, UTC)


def perhaps_moment(seconds: float | None) -> datetime | None:
    """Convert a nullable column's seconds since the epoch to a UTC datetime."""
    return None if seconds is None else moment(seconds)


def position(seconds: float, name: str) -> str:
    """Encode a position in a listing by moment and name; `behind` continues after it, whatever was added meanwhile."""
    return f"{seconds!r}-{name}"


def behind(seen: ColumnElement[float], name: ColumnElement[str], position: str) -> ColumnElement[bool]:
    """Return the condition of rows after a position, latest first. Raises `InvalidInput` if it is no position."""
    seconds, _, last = position.partition("-")
    try:
        earliest = float(seconds)
    except ValueError:
        earliest = math.nan
    if not math.isfinite(earliest):
        raise InvalidInput("before", f"{position!r} is no position", "the `position` of the last one that was listed")
    return tuple_(seen, name) < tuple_(bindparam(None, earliest), bindparam(None, last))


def conditions_on(
    equal: Mapping[ColumnElement[Any], str | None], corpus: ColumnElement[Any], corpora: Iterable[str] | None
) -> list[ColumnElement[bool]]:
    """Return conditions: each column has its value, if not None, and the corpus is among `corpora`, if not None."""
    found = [column == value for column, value in equal.items() if value is not None]
    if corpora is not None:
        found.append(or_(false(), *(corpus == name for name in corpora)))
    return found


def required(kind: Any, *names: str) -> list[Column[Any]]:
    """Return columns of one type that are NOT NULL."""
    return [Column(name, kind, nullable=False) for name in names]


def optional(kind: Any, *names: str) -> list[Column[Any]]:
    """Return columns of one type that may be NULL."""
    return [Column(name, kind) for name in names]


def counter(name: str) -> Column[Any]:
    """Return a column for a count that begins at zero."""
    return Column(name, BigInteger, nullable=False, server_default="0")


def counters(*names: str) -> list[Column[Any]]:
    """Return a column for each count."""
    return [counter(name) for name in names]


def amounts(prefix: str, *, kept: bool = False) -> list[Column[Any]]:
    """Return a column for each unit of work. `kept`: the insert must give the values; else they begin at zero."""
    names = [f"{prefix}_{unit}" for unit in UNITS]
    return [Column(name, BigInteger, nullable=False) if kept else counter(name) for name in names]
