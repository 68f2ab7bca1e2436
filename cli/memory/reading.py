"""`sluice memory recall`, `prompt` and `status`: what is remembered, as agents and people read it."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from sluice.cli.memory.opened import Feature, Folder, Local, Project, TaskId, opened
from sluice.cli.output import AsJson, error_console, plain_text, print_json, print_table


def recall(
    feature: Feature,
    query: Annotated[
        str | None, typer.Argument(help="What is asked; without it the whole journal, a JSON object a line.")
    ] = None,
    project: Project = ".",
    folder: Folder = None,
    local: Local = None,
    top_k: Annotated[int, typer.Option(min=1, max=100, help="How many at most.")] = 8,
    task_id: TaskId = None,
    as_json: AsJson = False,
) -> None:
    """What memory holds on a question, of this feature alone, the best first."""
    with opened(project, folder, local, as_json=as_json) as memory:
        if query is None:
            for line in memory.export(feature):
                sys.stdout.write(line + "\n")
            return
        found = memory.recall(feature, query, top_k, task_id)
        if as_json:
            print_json(found)
            return
        rows = [(one.id, one.kind, one.iteration, f"{one.score:.3f}", one.text) for one in found.results]
        print_table(f"recalled by {found.searched}", ("id", "kind", "iteration", "score", "text"), rows)
        if found.behind:
            error_console.print(f"the index lacks {found.behind} entries", markup=False, highlight=False)


def prompt(
    feature: Feature,
    project: Project = ".",
    folder: Folder = None,
    local: Local = None,
    iteration: Annotated[
        int | None, typer.Option(min=1, help="The iteration that is to begin; counted on else.")
    ] = None,
    session: Annotated[str | None, typer.Option(help="The agent's session.")] = None,
    task_id: TaskId = None,
    query: Annotated[str, typer.Option(help="What it is about: the task, in words.")] = "",
    max_tokens: Annotated[int | None, typer.Option(min=50, max=20_000, help="Its length at most.")] = None,
    as_json: AsJson = False,
) -> None:
    """A block for the next iteration's prompt: its last errors first, then what was learned, as observations.

    What it says is written into the journal, so that an agent that only repeats it has learned nothing new.
    """
    with opened(project, folder, local, as_json=as_json) as memory:
        block = memory.prompt(
            feature, iteration_number=iteration, session_id=session, task_id=task_id, query=query, max_tokens=max_tokens
        )
        if as_json:
            print_json(block)
        elif block.text:
            sys.stdout.write(plain_text(block.text) + "\n")


def status(project: Project = ".", folder: Folder = None, local: Local = None, as_json: AsJson = False) -> None:
    """How memory fares: index and embedder, counts, how far the index is behind, and what is damaged."""
    with opened(project, folder, local, as_json=as_json) as memory:
        found = memory.status()
        if as_json:
            print_json(found)
            return
        rows = [(name, getattr(found, name)) for name in type(found).model_fields]
        print_table(f"memory of {memory.project_path} in {memory.where}", ("what", "is"), rows)
