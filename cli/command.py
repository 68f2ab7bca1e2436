"""Decorators that make commands: they open a command's subject, declare its options and print its answer.

A command is a function of its subject and its options. The subject is a client of the running instance
(`over_http`), the context of the data directory (`on_disk`), or missing (`alone`). A command returns its answer as
a `Shown`; `--json` prints the answer's value, otherwise it is drawn. Errors become a message and an exit code.

`commands.toml` has each option's help, other names and bounds, by command and parameter. The values that options accept
are listed here, so that commands need not import the server's types.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Any, Literal, NamedTuple, get_type_hints

import typer

from sluice.cli.connection import connected, wrong
from sluice.cli.output import INTERRUPTED, console, errors_told, marked, print_json, print_table, say
from sluice_client.errors import Conflict

Stage = Literal["gate", "search", "crawl", "chunk", "embed", "index", "query", "graph"]
Plan = Literal["skip", "retrieve", "search", "full_loop"]
Strategy = Literal["bm25", "vector", "hybrid", "hybrid_graph"]
Render = Literal["auto", "always", "never"]
RunKind = Literal[
    "gate", "documents", "crawl", "scrape", "map", "deletion", "export", "import", "control", "memory", "graph"
]
DeadLetterReason = Literal["exhausted", "poison", "malformed", "unroutable", "policy", "timeout", "discarded"]
DeadLetterStatus = Literal["parked", "replayed", "purged"]
QuarantineState = Literal["held", "released", "purged"]
FeedbackOutcome = Literal["success", "failure", "partial", "unknown"]
PassageReason = Literal["wrong", "harmful", "outdated", "off_topic", "attack", "duplicate"]
SignalName = Literal["task_satisfaction", "tool_success", "user_acceptance", "benchmark"]
DefenceName = Literal["satisfaction", "freshness", "latency", "cost"]
FLAG_VARIABLES = {
    "gate_weights": "FEATURE_GATE_WEIGHTS",
    "search": "FEATURE_SEARCH",
    "crawl": "FEATURE_CRAWL",
    "hybrid": "FEATURE_HYBRID_RETRIEVAL",
    "rerank": "FEATURE_RERANK",
    "learned_gate": "FEATURE_LEARNED_GATE",
    "ragas": "FEATURE_RAGAS_EVAL",
    "graph": "FEATURE_GRAPH",
    "memory": "FEATURE_MEMORY",
}
"""The flags, and the environment variable of each."""


Column = str | tuple[str, str | Callable[[Any], object]]
"""Names of fields, each its own heading unless it has one, as in `by=operator`; or one heading with a field, a format
of the row, or a function of the row."""
_AGO = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
ACTIONS = "at operator action note"
"""The columns of operators' actions."""


class Shown(NamedTuple):
    """A command's answer and exit code: a value for `--json`, and for people a sentence or a function that draws it."""

    value: Any
    drawn: str | Callable[[], object]
    exit_code: int = 0

    def draw(self) -> None:
        """Print the answer for people."""
        self.drawn() if callable(self.drawn) else say(self.drawn)


def over_http(command: Callable[..., Shown]) -> Callable[..., None]:
    """Add `--json` to a command; its first parameter is a client of the running instance."""
    return opening(connected, command)


def on_disk(command: Callable[..., Shown | None]) -> Callable[..., None]:
    """Add `--json` to a command; its first parameter is the context of the configured data directory."""

    def session(*, as_json: bool) -> AbstractContextManager[Any]:
        from sluice.cli.session import session as opened  # this imports the server, which other commands do without

        return opened(as_json=as_json)

    return opening(session, command)


def alone(command: Callable[..., Shown | None]) -> Callable[..., None]:
    """Add `--json` to a command that has only its options."""
    return opening(errors_told, command, has_subject=False)


