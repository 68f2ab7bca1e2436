"""A transaction of the ledger, which runs statements directly on the database driver.

Statements are written in SQLAlchemy Core and compiled once per dialect, then run by the driver's own `execute`.
SQLAlchemy's execution costs some 50 µs a statement and 150 µs a transaction, ten times what SQLite itself
needs, and an event takes a dozen statements.

Promises: a statement means the same on SQLite and PostgreSQL; parameters are bound, never written into the text; each
value is converted by the type of its column. Rows are named tuples.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Dialect, Executable, Table, bindparam, delete, insert, select, update
from sqlalchemy.dialects import sqlite
from sqlalchemy.sql.compiler import SQLCompiler

from sluice.contracts.errors import NotFound

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql

    Insert = sqlite.Insert | postgresql.Insert

Converter = Callable[[Any], Any]

_COPIED_ROWS = 8
"""Rows from which on a copy is quicker than inserts: it takes a round trip more."""
_COMPILED = 512
"""Compiled statements kept per process: the modules' constants, and the latest built for filters."""


@dataclass(slots=True)
class _Compiled:
    """A statement as the driver takes it: its text, and the names, defaults and converters of its parameters."""

    text: str
    positions: tuple[str, ...] | None
    defaults: dict[str, Any]
    converters: dict[str, Converter]
    row: Any = None

    def bind(self, parameters: Mapping[str, Any]) -> Any:
        """Return the parameters in the driver's form: by position for SQLite, by name for PostgreSQL."""
        values = {**self.defaults, **parameters}
        for name, convert in self.converters.items():
            values[name] = convert(values[name])
        return values if self.positions is None else [values[name] for name in self.positions]


class Result:
    """The rows of a statement, all of them fetched, and how many it touched."""

    __slots__ = ("_make", "_rows", "rowcount")

    def __init__(self, cursor: Any, compiled: _Compiled) -> None:
        self._rows: Sequence[Any] = () if cursor.description is None else cursor.fetchall()
        self.rowcount: int = cursor.rowcount
        if compiled.row is None and self._rows:
            compiled.row = _row_of(tuple(column[0] for column in cursor.description))
        self._make: Callable[[Sequence[Any]], Any] = compiled.row

    def __iter__(self) -> Iterator[Any]:
        return iter(self.all())

    def all(self) -> list[Any]:
        """Return every row."""
        return [self._make(row) for row in self._rows]

    def first(self) -> Any | None:
        """Return the first row, or None."""
        return self._make(self._rows[0]) if self._rows else None

    def one(self) -> Any:
        """Return the single row that must exist. Raises `LookupError` if there is no row."""
        row = self.first()
        if row is None:
            raise LookupError("a row that must be in the ledger is not there")
        return row

    def found(self, what: str) -> Any:
        """Return the first row. Raises `NotFound` if there is none; the message names `what`."""
        row = self.first()
        if row is None:
            raise NotFound(f"no {what}")
        return row

    def scalars(self) -> list[Any]:
        """Return the first column of every row."""
        return [row[0] for row in self._rows]

    def scalar(self) -> Any | None:
        """Return the first column of the first row, or None."""
        return self._rows[0][0] if self._rows else None


