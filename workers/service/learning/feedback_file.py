"""Feedback in bulk: a file with one JSON object a line, each as `POST /v1/feedback` takes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pydantic import ValidationError

from sluice.contracts.api import FeedbackRequest
from sluice.contracts.base import Value
from sluice.contracts.errors import Conflict, InvalidInput, NotFound, first_problem


class RefusedLine(Value):
    """A line that was not taken, counted from 1, and why."""

    line: int
    error: str


class FeedbackTaken(Value):
    """What became of a file's lines. `repeated` are those that were recorded before, word for word."""

    accepted: int = 0
    repeated: int = 0
    refused: tuple[RefusedLine, ...] = ()


def take_lines(lines: Iterable[str], give: Callable[[FeedbackRequest], bool]) -> FeedbackTaken:
    """Give each line by itself, empty ones aside; a line is taken whole or not at all, and a refused one stops none.

    `give` says whether feedback is new, and raises `NotFound`, `InvalidInput` or `Conflict` for what it refuses; what
    else it raises ends the reading, and the file can be given again: what was taken is then repeated.
    """
    accepted = repeated = 0
    refused = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            if give(_parsed(line)):
                accepted += 1
            else:
                repeated += 1
        except (NotFound, InvalidInput, Conflict) as error:
            refused.append(RefusedLine(line=number, error=str(error)))
    return FeedbackTaken(accepted=accepted, repeated=repeated, refused=tuple(refused))


def _parsed(line: str) -> FeedbackRequest:
    try:
        return FeedbackRequest.model_validate_json(line)
    except ValidationError as error:
        raise InvalidInput(*first_problem(error)) from error