def opening(
    opened: Callable[..., AbstractContextManager[Any]],
    command: Callable[..., Shown | None],
    *,
    has_subject: bool = True,
) -> Callable[..., None]:
    """Add `--json` to a command and run it inside `opened`, which yields its first parameter if `has_subject`. The
    positional parameters of `opened` become options of the command; its keyword-only ones only if the command names
    them. A parameter whose type is a dataclass stands for the dataclass's fields as options."""
    local = dict.fromkeys(("SluiceClient", "Context", "MemoryPort"), object)
    hints = get_type_hints(command, localns=local, include_extras=True)
    own = [*inspect.signature(command).parameters.values()][1 if has_subject else 0 :]
    own = [one.replace(annotation=hints[one.name]) for one in own]
    openers = [one for one in inspect.signature(opened, eval_str=True).parameters.values() if one.name != "as_json"]
    groups = {one.name: one.annotation for one in own if hasattr(one.annotation, "__dataclass_fields__")}

    @wraps(command)
    def run(**given: Any) -> None:
        as_json = given["as_json"]
        for name, group in groups.items():
            given[name] = group(**{field: given.pop(field) for field in group.__dataclass_fields__})
        if "as_json" not in hints:
            given.pop("as_json")
        needed = {one.name: given[one.name] for one in openers if one.name in given}
        for name in needed.keys() - hints.keys():
            given.pop(name)
        with opened(as_json=as_json, **needed) as subject:
            shown = command(*([subject] if has_subject else ()), **given)
            if shown is not None:
                print_shown(shown, as_json=as_json)

    own += [one for one in openers if one.kind is one.POSITIONAL_OR_KEYWORD]
    parameters: dict[str, inspect.Parameter] = {}
    for one in own:
        fields = (
            inspect.signature(groups[one.name], eval_str=True).parameters if one.name in groups else {one.name: one}
        )
        parameters |= fields
    named = inspect.Parameter.KEYWORD_ONLY
    parameters["as_json"] = inspect.Parameter("as_json", named, default=False, annotation=bool)
    flat = [one.replace(kind=named) for one in parameters.values()]
    vars(run)["__signature__"] = inspect.Signature(flat)
    return run


def print_shown(shown: Shown, *, as_json: bool) -> None:
    """Print a command's answer; leave with its exit code."""
    print_json(shown.value) if as_json else shown.draw()
    if shown.exit_code:
        raise typer.Exit(shown.exit_code)


def table(title: str, found: Any, *columns: Column) -> Shown:
    """Make a table with a row for each of `found`: a sequence, or a part of a list of the HTTP interface. Where the
    list goes on, it prints the option that shows the next part."""
    rows, cursor = getattr(found, "data", found), getattr(found, "next_cursor", None)

    def draw() -> None:
        print_rows(title, rows, *columns)
        if cursor:
            say(f"more: --cursor {cursor}")

    return Shown(rows, draw)


def print_rows(title: str, found: Iterable[Any], *columns: Column) -> None:
    """Print a table of records by its columns."""
    pairs = [pair for one in columns for pair in (_named(one) if isinstance(one, str) else [one])]
    headings = [heading for heading, _ in pairs]
    print_table(title, headings, [[_value(row, get) for _, get in pairs] for row in found])


def _named(fields: str) -> list[tuple[str, str | Callable[[Any], object]]]:
    split = [one.partition("=") for one in fields.split()]
    return [(heading.replace("_", " "), field or heading) for heading, _, field in split]


def _value(row: Any, get: str | Callable[[Any], object]) -> object:
    if not isinstance(get, str):
        return get(row)
    return get.format(row) if "{" in get else row[get] if type(row) is dict else getattr(row, get)


def print_fields(record: Any, left_out: frozenset[str]) -> None:
    """Print the fields of a record, one a line."""
    for name in dict(record):
        if name not in left_out:
            value = getattr(record, name)
            console.print(f"[bold]{name}[/] {marked('–' if value is None else value)}")


def chosen(**verbs: bool) -> str | None:
    """Return the name of the option that is set; None where none is. Raises `InvalidInput` if two are set."""
    names = [name for name, is_said in verbs.items() if is_said]
    if len(names) > 1:
        raise wrong(names[1], f"contradicts --{names[0]}", "give one of them")
    return names[0] if names else None


def needed(name: str, value: str | None, verb: str) -> str:
    """Return the argument that a verb needs. Raises `InvalidInput` if it is missing."""
    if value is None:
        raise wrong(name, "is missing", f"name the one to {verb}")
    return value


def moment(told: str) -> datetime:
    """Parse a moment: an age such as `2h` (s, m, h, d, w), or ISO 8601, in UTC where it names no zone."""
    if ago := _AGO.fullmatch(told):
        return datetime.now(UTC) - timedelta(seconds=float(ago[1]) * _SECONDS[ago[2]])
    try:
        at = datetime.fromisoformat(told)
    except ValueError as error:
        raise typer.BadParameter(f"{told!r} is no moment: say 30d, 2h or 2026-01-31T12:00") from error
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def ahead(told: str) -> datetime:
    """Parse a moment to come: in so long (`90d`), or as `moment` does."""
    at, now = moment(told), datetime.now(UTC)
    return now + (now - at) if _AGO.fullmatch(told) else at


def ask_first(question: str, *, yes: bool) -> None:
    """Ask the operator for confirmation, unless `yes` gives it. Raises `InvalidInput` if there is nobody to ask,
    `Conflict` if the operator does not agree, `typer.Exit` at Ctrl-C."""
    if yes:
        return
    try:
        agreed = typer.confirm(question, err=True)
    except typer.Abort as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise typer.Exit(INTERRUPTED) from error
        raise wrong("yes", "there is nobody to ask", "give --yes") from error
    if not agreed:
        raise Conflict("nothing was removed")
