"""`sluice memory record`: an iteration from a file, or from the pipe that the agent writes to while it runs."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from sluice.cli.memory.opened import Feature, Folder, Local, Project, opened
from sluice.cli.output import INTERRUPTED, AsJson, console, error_console, print_json
from sluice.contracts.errors import InvalidInput
from sluice.contracts.memory.api import IterationAccepted, IterationContext, StreamFormat
from sluice.contracts.memory.model import ModelTier
from sluice.memory.extraction.raw_output import RawIterationOutput, collect


def record(
    feature: Feature,
    file: Annotated[
        Path | None, typer.Argument(help="A file with the agent's output; else it is read from standard input.")
    ] = None,
    project: Project = ".",
    folder: Folder = None,
    local: Local = None,
    format: Annotated[StreamFormat, typer.Option(help="What the output is written in; auto looks at it.")] = "auto",
    iteration: Annotated[int | None, typer.Option(min=1, help="Its number; counted on without one.")] = None,
    task_id: Annotated[int | None, typer.Option(min=0, help="The task that it worked on.")] = None,
    task_title: Annotated[str | None, typer.Option(help="What the task is called.")] = None,
    discipline: Annotated[str | None, typer.Option(help="Such as backend, frontend, devops.")] = None,
    session: Annotated[str | None, typer.Option(help="The agent's session, where the output names none.")] = None,
    tier: Annotated[ModelTier | None, typer.Option(help="The model's role in the loop.")] = None,
    cwd: Annotated[
        str | None,
        typer.Option(help="The folder that absolute paths are resolved against, where the output names none."),
    ] = None,
    tee: Annotated[bool, typer.Option(help="Pass what is read on to standard output as it comes.")] = False,
    timeout: Annotated[
        float | None, typer.Option(min=0.0, help="Seconds after which reading ends, and the iteration as a time-out.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Remember an iteration of an agent: what it tried, what failed, what it decided and touched.

    Standard input is read line by line until it ends, until the agent says that it is done, or until `--timeout`. An
    agent that is killed is remembered as far as it came. The same output again adds nothing.
    """
    with opened(project, folder, local, as_json=as_json) as memory:
        context = IterationContext(
            iteration_number=iteration,
            task_id=task_id,
            task_title=task_title,
            discipline=discipline,
            session_id=session,
            model_tier=tier,
            working_directory=cwd or (str(Path(project).resolve()) if Path(project).is_dir() else None),
        )
        data, is_whole = (_read(file), True) if file is not None else (None, True)
        if data is None:
            output = PassedOnOutput() if tee else RawIterationOutput()
            is_whole = _collected(output, timeout)
            data, context = output.text(), output.context(context)
        accepted = memory.record(feature, data, format=format, context=context)
        _tell(accepted, memory.where, to_stderr=tee, as_json=as_json)
    if not is_whole:
        raise typer.Exit(INTERRUPTED)


def _collected(output: RawIterationOutput, timeout_seconds: float | None) -> bool:
    """Read standard input into `output`; False where that was interrupted, as Ctrl-C does to the agent too."""
    if sys.stdin.isatty():
        raise InvalidInput("file", "there is no output to read", "name a file, or pipe the agent into this command")
    try:
        collect(sys.stdin.fileno(), deadline_seconds=timeout_seconds, output=output)
    except KeyboardInterrupt:
        output.close()
        return False
    return True


def _read(path: Path) -> str | list[Any]:
    """The text of a file; of a conversation's folder, as OpenHands keeps it, its events."""
    try:
        if path.is_dir():
            return [json.loads(one.read_text()) for one in sorted(path.glob("events/event-*.json"))]
        return path.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError) as error:
        raise InvalidInput("file", f"{path} cannot be read: {error}", "name a file, or OpenHands' folder") from error


def _tell(accepted: IterationAccepted, where: str, *, to_stderr: bool, as_json: bool) -> None:
    if as_json and not to_stderr:
        print_json(accepted)
        return
    one = accepted.record
    told = (
        f"{one.outcome.value}: {len(one.errors)} errors, {len(one.decisions)} decisions, {len(one.files_touched)} files"
    )
    known = "" if accepted.is_new else " (was recorded before)"
    stagnating = "; it brought about what the ones before it did" if accepted.stagnating else ""
    line = f"iteration {one.iteration_number} of {one.feature} in {where}{known}: {told}{stagnating}"
    (error_console if to_stderr else console).print(line, markup=False, highlight=False, soft_wrap=True)


class PassedOnOutput(RawIterationOutput):
    """An agent's output that goes on to standard output as it comes. Its reader may go away: collecting goes on."""

    def __init__(self) -> None:
        super().__init__()
        self._is_read = True

    def feed(self, chunk: bytes | str) -> None:
        """More of the output."""
        if self._is_read:
            self._pass_on(chunk.encode("utf-8", "replace") if isinstance(chunk, str) else chunk)
        super().feed(chunk)

    def _pass_on(self, piece: bytes) -> None:
        try:
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            self._is_read = False
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes it when it ends
