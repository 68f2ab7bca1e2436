"""`sluice memory`: an agent's memory of a feature, in a folder of the project or in the instance."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import typer

from sluice.cli.agent.opened_memory import HERE, InstanceMemory, opened
from sluice.cli.command import Shown, opening, print_rows, table
from sluice.cli.output import INTERRUPTED, plain_text, print_table, say, warn
from sluice.contracts.errors import InvalidInput, Unavailable, checked
from sluice.contracts.memory.api import (
    IterationContext,
    LearningPatch,
    LearningRequest,
    Learnings,
    MemoryProof,
    StreamFormat,
)
from sluice.contracts.memory.learning import FeatureLearning, LearningSource
from sluice.contracts.memory.model import IterationOutcome, ModelTier
from sluice.contracts.memory.port import MemoryPort
from sluice.memory.extraction.raw_output import RawIterationOutput, collect


def of_memory(command: Callable[..., Shown | None]) -> Callable[..., None]:
    """Add to a command `--json` and the options that choose a memory; its first parameter is that memory."""
    return opening(opened, command)


# -- agents' contributions


@of_memory
def record(
    memory: MemoryPort,
    feature: str,
    file: Path | None = None,
    project: str = HERE,
    format: StreamFormat = "auto",
    iteration: int | None = None,
    task_id: int | None = None,
    task_title: str | None = None,
    discipline: str | None = None,
    session: str | None = None,
    tier: ModelTier | None = None,
    outcome: IterationOutcome | None = None,
    cwd: str | None = None,
    tee: bool = False,
    timeout: float | None = None,
) -> Shown:
    """Record an iteration of an agent: its attempts, failures, decisions and touched files.

    Standard input is read line by line until it ends, until the agent says that it is done, or until `--timeout`. The
    output of a killed agent is recorded as far as it came. The same output again adds nothing.
    """
    context = IterationContext(
        iteration_number=iteration,
        task_id=task_id,
        task_title=task_title,
        discipline=discipline,
        session_id=session,
        model_tier=tier,
        outcome=outcome,
        working_directory=cwd or (str(Path(project).resolve()) if Path(project).is_dir() else None),
    )
    data, is_whole = (_read(file), True) if file is not None else (None, True)
    if data is None:
        output = PassedOnOutput() if tee else RawIterationOutput()
        is_whole = _collected(output, timeout)
        data, context = output.text(), output.context(context)
    accepted = memory.record(feature, data, format=format, context=context)
    one = accepted.record
    known = "" if accepted.is_new else " (was recorded before)"
    told = f"iteration {one.iteration_number} of {one.feature} in {memory.where}{known}: {one.outcome.value}: "
    told += f"{len(one.errors)} errors, {len(one.decisions)} decisions, {len(one.files_touched)} files"
    told += "; it brought about what the ones before it did" if accepted.stagnating else ""
    exit_code = 0 if is_whole else INTERRUPTED
    if tee:  # standard output is the agent's
        warn(told)
        raise typer.Exit(exit_code)
    return Shown(accepted, told, exit_code)


def _collected(output: RawIterationOutput, timeout_seconds: float | None) -> bool:
    """Read standard input into `output`; False where an interrupt ended it, as Ctrl-C reaches the agent too."""
    if sys.stdin.isatty():
        raise InvalidInput("file", "there is no output to read", "name a file, or pipe the agent into this command")
    try:
        collect(sys.stdin.fileno(), deadline_seconds=timeout_seconds, output=output)
    except KeyboardInterrupt:
        output.close()
        return False
    return True


def _read(path: Path) -> str | list[Any]:
    """Return the text of a file; of a conversation's folder, as OpenHands keeps it, its events."""
    try:
        if path.is_dir():
            return [json.loads(one.read_text()) for one in sorted(path.glob("events/event-*.json"))]
        return path.read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError) as error:
        raise InvalidInput("file", f"{path} cannot be read: {error}", "name a file, or OpenHands' folder") from error


class PassedOnOutput(RawIterationOutput):
    """An agent's output, copied to standard output as it comes. If the reader goes away, collecting goes on."""

    _is_read = True

    def feed(self, chunk: bytes | str) -> None:
        """Add more of the output, and pass it on."""
        if self._is_read:
            try:
                sys.stdout.buffer.write(chunk.encode("utf-8", "replace") if isinstance(chunk, str) else chunk)
                sys.stdout.buffer.flush()
            except BrokenPipeError:
                self._is_read = False
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes it at its end
        super().feed(chunk)


@of_memory
def learn(
    memory: MemoryPort,
    text: str,
    feature: str,
    reason: str,
    source: LearningSource = LearningSource.HUMAN,
    iteration: int = 0,
    task_id: int | None = None,
) -> Shown:
    """Add a learning. A repetition of one is counted there; what differs is beside it, a correction in its place."""
    about = {"source": source, "iteration": iteration, "task_id": task_id}
    place = {"project": memory.project_path, "feature": feature}
    request = checked(LearningRequest, **place, text=text, reason=reason, **about)
    result = memory.learn(feature, request.text, request.reason, source, iteration, task_id)
    told = f"{result.verdict}{f' {result.learning.id}' if result.learning else ''}"
    told += f": {result.why}" if result.why else ""
    if (other := result.other) is not None:
        word, then = ("differs from", "keep-over …") if result.verdict == "conflict" else ("retires", "restore")
        told += f"\n{word} {other.id}: {other.text}\ndecide: sluice memory review {other.id} --{then}"
    return Shown(result, told)


# -- people's reviews


