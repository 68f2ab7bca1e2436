"""The common form of reports: a value stored as JSON, and blocks of Markdown and tables for readers.

`write_report` stores a report and `read_report` reads it. One function beside each kind of report returns its blocks,
which `to_markdown` turns into a page and the command line prints.
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
"""Stands for an unknown figure."""


class Table(NamedTuple):
    """A printed table: a title, which may be empty, the names of the columns, and rows of text."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


Block = str | Table
"""A paragraph in Markdown, or a table."""


def to_markdown(blocks: Iterable[Block]) -> str:
    """Return the blocks as a page. A table's title becomes a second-level heading."""
    return "\n\n".join(block if isinstance(block, str) else "\n".join(_rows(block)) for block in blocks) + "\n"


def _rows(table: Table) -> Iterable[str]:
    if table.title:
        yield from (f"## {table.title}", "")
    for row in (table.columns, ["---"] * len(table.columns), *table.rows):
        yield f"| {' | '.join(row)} |"


def say(interval: Interval | None, form: str = ".3f") -> str:
    """Format an estimate with the ends of its interval; a dash without one."""
    return UNKNOWN if interval is None else say_spread(interval.estimate, interval.low, interval.high, form)


def say_spread(estimate: float | None, low: float | None, high: float | None, form: str) -> str:
    """Format an estimate with the ends of its interval; empty if one of them is unknown."""
    if estimate is None or low is None or high is None:
        return ""
    return f"{estimate:{form}} ({low:{form}} to {high:{form}})"


def say_number(value: float | None, form: str = ".4g") -> str:
    """Format a number; a dash if it is unknown."""
    return UNKNOWN if value is None else f"{value:{form}}"


def write_report(report: BaseModel, path: Path) -> None:
    """Write the report to the path as JSON, atomically; creates missing folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, f"{report.model_dump_json(indent=1)}\n".encode())


def read_report(path: Path, kind: type[SomeReport], written_by: str) -> SomeReport:
    """Return a report of this kind that the command `written_by` wrote.

    Raises `InvalidInput`, which names the field, if the file cannot be read or is no such report of this version.
    """
    try:
        return kind.model_validate_json(path.read_bytes())
    except OSError as error:
        raise InvalidInput(str(path), f"cannot be read: {error.strerror or error}") from error
    except ValidationError as error:
        field, problem = first_problem(error)
        raise InvalidInput(str(path), f"no report: {field}: {problem}", f"`{written_by}` writes them") from error