class Transaction:
    """A transaction that has begun. The code that opened it commits or rolls back."""

    __slots__ = ("_dialect", "_driver", "is_synced_later")

    def __init__(self, driver: Any, dialect: Dialect) -> None:
        """`driver` is a connection of sqlite3 or psycopg."""
        self.is_synced_later = False
        """Whether the commit may stay unsynced until a later one of this process; nobody learns of it before."""
        self._driver = driver
        self._dialect = dialect

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self._dialect.name

    def execute(self, statement: Executable, parameters: Mapping[str, Any] = {}) -> Result:
        """Run one statement."""
        return self._run(_compile(statement, self._dialect), parameters)

    def execute_each(self, statement: Executable, parameters: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Run a statement that returns at most one row, once for each of `parameters`; return the rows in order."""
        return self._each(_compile(statement, self._dialect), parameters)

    def select(self, table: Table, key: Mapping[str, Any]) -> Result:
        """Select the rows whose columns equal the values in `key`."""
        return self.execute(_select(table, tuple(key)), _named("of", key))

    def update(self, table: Table, key: Mapping[str, Any], values: Mapping[str, Any]) -> int:
        """Set columns of the rows that match `key`; return how many."""
        parameters = {**_named("of", key), **_named("new", values)}
        return self.execute(_update(table, tuple(key), tuple(values)), parameters).rowcount

    def delete(self, table: Table, key: Mapping[str, Any]) -> int:
        """Delete the rows that match `key`; return how many."""
        return self.execute(_delete(table, tuple(key)), _named("of", key)).rowcount

    def insert(self, statement: Executable | Table, row: Mapping[str, Any]) -> Result:
        """Insert `row` into a table, or run an insert statement without values with those of `row`, by column."""
        if isinstance(statement, Table):
            statement = _insert(statement)
        return self._run(_compile(statement, self._dialect, tuple(row)), row)

    def insert_once(self, table: Table, row: Mapping[str, Any]) -> bool:
        """Insert `row`; return False when one of its unique keys exists already."""
        return self.insert(_insert_once(self.dialect, table), row).rowcount == 1

    def put(self, table: Table, row: Mapping[str, Any], key: tuple[str, ...], changed: tuple[str, ...]) -> None:
        """Insert `row`; where a row with its `key` exists, update that row's columns `changed`."""
        self.insert(_put(self.dialect, table, key, changed), row)

    def insert_each(self, statement: Executable, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Run an insert for every row, all with the columns of the first; return the inserted rows in order."""
        return self._each(_compile(statement, self._dialect, tuple(rows[0])), rows)

    def insert_many(self, statement: Executable | Table, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert rows, all with the columns of the first, or run an insert that returns nothing for each, in one batch.

        Many rows of a table are copied on PostgreSQL: of 100 events in a third of the time.
        """
        names = tuple(rows[0])
        insert_one = _insert(statement) if isinstance(statement, Table) else statement
        compiled, cursor = _compile(insert_one, self._dialect, names), self._driver.cursor()
        bound = [compiled.bind(row) for row in rows]
        if isinstance(statement, Table) and self.dialect == "postgresql" and len(rows) >= _COPIED_ROWS:
            with cursor.copy(f"COPY {statement.name} ({', '.join(names)}) FROM STDIN") as copy:
                for row in bound:
                    copy.write_row([row[name] for name in names])
        else:
            cursor.executemany(compiled.text, bound)

    def _run(self, compiled: _Compiled, parameters: Mapping[str, Any]) -> Result:
        return Result(self._driver.execute(compiled.text, compiled.bind(parameters)), compiled)

    def _each(self, compiled: _Compiled, parameters: Sequence[Mapping[str, Any]]) -> list[Any]:
        if self.dialect == "sqlite" or len(parameters) <= 1:
            found = [self._run(compiled, one).first() for one in parameters]
            return [row for row in found if row is not None]
        return self._pipelined(compiled, parameters)

    def _pipelined(self, compiled: _Compiled, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Send all rows at once: over a network a round trip for each would cost more than the work."""
        found: list[Any] = []
        cursor = self._driver.cursor()
        cursor.executemany(compiled.text, [compiled.bind(row) for row in rows], returning=True)
        while True:
            if cursor.description is not None:
                found += Result(cursor, compiled).all()
            if not cursor.nextset():
                return found


def _named(prefix: str, values: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{prefix}_{name}": value for name, value in values.items()}


def _is(table: Table, key: tuple[str, ...]) -> list[ColumnElement[bool]]:
    return [table.c[name] == bindparam(f"of_{name}") for name in key]


@cache
def _insert(table: Table) -> Executable:
    return insert(table)


@cache
def _select(table: Table, key: tuple[str, ...]) -> Executable:
    return select(table).where(*_is(table, key))


@cache
def _update(table: Table, key: tuple[str, ...], changed: tuple[str, ...]) -> Executable:
    values: dict[str, Any] = {name: bindparam(f"new_{name}") for name in changed}
    return update(table).where(*_is(table, key)).values(values)


@cache
def _delete(table: Table, key: tuple[str, ...]) -> Executable:
    return delete(table).where(*_is(table, key))


def insert_into(dialect: str, table: Table) -> Insert:
    """Return the dialect's own insert, which supports `ON CONFLICT`."""
    if dialect != "postgresql":
        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql  # here: it takes as long to import as the rest of the ledger

    return postgresql.insert(table)


@cache
def _insert_once(dialect: str, table: Table) -> Insert:
    return insert_into(dialect, table).on_conflict_do_nothing()


@cache
def _put(dialect: str, table: Table, key: tuple[str, ...], changed: tuple[str, ...]) -> Insert:
    statement = insert_into(dialect, table)
    values = {name: statement.excluded[name] for name in changed}
    return statement.on_conflict_do_update(index_elements=key, set_=values)


def _row_of(names: tuple[str, ...]) -> Callable[[Sequence[Any]], Any]:
    make: Callable[[Sequence[Any]], Any] = namedtuple("Row", names, rename=True)._make  # type: ignore[attr-defined]
    return make


@lru_cache(maxsize=_COMPILED)
def _compile(statement: Any, dialect: Dialect, columns: tuple[str, ...] | None = None) -> _Compiled:
    if columns is not None:
        statement = statement.inline()  # the database numbers the rows by itself
    compiled: SQLCompiler = statement.compile(dialect=dialect, column_keys=columns)
    converters: dict[str, Converter] = {}
    for parameter, name in compiled.bind_names.items():
        convert = parameter.type.dialect_impl(dialect).bind_processor(dialect)
        if convert is not None:
            converters[name] = convert
    text, defaults = compiled.string, dict(compiled.params)
    positions: Sequence[str] | None = compiled.positiontup
    if compiled.post_compile_params:  # the members of an IN, which are known with the statement
        expanded = compiled.construct_expanded_state(defaults)
        text, positions, defaults = expanded.statement, expanded.positiontup, dict(expanded.parameters)
    return _Compiled(text, None if positions is None else tuple(positions), defaults, converters)
