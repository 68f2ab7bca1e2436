"""The options by which commands name dead letters, and the filter that they make."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from sluice.cli.choices import DeadLetterReason, Stage

if TYPE_CHECKING:
    from sluice.contracts.base import Value

Shape = TypeVar("Shape", bound="Value")

_AGO = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def moment(told: str) -> datetime:
    """A moment as people say it: `2h` (ago; s, m, h, d, w), or ISO 8601, in UTC where it names no zone."""
    if ago := _AGO.fullmatch(told):
        return datetime.now(UTC) - timedelta(seconds=float(ago[1]) * _SECONDS[ago[2]])
    try:
        at = datetime.fromisoformat(told)
    except ValueError as error:
        raise typer.BadParameter(f"{told!r} is no moment: say 2h or 2026-01-31T12:00") from error
    return at if at.tzinfo else at.replace(tzinfo=UTC)


Note = Annotated[str, typer.Option(help="Why; it is recorded.")]


def checked(shape: type[Shape], /, **facts: Any) -> Shape:
    """A request from what the options say, of a command that does not ask over HTTP.

    Raises:
        InvalidInput: a value does not fit.
    """
    from pydantic import ValidationError

    from sluice.contracts.errors import InvalidInput, first_problem

    try:
        return shape(**{name: value for name, value in facts.items() if value is not None})
    except ValidationError as error:
        raise InvalidInput(*first_problem(error)) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterSelection:
    """The options that say which dead letters are meant: those that fit all of them."""

    stage: Annotated[Stage | None, typer.Option(help="Only of this stage.")] = None
    reason: Annotated[DeadLetterReason | None, typer.Option(help="Only parked for this reason.")] = None
    kind: Annotated[str | None, typer.Option(help="Only events of this kind.")] = None
    fingerprint: Annotated[str | None, typer.Option(help="Only with this fingerprint.")] = None
    run: Annotated[str | None, typer.Option(help="Only of this run.")] = None
    corpora: Annotated[list[str] | None, typer.Option("--corpus", "-c", help="Only of this corpus. Repeatable.")] = None
    since: Annotated[
        datetime | None, typer.Option(parser=moment, metavar="WHEN", help="Only seen since: 2h, or a date and time.")
    ] = None
    until: Annotated[datetime | None, typer.Option(parser=moment, metavar="WHEN", help="Only seen before that.")] = None

    def filters(self) -> dict[str, Any]:
        """The filters that were given, by the names of the HTTP interface."""
        facts = {field.name: getattr(self, field.name) for field in fields(self)}
        facts["run_id"] = facts.pop("run")
        return {name: value for name, value in facts.items() if value is not None}


def selecting(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options of `LetterSelection` in the place of its parameter `selection`."""
    options = inspect.signature(LetterSelection, eval_str=True).parameters
    own = inspect.signature(command, eval_str=True)

    @wraps(command)
    def with_options(**given: Any) -> None:
        selection = LetterSelection(**{name: given.pop(name) for name in options})
        command(selection=selection, **given)

    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [[*options.values()] if one.name == "selection" else [one] for one in own.parameters.values()]
    flat = [one.replace(kind=keyword) for some in parameters for one in some]
    vars(with_options)["__signature__"] = own.replace(parameters=flat)
    return with_options
