"""`sluice feedback`: say what became of an answer, or of many."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import typer

from sluice.cli.choices import FeedbackOutcome, SignalName
from sluice.cli.connection import connected, given, wrong
from sluice.cli.output import AsJson, console, marked, print_json
from sluice_client.errors import Conflict, InvalidInput, NotFound

if TYPE_CHECKING:
    from sluice_client import SluiceClient


def feedback(
    run_id: Annotated[str | None, typer.Argument(help="The run whose answer it is about.")] = None,
    outcome: Annotated[FeedbackOutcome, typer.Option(help="How the task went.")] = "unknown",
    rating: Annotated[float | None, typer.Option(min=0, max=1, help="From 0 to 1, instead of the outcome.")] = None,
    signal: Annotated[SignalName, typer.Option(help="Who or what says so.")] = "task_satisfaction",
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
    with connected(as_json=as_json) as client:
        if (run_id is None) == (file is None):
            raise wrong("run_id", "give either a run or --file", "sluice feedback RUN --outcome success")
        if file is not None:
            _tell(_take(client, file), as_json=as_json)
        elif run_id is not None:
            said = given(rating=rating, response=_read(response) if response else None)
            is_new = _give(client, run_id, outcome=outcome, signal=signal, chunk_ids_used=used or [], note=note, **said)
            if as_json:
                print_json({"run_id": run_id, "status": "accepted" if is_new else "repeated"})
            else:
                console.print(f"{'recorded' if is_new else 'was recorded before'}: {marked(run_id)}", highlight=False)


class Refused(TypedDict):
    """A line that was not taken, counted from 1, and why."""

    line: int
    error: str


class Taken(TypedDict):
    """What became of a file's lines. `repeated` are those that were recorded before, word for word."""

    accepted: int
    repeated: int
    refused: list[Refused]


def _take(client: SluiceClient, file: Path) -> Taken:
    """Give each line by itself, empty ones aside; a line is taken whole or not at all, and a refused one stops none.

    What the instance does not answer ends it, and the file can be given again: what was taken is then repeated.
    """
    taken = Taken(accepted=0, repeated=0, refused=[])
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise wrong("file", f"{file} cannot be read: {error.strerror or error}") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            taken["accepted" if _give(client, **_fields(line)) else "repeated"] += 1
        except (NotFound, InvalidInput, Conflict) as error:
            taken["refused"].append(Refused(line=number, error=str(error)))
    return taken


def _give(client: SluiceClient, run_id: str, **fields: Any) -> bool:
    """Whether it is new."""
    return client.feedback(run_id, **fields).get("counted") != "before"


def _fields(line: str) -> dict[str, Any]:
    try:
        fields: dict[str, Any] = json.loads(line)
        if not isinstance(fields.get("run_id"), str):
            raise wrong("run_id", "Field required")
    except (ValueError, AttributeError) as error:
        raise wrong("body", f"no JSON object: {error}") from error
    return fields


def _tell(taken: Taken, *, as_json: bool) -> None:
    if as_json:
        print_json(taken)
    else:
        for refused in taken["refused"]:
            console.print(f"line {refused['line']}: {marked(refused['error'])}", highlight=False, soft_wrap=True)
        counts = f"{taken['accepted']} accepted, {taken['repeated']} repeated, {len(taken['refused'])} refused"
        console.print(counts, highlight=False)
    if taken["refused"]:
        raise typer.Exit(1)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise wrong("response", f"{path} cannot be read: {error}") from error
