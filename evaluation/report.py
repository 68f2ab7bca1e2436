"""The one way of a report: its value as JSON on disk, and blocks of Markdown and tables to be read.

A report is one value. `write_report` keeps it and `read_report` reads it again; one function beside the value gives
its blocks, which `to_markdown` makes a page of and the command line prints.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from sluice.contracts.errors import InvalidInput, first_problem
from sluice.disk.durable import replace_file
from sluice.evaluation.run_totals import Interval

SomeReport = TypeVar("SomeReport", bound=BaseModel)
UNKNOWN = "–"
"""Stands for a figure that no run tells."""


class Table(NamedTuple):
    """What is printed: a title, which may be empty, the names of the columns, and rows of text."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


Block = str | Table
"""A paragraph in Markdown, or a table."""


def to_markdown(blocks: Iterable[Block]) -> str:
    """The blocks as a page. A table's title becomes a heading of the second order."""
    return "\n\n".join(block if isinstance(block, str) else "\n".join(_rows(block)) for block in blocks) + "\n"


def _rows(table: Table) -> Iterable[str]:
    if table.title:
        yield from (f"## {table.title}", "")
    for row in (table.columns, ["---"] * len(table.columns), *table.rows):
        yield f"| {' | '.join(row)} |"


def say(interval: Interval | None, form: str = ".3f") -> str:
    """An estimate with the ends of its interval; a dash where there is none."""
    return UNKNOWN if interval is None else say_spread(interval.estimate, interval.low, interval.high, form)


def say_spread(estimate: float | None, low: float | None, high: float | None, form: str) -> str:
    """An estimate with the ends of its interval; nothing where one of them is not known."""
    if estimate is None or low is None or high is None:
        return ""
    return f"{estimate:{form}} ({low:{form}} to {high:{form}})"


def say_number(value: float | None, form: str = ".4g") -> str:
    """A number; a dash where it is not known."""
    return UNKNOWN if value is None else f"{value:{form}}"


def write_report(report: BaseModel, path: Path) -> None:
    """Put the report at the path as JSON, whole or not at all; folders on the way are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, f"{report.model_dump_json(indent=1)}\n".encode())


def read_report(path: Path, kind: type[SomeReport], written_by: str) -> SomeReport:
    """A report of this kind that the command `written_by` wrote.

    Raises:
        InvalidInput: the file cannot be read, or is no such report of this version; names the field.
    """
    try:
        return kind.model_validate_json(path.read_bytes())
    except OSError as error:
        raise InvalidInput(str(path), f"cannot be read: {error.strerror or error}") from error
    except ValidationError as error:
        field, problem = first_problem(error)
        raise InvalidInput(str(path), f"no report: {field}: {problem}", f"`{written_by}` writes them") from error
