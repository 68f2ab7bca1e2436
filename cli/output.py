"""Prints results: tables for people, one JSON value for programs (`--json`), errors on stderr.

Texts of pages and of agents are printed without their control characters: a page cannot colour, clear or retitle
the reader's terminal.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.measure import Measurement

if TYPE_CHECKING:
    from sluice.workers.settings import Settings

console = Console(highlight=False, soft_wrap=True)
error_console = Console(stderr=True, highlight=False)

EXIT_CODES = {"invalid_input": 2, "not_found": 3, "forbidden": 4, "policy_refused": 4, "conflict": 5}
EXIT_CODES |= {"unavailable": 6, "overloaded": 7, "error": 1}
"""Exit codes by the code of an error, or of its nearest base class that has one."""

INTERRUPTED = 130
_PIPED_COLUMNS = 240
"""Width of drawings that have none of their own, such as the bars of a waterfall."""
_MOST_COLUMNS = 100_000

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def print_json(value: Any, indent: int | None = 2) -> None:
    """Print one JSON value; on one line if `indent` is None."""
    sys.stdout.write(json.dumps(_plain(value), ensure_ascii=False, indent=indent, default=str) + "\n")
    sys.stdout.flush()


def say(text: object) -> None:
    """Print a sentence: one line, however wide the terminal, without colours of its own."""
    console.print(plain_text(str(text)), markup=False)


def warn(text: object) -> None:
    """Print a sentence to stderr, in the same way."""
    error_console.print(plain_text(str(text)), markup=False, soft_wrap=True)


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table, or a line that names it empty."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, title_justify="left", box=None, header_style="bold", pad_edge=False)
    for position, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=position == 0)  # the first names the row: it can be copied
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    print_wide(table if table.row_count else f"{plain_text(title)}: none")


def print_wide(drawing: RenderableType) -> None:
    """Print a drawing with columns. Into a file or a pipe each row is one line, so that ids can be found and copied."""
    target = console if console.is_terminal else Console(width=_whole_width(drawing))
    target.print(drawing, markup=False, highlight=False, soft_wrap=False)


def _whole_width(drawing: RenderableType) -> int:
    """Return the columns that the drawing takes when nothing is folded."""
    options = console.options.update(max_width=_MOST_COLUMNS)
    return max(_PIPED_COLUMNS, Measurement.get(console, options, drawing).maximum)


def plain_text(text: str) -> str:
    """Return the text without control characters other than tab and line feed."""
    return _CONTROL.sub("�", text)


def marked(text: object) -> str:
    """Return the text escaped for rich's markup."""
    return escape(plain_text(str(text)))


def checked_corpus(name: str) -> str:
    """Return the name. Raises `InvalidInput` if no corpus can have it."""
    from sluice.contracts.base import CORPUS_NAME
    from sluice.contracts.errors import InvalidInput

    if not CORPUS_NAME.fullmatch(name):
        raise InvalidInput("corpus", f"{name!r} is no corpus name", "lower-case letters, digits, - _ .")
    return name


def configured() -> Settings:
    """Return the settings of this command, and name `SLUICE_*` variables without effect on stderr. Raises
    `InvalidSetting`, naming each, if some settings cannot be used."""
    from sluice.workers.settings import load_settings, stray_variables

    settings = load_settings()
    for told in stray_variables():
        error_console.print(f"[yellow]warning[/] {marked(told)}", soft_wrap=True)
    return settings


@contextmanager
def errors_told(*, as_json: bool = False) -> Iterator[None]:
    """Turn errors raised inside into a message and an exit code, never a traceback."""
    try:
        yield
    except OSError as error:
        fail(error, as_json=as_json)
    except Exception as error:
        if not any(kind.__name__ == "SluiceError" for kind in type(error).__mro__):
            raise
        fail(error, as_json=as_json)


def fail(error: Exception, *, as_json: bool = False) -> NoReturn:
    """Print an error and leave with its exit code. Takes errors of `contracts.errors`, of the client, or `OSError`. The
    first two trees have the same codes, and neither is imported here: many commands need the client alone."""
    codes = [str(vars(kind).get("code")) for kind in type(error).__mro__]
    code = next((EXIT_CODES[one] for one in codes if one in EXIT_CODES), EXIT_CODES["unavailable"])
    if as_json:
        name = getattr(error, "code", "unavailable")
        told = {"error": name, "message": str(error), "field": getattr(error, "field", None)}
        if name == "overloaded":
            told["retry_after_seconds"] = getattr(error, "retry_after_seconds", 1.0)
        print_json(told)
    else:
        error_console.print(f"[red]error[/] {marked(error)}", soft_wrap=True)
    raise typer.Exit(code)


def _plain(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, datetime):
        return value.isoformat()
    return value


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, datetime):
        return value.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, list | tuple):
        return plain_text(", ".join(map(str, value))) or "–"
    return plain_text(str(value))