@of_memory
def review(
    memory: MemoryPort,
    feature: str,
    learning_id: str | None = None,
    text: str | None = None,
    reason: str | None = None,
    task_id: int | None = None,
    reviewed: bool = False,
    rejected: bool | None = None,
    keep_over: str | None = None,
    undo: str | None = None,
    prune: bool = False,
    source: LearningSource = LearningSource.HUMAN,
    note: str = "",
) -> Shown:
    """List the learnings of a feature, or change one. Nothing is replaced in bulk, and nothing is lost."""
    if prune and learning_id is not None:
        raise InvalidInput("prune", f"names no learning, and {learning_id} is one", "--reject puts one aside")
    if undo is not None:
        memory.undo(feature, undo)
    if prune:
        return _learnings(list(memory.prune(feature)), title="pruned")
    if learning_id is None:
        found = memory.learnings(feature, task_id=task_id, state=None)
        return Shown(found, lambda: _print_learnings(found))
    said = {"text": text, "reason": reason, "task_id": task_id, "rejected": rejected, "keep_over": keep_over}
    changes = checked(LearningPatch, **said, reviewed=reviewed or None, source=source, note=note)
    changed = memory.patch(feature, learning_id, changes)
    return Shown(changed, _learnings([changed]).drawn)


def _learnings(learnings: Sequence[FeatureLearning], title: str = "learnings") -> Shown:
    source, state = ("source", "{.source.value}"), ("state", _state_of)
    return table(title, learnings, "id", source, "iteration", ("seen", "hit_count"), state, "text", ("why", "reason"))


def _state_of(learning: FeatureLearning) -> str:
    retired = f", retired by {learning.retired_by}" if learning.retired_by else ""
    return f"{learning.state.value}{', reviewed' if learning.reviewed else ''}{retired}"


def _print_learnings(found: Learnings) -> None:
    _learnings(found.learnings).draw()
    told = {one.id: f"{one.text!r} (iteration {one.iteration}, {one.timestamp:%Y-%m-%d})" for one in found.learnings}
    for one, other in found.conflicts:
        say(f"{one} {told.get(one, '')} differs from {other} {told.get(other, '')}")
    for one in found.to_review:
        say(f"{one} {told[one]} looks like harmful advice: sluice memory review {one} --reviewed, or --reject")


# -- reading the memory


@of_memory
def recall(
    memory: MemoryPort, feature: str, query: str | None = None, top_k: int = 8, task_id: int | None = None
) -> Shown | None:
    """Print the entries of this feature's memory that match a question, the best first."""
    if query is None:
        for line in memory.export(feature):
            sys.stdout.write(line + "\n")
        return None
    found = memory.recall(feature, query, top_k, task_id)

    def draw() -> None:
        score = ("score", "{.score:.3f}")
        print_rows(f"recalled by {found.searched}", found.results, "id", "kind", "iteration", score, "text")
        if found.behind:
            warn(f"the index lacks {found.behind} entries")

    return Shown(found, draw)


@of_memory
def prompt(
    memory: MemoryPort,
    feature: str,
    iteration: int | None = None,
    session: str | None = None,
    task_id: int | None = None,
    query: str = "",
    max_tokens: int | None = None,
) -> Shown:
    """Print a block for the next iteration's prompt: its last errors first, then the learnings, as observations.

    The journal records the block's text, so that an agent that only repeats it has learned nothing new.
    """
    limits = {"task_id": task_id, "query": query, "max_tokens": max_tokens}
    block = memory.prompt(feature, iteration_number=iteration, session_id=session, **limits)  # type: ignore[arg-type]
    return Shown(block, lambda: block.text and sys.stdout.write(plain_text(block.text) + "\n"))


@of_memory
def status(memory: MemoryPort) -> Shown:
    """Show the state of memory: index and embedder, counts, how far the index is behind, and any damage."""
    found = memory.status()
    rows = [(name, getattr(found, name)) for name in type(found).model_fields]
    title = f"memory of {memory.project_path} in {memory.where}"
    return Shown(found, lambda: print_table(title, ("what", "is"), rows))


@of_memory
def rebuild(
    memory: MemoryPort, feature: str | None = None, proven: bool = False, orphans: bool = False, timeout: float = 600.0
) -> Shown:
    """Bring the index up to the journals. With `--prove`, exit code 1 where the two differ."""
    if orphans:
        memory.drop_orphans()
    runs = [one.run_id for one in memory.rebuild(feature)]
    if runs:
        _wait(memory, runs, timeout)
    proofs = [memory.prove(one) for one in ([feature] if feature else memory.features())] if proven else []
    value = {"runs": runs, "proofs": [{**one.model_dump(), "is_equal": one.is_equal} for one in proofs]}
    if not proven:
        return Shown(value, f"the index has what the journals say ({len(runs)} runs)")
    last = (("is", _verdict), ("state", "{.state_sha256:.16}"))
    drawn = table("proof", proofs, "feature", "entries", "documents", "indexed", "withheld", *last).drawn
    return Shown(value, drawn, exit_code=int(not all(one.is_equal for one in proofs)))


def _wait(memory: MemoryPort, runs: list[str], timeout_seconds: float) -> None:
    from sluice.cli.connection import wait_for

    if not isinstance(memory, InstanceMemory):
        raise Unavailable(f"{len(runs)} runs wait for the instance's workers: start it with `sluice up`")
    for run_id in runs:
        wait_for(memory.client, run_id, timeout_seconds)


def _verdict(proof: MemoryProof) -> str:
    if proof.is_equal:
        return "equal"
    told = (*proof.differences, *proof.problems)
    return f"{len(proof.missing)} missing, {len(proof.surplus)} too much" + "".join(f"; {one}" for one in told)
