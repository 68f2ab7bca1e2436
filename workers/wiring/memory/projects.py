"""The memories of an instance's projects: a folder each, named by the hash of the project's name.

Beside the journals of a project's features stands `project.json` with its name, as a hash cannot be read backwards.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from sluice.contracts.errors import Conflict, Corrupted, NotFound
from sluice.disk.durable import replace_file

if TYPE_CHECKING:
    from sluice.memory.memory import Memory

log = structlog.get_logger(__name__)

NAME_FILE = "project.json"


class ProjectMemories:
    """The memory of each project, opened at first use. Safe for threads; made after a fork."""

    def __init__(self, root: Path, open_memory: Callable[[Path, str], Memory]) -> None:
        """`root` holds a folder for each project; `open_memory` opens that of one."""
        self._root = root
        self._open_memory = open_memory
        self._lock = threading.Lock()
        self._open: dict[str, Memory] = {}

    def of(self, project: str) -> Memory:
        """The memory of a project, which may be empty. Writes nothing."""
        with self._lock:
            found = self._open.get(project)
            if found is None:
                folder = self._folder(project)
                found = self._open_memory(folder, project)
                if self._is_named(folder, project):  # what is asked of projects that there are not is not kept
                    self._open[project] = found
            return found

    def founded(self, project: str) -> Memory:
        """The memory of a project that is to be written to."""
        folder = self._folder(project)
        if not self._is_named(folder, project):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            replace_file(folder / NAME_FILE, (json.dumps({"project": project}) + "\n").encode())
        return self.of(project)

    def existing(self, project: str) -> Memory:
        """The memory of a project that was written to.

        Raises:
            NotFound: it never was.
        """
        if not self._is_named(self._folder(project), project):
            raise NotFound(f"nothing was remembered of a project {project!r} yet")
        return self.of(project)

    def names(self) -> tuple[str, ...]:
        """The projects that were ever written to. One whose name cannot be read is logged and left out."""
        found = []
        for path in sorted(self._root.glob(f"*/{NAME_FILE}")):
            try:
                found.append(_name_in(path))
            except Corrupted as error:
                log.error("project_unreadable", error=str(error))
        return tuple(sorted(found))

    def _folder(self, project: str) -> Path:
        return self._root / hashlib.sha256(project.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def _is_named(self, folder: Path, project: str) -> bool:
        path = folder / NAME_FILE
        if not path.exists():
            return False
        if (name := _name_in(path)) != project:
            raise Conflict(f"{folder} holds the memory of {name!r}, whose hash begins like that of {project!r}")
        return True


def _name_in(path: Path) -> str:
    """The project that a folder is of.

    Raises:
        Corrupted: the file does not say.
    """
    try:
        return str(json.loads(path.read_text())["project"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Corrupted(f'{path} names no project: {error!r}; write {{"project": …}} into it again') from error
