"""`sluice memory learn` and `review`: what was learned, and what people say of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import ValidationError

from sluice.cli.memory.opened import Feature, Folder, Local, Project, TaskId, opened
from sluice.cli.output import AsJson, console, marked, print_json, print_report, print_table
from sluice.contracts.errors import InvalidInput, first_problem
from sluice.contracts.memory.api import LearningPatch, LearningRequest, Learnings
from sluice.contracts.memory.learning import FeatureLearning, LearningSource

if TYPE_CHECKING:
    from sluice.contracts.memory.port import MemoryPort


def learn(
    text: Annotated[str, typer.Argument(help="What was learned, as an observation.")],
    feature: Feature,
    reason: Annotated[str, typer.Option(help="What it was learned from.")],
    project: Project = ".",
    folder: Folder = None,
    local: Local = None,
    source: Annotated[LearningSource, typer.Option(help="Whose word it is.")] = LearningSource.HUMAN,
    iteration: Annotated[int, typer.Option(min=0, help="The iteration that it is of; 0 for none.")] = 0,
    task_id: TaskId = None,
    as_json: AsJson = False,
) -> None:
    """Add a learning. One that says the same as an earlier one is counted there; an opposite is kept beside it."""
    with opened(project, folder, local, as_json=as_json) as memory:
        request = _checked(
            LearningRequest,
            project=memory.project_path,
            feature=feature,
            text=text,
            reason=reason,
            source=source,
            iteration=iteration,
            task_id=task_id,
        )
        result = memory.learn(feature, request.text, request.reason, source, iteration, task_id)
        if as_json:
            print_json(result)
            return
        named = f" {result.learning.id}" if result.learning else ""
        why = f": {marked(result.why)}" if result.why else ""
        console.print(f"{result.verdict}{named}{why}", highlight=False, soft_wrap=True)
        if result.other is not None:
            told = f"contradicts {result.other.id}: {marked(result.other.text)}"
            console.print(f"{told}\ndecide: sluice memory review {result.other.id} --keep-over …", highlight=False)


def review(
    feature: Feature,
    learning_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="The learning to change; without one all are listed.")
    ] = None,
    project: Project = ".",
    folder: Folder = None,
    local: Local = None,
    text: Annotated[str | None, typer.Option(help="Say it so.")] = None,
    reason: Annotated[str | None, typer.Option(help="What it was learned from.")] = None,
    task_id: TaskId = None,
    reviewed: Annotated[bool, typer.Option(help="Somebody has looked at it. It need not be true.")] = False,
    rejected: Annotated[
        bool | None, typer.Option("--reject/--restore", help="Offer it no more, or again; nothing is deleted.")
    ] = None,
    keep_over: Annotated[
        str | None, typer.Option(help="Of two that contradict each other keep this one, and reject that one.")
    ] = None,
    undo: Annotated[
        str | None, typer.Option(metavar="ENTRY", help="A text was counted as saying the same, and does not.")
    ] = None,
    prune: Annotated[
        bool, typer.Option("--prune", help="Put aside those found by rule, seen once, reviewed by nobody, long ago.")
    ] = False,
    source: Annotated[LearningSource, typer.Option("--as", help="Who says so.")] = LearningSource.HUMAN,
    note: Annotated[str, typer.Option(help="In words, for the journal.")] = "",
    as_json: AsJson = False,
) -> None:
    """List the learnings of a feature, or change one: nothing is replaced in bulk, and nothing is lost."""
    with opened(project, folder, local, as_json=as_json) as memory:
        if prune and learning_id is not None:
            raise InvalidInput("prune", f"names no learning, and {learning_id} is one", "--reject puts one aside")
        if undo is not None:
            memory.undo(feature, undo)
        if prune:
            pruned = list(memory.prune(feature))
            print_report(pruned, lambda found: _print_learnings(found, title="pruned"), as_json=as_json)
            return
        if learning_id is None:
            _list(memory, feature, task_id, as_json=as_json)
            return
        changes = _checked(
            LearningPatch,
            text=text,
            reason=reason,
            task_id=task_id,
            reviewed=reviewed or None,
            rejected=rejected,
            keep_over=keep_over,
            source=source,
            note=note,
        )
        changed = memory.patch(feature, learning_id, changes)
        if as_json:
            print_json(changed)
        else:
            _print_learnings([changed])


def _list(memory: MemoryPort, feature: str, task_id: int | None, *, as_json: bool) -> None:
    found = memory.learnings(feature, task_id=task_id, state=None)
    if as_json:
        print_json(found)
        return
    _print_learnings(found.learnings)
    _print_conflicts(found)


def _print_learnings(learnings: Any, title: str = "learnings") -> None:
    rows = [
        (one.id, one.source.value, one.iteration, one.hit_count, _state_of(one), one.text, one.reason)
        for one in learnings
    ]
    print_table(title, ("id", "source", "iteration", "seen", "state", "text", "why"), rows)


def _state_of(learning: FeatureLearning) -> str:
    return f"{learning.state.value}, reviewed" if learning.reviewed else learning.state.value


def _print_conflicts(found: Learnings) -> None:
    texts = {one.id: one.text for one in found.learnings}
    for one, other in found.conflicts:
        told = f"{one} {texts.get(one, '')!r} contradicts {other} {texts.get(other, '')!r}"
        console.print(marked(told), highlight=False, soft_wrap=True)


def _checked(kind: type[Any], **fields: object) -> Any:
    try:
        return kind(**fields)
    except ValidationError as error:
        raise InvalidInput(*first_problem(error)) from error
