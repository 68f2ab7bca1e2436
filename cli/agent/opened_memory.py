"""Opens a memory, in a folder or in an instance. The commands use both in the same way."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast, get_type_hints

from pydantic import TypeAdapter

from sluice.cli.connection import Part, connected, is_running
from sluice.cli.output import errors_told
from sluice.contracts.errors import InvalidInput
from sluice.contracts.memory.port import MemoryPort
from sluice.workers.data_dir import is_standing
from sluice_client import SluiceClient

HERE = "."
EMBEDDED = ".ralph"
"""The folder of a project that keeps an agent's memory itself."""


@contextmanager
def opened(
    project: str = HERE, folder: Path | None = None, local: bool | None = None, *, as_json: bool = False
) -> Iterator[MemoryPort]:
    """Yield the memory of a project; errors become a message and an exit code. Where no instance runs, its memory is
    opened here: its journals take new records, and the index follows later."""
    project = _repository() if project == HERE else project
    name = str(Path(project).resolve()) if Path(project).is_dir() else project  # its name in an instance
    if folder is not None or (local if local is not None else _is_local(Path(project))):
        from sluice.memory import open_memory

        with errors_told(as_json=as_json):
            if folder is not None and local is False:
                raise InvalidInput("folder", "an instance has folders of its own", "leave out --folder or --instance")
            root = Path(project).resolve()
            with open_memory(folder or root / EMBEDDED / "db" / "memory", str(root)) as memory:
                yield memory
    elif is_running():
        with connected(as_json=as_json) as client:
            yield cast(MemoryPort, InstanceMemory(client, name))
    else:
        from sluice.cli.session import session
        from sluice.workers.service.callers import OWN_MACHINE
        from sluice.workers.service.memories import MemoryDesk

        with session(as_json=as_json) as context:
            yield MemoryDesk(context).of(name, OWN_MACHINE)


def _repository() -> str:
    """Return the current project: the nearest folder above with `.ralph`, else with `.git`, else this one."""
    here = Path.cwd()
    above = (folder for name in (EMBEDDED, ".git") for folder in (here, *here.parents) if (folder / name).exists())
    return str(next(above, here))


def _is_local(project: Path) -> bool:
    """Return whether memory is by default a folder of the project: it has a `.ralph`, or there is no instance."""
    is_configured = any(os.environ.get(name) for name in ("SLUICE_CONFIG", "SLUICE_DATA_DIR")) or is_standing()
    return (project / EMBEDDED).is_dir() or not is_configured


OPERATIONS = {
    "record": "record_iteration",
    "learn": "add_learning",
    "patch": "change_learning",
    "undo": "undo_repetition",
    "prune": "prune_learnings",
    "prompt": "memory_prompt",
    "features": "memory_features",
    "status": "memory_status",
    "rebuild": "rebuild_memory",
    "prove": "prove_memory",
    "drop_orphans": "drop_memory_orphans",
}
"""The client's operation for each verb of the port, where the names differ."""
RENAMED = {"iteration_number": "iteration", "session_id": "session"}
"""Parameters of the port whose names differ in the client's operations."""


class InstanceMemory:
    """A `MemoryPort` of one project, kept by the instance that the client speaks to. Each verb of the port is an
    operation of the client, which takes the same parameters."""

    def __init__(self, client: SluiceClient, project: str) -> None:
        """`client` must answer with JSON objects, as one from `cli.connection.connected` does."""
        self.project_path = project
        self.where = f"the instance at {client.base_url}"
        self.client = client

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        if verb.startswith("_"):
            raise AttributeError(verb)
        port = getattr(MemoryPort, verb)
        operation, kind = getattr(self.client, OPERATIONS.get(verb, verb)), get_type_hints(port)["return"]

        def ask(*args: Any, **options: Any) -> Any:
            bound = inspect.signature(port).bind(self, *args, **options)
            bound.apply_defaults()
            said = {name: value for name, value in bound.arguments.items() if name != "self" and value is not None}
            if change := said.pop("change", None):
                said |= change.model_dump(mode="json", exclude_none=True)
            named = {RENAMED.get(name, name): value for name, value in said.items()}
            told = operation(project=self.project_path, **named)
            return TypeAdapter(kind).validate_python(list(told) if isinstance(told, Part) else told)

        return ask

    def export(self, feature: str) -> Iterator[str]:
        """Yield the entries as `MemoryPort.export` does."""
        return (line for line in self.client.memory_export(self.project_path, feature).split("\n") if line)
