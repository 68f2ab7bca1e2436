"""`sluice feedback`: say what became of an answer, or of many."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sluice.cli.output import AsJson, console, marked, print_json
from sluice.cli.session import session
from sluice.contracts.api import FeedbackRequest
from sluice.contracts.errors import InvalidInput
from sluice.contracts.learning.run_outcome import DEFAULT_SIGNAL, FeedbackOutcome, SignalName
from sluice.workers.context import Context
from sluice.workers.service.learning.feedback_file import FeedbackTaken, take_lines
from sluice.workers.service.service import Service


def feedback(
    run_id: Annotated[str | None, typer.Argument(help="The run whose answer it is about.")] = None,
    outcome: Annotated[FeedbackOutcome, typer.Option(help="How the task went.")] = "unknown",
    rating: Annotated[float | None, typer.Option(min=0, max=1, help="From 0 to 1, instead of the outcome.")] = None,
    signal: Annotated[SignalName, typer.Option(help="Who or what says so.")] = DEFAULT_SIGNAL,
    used: Annotated[list[str] | None, typer.Option(help="A chunk of the answer that was used. Repeatable.")] = None,
    note: Annotated[str, typer.Option(help="In words.")] = "",
    response: Annotated[
        Path | None, typer.Option(help="File with what the agent made of the answer, at most 32,000 characters.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option(help="Feedback on many runs: a JSON object a line, with run_id and these fields.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what became of an answer: one run's, or in bulk from a file.

    It counts once for each run and signal; the same again changes nothing.
    """
    with session(as_json=as_json, needs_workers=True) as context:
        if (run_id is None) == (file is None):
            raise InvalidInput("run_id", "give either a run or --file", "sluice feedback RUN --outcome success")
        if file is not None:
            _tell(_take(context, file), as_json=as_json)
        elif run_id is not None:
            request = FeedbackRequest(
                run_id=run_id,
                outcome=outcome,
                rating=rating,
                signal=signal,
                chunk_ids_used=tuple(used or ()),
                note=_short(note, "note", _MOST_NOTE),
                response=_short(_read(response), "response", _MOST_RESPONSE) if response else None,
            )
            is_new = Service(context).give_feedback(request)
            if as_json:
                print_json({"run_id": run_id, "status": "accepted" if is_new else "repeated"})
            else:
                console.print(f"{'recorded' if is_new else 'was recorded before'}: {marked(run_id)}", highlight=False)


_MOST_NOTE, _MOST_RESPONSE = 4_000, 32_000


def _take(context: Context, file: Path) -> FeedbackTaken:
    service = Service(context)
    try:
        with file.open(encoding="utf-8", errors="replace") as lines:
            return take_lines(lines, service.give_feedback)
    except OSError as error:
        raise InvalidInput("file", f"{file} cannot be read: {error.strerror or error}") from error


def _tell(taken: FeedbackTaken, *, as_json: bool) -> None:
    if as_json:
        print_json(taken)
    else:
        for refused in taken.refused:
            console.print(f"line {refused.line}: {marked(refused.error)}", highlight=False, soft_wrap=True)
        counts = f"{taken.accepted} accepted, {taken.repeated} repeated, {len(taken.refused)} refused"
        console.print(counts, highlight=False)
    if taken.refused:
        raise typer.Exit(1)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput("response", f"{path} cannot be read: {error}") from error


def _short(text: str, field: str, most: int) -> str:
    if len(text) > most:
        raise InvalidInput(field, f"{len(text):,} characters", f"at most {most:,}")
    return text
