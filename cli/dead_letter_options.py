"""The options by which commands name dead letters, and the filter that they make."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, TypeVar

import typer
from pydantic import ValidationError

from contracts.base import Value
from contracts.errors import InvalidInput, first_problem
from contracts.event import Queue
from contracts.outcome import DeadLetterReason

Shape = TypeVar("Shape", bound=Value)

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


Stage = Annotated[Queue | None, typer.Option(help="Only of this stage.")]
Reason = Annotated[DeadLetterReason | None, typer.Option(help="Only parked for this reason.")]
Kind = Annotated[str | None, typer.Option(help="Only events of this kind.")]
Fingerprint = Annotated[str | None, typer.Option(help="Only with this fingerprint.")]
Run = Annotated[str | None, typer.Option(help="Only of this run.")]
Corpora = Annotated[list[str] | None, typer.Option("--corpus", "-c", help="Only of this corpus. Repeatable.")]
Since = Annotated[
    datetime | None, typer.Option(parser=moment, metavar="WHEN", help="Only seen since: 2h, or a date and time.")
]
Until = Annotated[datetime | None, typer.Option(parser=moment, metavar="WHEN", help="Only seen before that.")]
Note = Annotated[str, typer.Option(help="Why, for whoever looks later.")]


def checked(shape: type[Shape], /, **facts: Any) -> Shape:
    """A filter or a request from what the options say.

    Raises:
        InvalidInput: a value does not fit.
    """
    try:
        return shape(**{name: value for name, value in facts.items() if value is not None})
    except ValidationError as error:
        raise InvalidInput(*first_problem(error)) from error
