"""How a command is made: what it works with, the options that many have, and how its answer is printed.

A command is a function of what it works with, a client of the running instance (`over_http`) or the context of the data
directory (`on_disk`), and of its options. It returns what it has to say as a `Shown`; `--json` prints the value of it,
else it is drawn. Errors become a message and an exit code.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Annotated, Any, NamedTuple, get_type_hints

import typer

from sluice.cli.connection import connected, wrong
from sluice.cli.output import AsJson, console, marked, plain_text, print_json, print_table
from sluice_client.errors import Conflict

Note = Annotated[str, typer.Option(help="Why; it is recorded.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
Limit = Annotated[int, typer.Option(min=1, max=1_000, help="How many at most.")]
Before = Annotated[str | None, typer.Option(help="Go on behind this position.")]
Corpora = Annotated[list[str] | None, typer.Option("--corpus", "-c", help="Only of this corpus. Repeatable.")]

Column = str | tuple[str, str | Callable[[Any], object]]
"""The name of a field, which is its heading too; or a heading, and a field or what to make of the row."""
_AGO = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
ACTIONS: tuple[Column, ...] = ("at", "operator", "action", "note")
"""The columns of what operators did."""


class Shown(NamedTuple):
    """What a command has to say: the value that `--json` prints, and how it is drawn: a sentence, or by a call.

    Where it is not good, the command leaves with 1.
    """

    value: Any
    drawn: str | Callable[[], object]
    is_good: bool = True


def over_http(command: Callable[..., Shown]) -> Callable[..., None]:
    """The command with `--json`; its first parameter is a client of the running instance."""
    return _opening(connected, command)


def on_disk(command: Callable[..., Shown]) -> Callable[..., None]:
    """The command with `--json`; its first parameter is the context of the configured data directory."""

    def session(**facts: Any) -> AbstractContextManager[Any]:
        from sluice.cli.session import session as opened  # with it comes the server: other commands do without

        return opened(**facts)

    return _opening(session, command)


def _opening(opened: Callable[..., AbstractContextManager[Any]], command: Callable[..., Shown]) -> Callable[..., None]:
    _first, *own = inspect.signature(command).parameters.values()
    hints = get_type_hints(command, localns={"SluiceClient": object, "Context": object}, include_extras=True)
    groups = {one.name: hints[one.name] for one in own if getattr(hints[one.name], "__dataclass_fields__", None)}

    @wraps(command)
    def run(**given: Any) -> None:
        as_json = given["as_json"]
        for name, group in groups.items():
            given[name] = group(**{field: given.pop(field) for field in group.__dataclass_fields__})
        if "as_json" not in hints:
            given.pop("as_json")
        with opened(as_json=as_json, **{name: given.pop(name) for name in ("operator",) if name in given}) as subject:
            print_shown(command(subject, **given), as_json=as_json)

    parameters: list[inspect.Parameter] = []
    for one in own:
        group = groups.get(one.name)
        parameters += (
            inspect.signature(group, eval_str=True).parameters.values()
            if group
            else [one.replace(annotation=hints[one.name])]
        )
    last = inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=AsJson)
    flat = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters if one.name != "as_json"]
    vars(run)["__signature__"] = inspect.Signature([*flat, last])
    run.__annotations__ = {one.name: one.annotation for one in (*flat, last)}
    return run


def print_shown(shown: Shown, *, as_json: bool) -> None:
    """Print what a command has to say; leave with 1 where it is not good."""
    if as_json:
        print_json(shown.value)
    elif callable(shown.drawn):
        shown.drawn()
    else:
        say(shown.drawn)
    if not shown.is_good:
        raise typer.Exit(1)


def say(text: object) -> None:
    """Print a sentence: one line, however wide the terminal, without colours of its own."""
    console.print(plain_text(str(text)), markup=False, highlight=False, soft_wrap=True)


def table(title: str, found: Sequence[Any], *columns: Column, limit: int | None = None) -> Shown:
    """A row for each of `found`. Where there are `limit`, it says how to go on behind the last one's position."""

    def draw() -> None:
        print_rows(title, found, *columns)
        if len(found) == limit:
            say(f"more: --before {found[-1].position}")

    return Shown(found, draw)


def print_rows(title: str, found: Iterable[Any], *columns: Column) -> None:
    """Print a table of records by its columns."""
    pairs = [(one.replace("_", " "), one) if isinstance(one, str) else one for one in columns]
    headings = [heading for heading, _ in pairs]
    rows = [[getattr(row, get) if isinstance(get, str) else get(row) for _, get in pairs] for row in found]
    print_table(title, headings, rows)


def print_fields(record: Any, left_out: frozenset[str]) -> None:
    """Print the fields of a record, one a line."""
    for name in dict(record):
        if name not in left_out:
            value = getattr(record, name)
            console.print(f"[bold]{name}[/] {marked('–' if value is None else value)}", highlight=False)


def chosen(**verbs: bool) -> str | None:
    """The one of several options that was given, None for none.

    Raises:
        InvalidInput: two were.
    """
    names = [name for name, is_said in verbs.items() if is_said]
    if len(names) > 1:
        raise wrong(names[1], f"contradicts --{names[0]}", "give one of them")
    return names[0] if names else None


def needed(name: str, value: str | None, verb: str) -> str:
    """The argument that a verb needs.

    Raises:
        InvalidInput: it was not given.
    """
    if value is None:
        raise wrong(name, "is missing", f"name the one to {verb}")
    return value


def moment(told: str) -> datetime:
    """A moment as people say it: `2h` (ago; s, m, h, d, w), or ISO 8601, in UTC where it names no zone."""
    if ago := _AGO.fullmatch(told):
        return datetime.now(UTC) - timedelta(seconds=float(ago[1]) * _SECONDS[ago[2]])
    try:
        at = datetime.fromisoformat(told)
    except ValueError as error:
        raise typer.BadParameter(f"{told!r} is no moment: say 2h or 2026-01-31T12:00") from error
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def ask_first(question: str, *, yes: bool) -> None:
    """Ask the operator, unless `yes` says that he agrees.

    Raises:
        InvalidInput: there is nobody to ask.
        Conflict: he does not agree.
    """
    if yes:
        return
    try:
        agreed = typer.confirm(question, err=True)
    except typer.Abort as error:
        raise wrong("yes", "there is nobody to ask", "give --yes") from error
    if not agreed:
        raise Conflict("nothing was removed")
