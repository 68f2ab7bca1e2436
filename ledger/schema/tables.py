"""The ledger's tables, and values as its columns hold them. `tables.toml` declares the columns and the indices.

Two conventions keep every query of an event's life indexed and cheap:

- A row of `events` is *open* (ready, claimed or waiting) exactly while `due_at` is set: when it became ready,
  when its claim ends at the latest, or when its next attempt is due. The partial indices on open rows hold nothing
  else, so their cost follows the work in hand and not the history.
- `seq` grows in commit order within a run, because whatever inserts an event holds the run's row first.

Moments are seconds since the epoch (UTC). Money is whole nano-USD and time whole microseconds: sums of floats would
drift across ceilings.

In `tables.toml` a key names one column or several, `*` stands for each unit of work, and the value is the type, marks
(`key`, `null`, `unique`) and the default. A column is NOT NULL unless it is marked `null`.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Dialect,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    and_,
    bindparam,
    false,
    literal_column,
    or_,
    text,
    tuple_,
)
from sqlalchemy.types import TypeDecorator

from sluice.contracts.errors import InvalidInput

UNITS = ("nanousd", "pages", "bytes", "tokens", "microseconds")
"""Units of work: the suffixes of the columns that hold ceilings, reservations and spend."""
AnyRow = Any
"""A row whose columns are read by name."""


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
    earliest, last = position_of("before", position, "the `position` of the last one that was listed")
    return tuple_(seen, name) < tuple_(bindparam(None, earliest), bindparam(None, last))


def position_of(field: str, position: str, remedy: str) -> tuple[float, str]:
    """Return the moment and the name of a position. Raises `InvalidInput`, naming `field`, if it is none."""
    seconds, _, name = position.partition("-")
    try:
        found = float(seconds)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise InvalidInput(field, f"{position!r} is no position", remedy)
    return found, name


def conditions_on(
    equal: Mapping[ColumnElement[Any], str | None], corpus: ColumnElement[Any], corpora: Iterable[str] | None
) -> list[ColumnElement[bool]]:
    """Return conditions: each column has its value, if not None, and the corpus is among `corpora`, if not None."""
    found = [column == value for column, value in equal.items() if value is not None]
    if corpora is not None:
        found.append(or_(false(), *(corpus == name for name in corpora)))
    return found


_ROW_ID = BigInteger().with_variant(Integer, "sqlite")
"""An integer row number that the database assigns."""
_TYPES: dict[str, tuple[Any, str | None]] = {
    "text": (Text, None),
    "free_text": (FreeText, None),
    "number": (Float, None),
    "integer": (Integer, None),
    "big": (BigInteger, None),
    "count": (BigInteger, "0"),
    "flag": (Integer, "0"),
    "bytes": (LargeBinary, None),
    "row_id": (_ROW_ID, None),
}
"""The type and the default of each word in `tables.toml`."""

_BY_KEY = ("attempts", "stage_minutes", "graph_edges")
"""Tables whose rows SQLite stores in the order of their key, without a row number: one tree to write to, not two."""

VACUUMED = {
    name: {"autovacuum_vacuum_scale_factor": "0.01", "autovacuum_analyze_scale_factor": "0.02"}
    for name in ("events", "runs")
}
"""PostgreSQL's settings of tables whose rows change often: it would wait until a fifth of a long history did."""

metadata = MetaData()


def _columns(names: str, declared: str) -> Iterator[Column[Any]]:
    kind, *rest = declared.split()
    marks = {"key", "null", "unique"}.intersection(rest)
    column_type, default = _TYPES[kind]
    for given in set(rest) - marks:
        default = given.strip("'")
    for pattern in names.split():
        for unit in UNITS if "*" in pattern else ("",):
            yield Column(
                pattern.replace("*", unit),
                column_type,
                primary_key="key" in marks,
                nullable="null" in marks,
                unique="unique" in marks,
                autoincrement="auto" if kind == "row_id" else False,
                server_default=default,
            )


def _index(name: str, declared: str) -> Index:
    columns, _, condition = declared.partition(" WHERE ")
    names = columns.split()
    is_unique = names[0] == "unique"
    where = text(condition) if condition else None
    return Index(name, *names[is_unique:], unique=is_unique, sqlite_where=where, postgresql_where=where)


def _tables() -> dict[str, Table]:
    declared = tomllib.loads(Path(__file__).with_name("tables.toml").read_text("utf-8"))
    for name, columns in declared.items():
        indices = columns.pop("indices", {})
        parts = (column for names, kind in columns.items() for column in _columns(names, kind))
        made = (_index(*one) for one in indices.items())
        Table(
            name,
            metadata,
            *parts,
            *made,
            implicit_returning=False,
            sqlite_with_rowid=name not in _BY_KEY,
            postgresql_with=VACUUMED.get(name, {}),
        )
    return dict(metadata.tables)


_TABLES = _tables()
versions = _TABLES["schema_version"]
runs = _TABLES["runs"]
events = _TABLES["events"]
worker_beats = _TABLES["worker_beats"]
attempts = _TABLES["attempts"]
stage_minutes = _TABLES["stage_minutes"]
pool_sizes = _TABLES["pool_sizes"]
console_sessions = _TABLES["console_sessions"]
pauses = _TABLES["pauses"]
days = _TABLES["days"]
dead_letters = _TABLES["dead_letters"]
dead_letter_payloads = _TABLES["dead_letter_payloads"]
replays = _TABLES["replays"]
operator_actions = _TABLES["operator_actions"]
leases = _TABLES["leases"]
published = _TABLES["published"]
api_keys = _TABLES["api_keys"]
pages = _TABLES["pages"]
quarantine = _TABLES["quarantine"]
forgotten = _TABLES["forgotten"]
corpora = _TABLES["corpora"]
citations = _TABLES["citations"]
webhooks = _TABLES["webhooks"]
webhook_deliveries = _TABLES["webhook_deliveries"]
schedules = _TABLES["schedules"]
outcomes = _TABLES["outcomes"]
passage_marks = _TABLES["passage_marks"]
flags = _TABLES["flags"]
configurations = _TABLES["configurations"]
defences = _TABLES["defences"]
rollouts = _TABLES["rollouts"]
graph_corpora = _TABLES["graph_corpora"]
graph_documents = _TABLES["graph_documents"]
graph_edges = _TABLES["graph_edges"]

IS_OPEN = events.c.due_at >= 0
"""SQL condition for *open*: a range, so that SQLite prefers the index of open events to that of all of a run."""
IS_READY = events.c.status == literal_column("'ready'")
"""SQL condition for *ready*, as a literal, so that SQLite finds the partial indices to match."""
IS_SUSPECT = and_(IS_READY, events.c.deaths > literal_column("0"))
"""SQL condition for ready events that a worker died on."""
IS_UNCHECKED = citations.c.is_checked == literal_column("0")
"""SQL condition for *unchecked*, as a literal, so that SQLite finds the partial index to match."""
