"""The memories of an instance, with what they need of this process: guard, index, language model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.memory.ports import AskModel, Sanitise, SearchIndex
from sluice.workers.wiring.memory.projects import ProjectMemories

if TYPE_CHECKING:
    from sluice.memory.memory import Memory
    from sluice.workers.settings import Settings

FOLDER = "memory"
"""In the data directory: a folder for each project."""


def build_memories(
    settings: Settings,
    *,
    sanitise: Sanitise,
    count_tokens: Callable[[str], int],
    search: Callable[[str], SearchIndex] | None = None,
    ask: AskModel | None = None,
    derives: bool = True,
) -> ProjectMemories:
    """The memories of every project. Nothing is opened or loaded yet. `search` gives the index of one project.

    `derives`: whether learnings of new iterations are found as soon as something is asked; else a worker does so.
    """

    def open_memory(folder: Path, project: str) -> Memory:
        from sluice.memory.learning.judge_pair import judge_by
        from sluice.memory.memory import Memory

        return Memory(
            folder,
            project,
            sanitise=sanitise,
            search=search(project) if search else None,
            judge=judge_by(ask) if ask else None,
            ask=ask,
            count_tokens=count_tokens,
            derives=derives,
        )

    return ProjectMemories(settings.data_dir / FOLDER, open_memory)
