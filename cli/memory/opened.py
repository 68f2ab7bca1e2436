"""Opens a memory, in a folder or in an instance. The commands use both in the same way."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sluice.cli.connection import connected, is_running
from sluice.cli.output import errors_told
from sluice.contracts.errors import InvalidInput
from sluice.workers.places import is_standing

if TYPE_CHECKING:
    from sluice.contracts.memory.port import MemoryPort

HERE = "."
EMBEDDED = ".ralph"
"""The folder of a project that keeps an agent's memory itself."""


@contextmanager
def opened(project: str, folder: Path | None, local: bool | None, *, as_json: bool = False) -> Iterator[MemoryPort]:
    """The memory of a project; errors become a message and an exit code.

    An instance that does not run is opened here: its journals take what is recorded, and the index follows later.
    """
    project = _repository() if project == HERE else project
    if folder is not None or (local if local is not None else _is_local(Path(project))):
        from sluice.memory import open_memory

        with errors_told(as_json=as_json):
            if folder is not None and local is False:
                raise InvalidInput("folder", "an instance has folders of its own", "leave out --folder or --instance")
            root = Path(project).resolve()
            place = folder or root / EMBEDDED / "db" / "memory"
            with open_memory(place, str(root)) as memory:
                yield memory
    elif is_running():
        from sluice.cli.memory.instance_memory import InstanceMemory

        with connected(as_json=as_json) as client:
            yield InstanceMemory(client, _name_of(project))
    else:
        from sluice.cli.session import session
        from sluice.workers.service.caller import OWN_MACHINE
        from sluice.workers.service.memory.desk import MemoryDesk
        from sluice.workers.service.service import Service

        with session(as_json=as_json) as context:
            yield MemoryDesk(context, Service(context)).of(_name_of(project), OWN_MACHINE)


def _repository() -> str:
    """The project that one stands in: the nearest folder above with `.ralph`, else with `.git`, else this one."""
    here = Path.cwd()
    for name in (EMBEDDED, ".git"):
        for folder in (here, *here.parents):
            if (folder / name).exists():
                return str(folder)
    return str(here)


def _is_local(project: Path) -> bool:
    """Whether memory is a folder of the project where nothing says so: it has a `.ralph`, or there is no instance."""
    return (project / EMBEDDED).is_dir() or not _instance_configured()


def _instance_configured() -> bool:
    named = ("SLUICE_CONFIG", "SLUICE_DATA_DIR")
    return any(os.environ.get(name) for name in named) or is_standing()


def _name_of(project: str) -> str:
    """The project as an instance knows it: a folder by its full path, anything else by its name."""
    return str(Path(project).resolve()) if Path(project).is_dir() else project


Feature = Annotated[str, typer.Option("--feature", "-f", help="The feature that is worked on.")]
Project = Annotated[
    str,
    typer.Option(help="The project: its folder, by default that of this repository; in an instance any name of it."),
]
Folder = Annotated[
    Path | None, typer.Option(help="Remember in this folder, without an instance; .ralph/db/memory by default.")
]
Local = Annotated[
    bool | None,
    typer.Option(
        "--local/--instance",
        help="In a folder of the project, or in the configured instance. Without either: in the folder where the "
        "project has a .ralph, or no instance is configured here.",
    ),
]
TaskId = Annotated[int | None, typer.Option(min=0, help="The task, where it is not about the whole feature.")]
