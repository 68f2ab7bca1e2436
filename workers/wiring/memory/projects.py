"""The memories of an instance's projects: a folder each, named by the hash of the project's name.

Beside the journals of a project's features stands `project.json` with its name, as a hash cannot be read backwards.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from sluice.contracts.budget import Spend
from sluice.contracts.errors import BudgetExhausted, Conflict, Corrupted, NotFound, Unavailable
from sluice.disk.durable import replace_file
from sluice.memory.ports import AskModel, Sanitise

if TYPE_CHECKING:
    from sluice.evaluation.chat_endpoint import ChatEndpoint, ChatMessage
    from sluice.ledger.ledger import Ledger
    from sluice.memory.find import SearchIndex
    from sluice.memory.memory import Memory
    from sluice.workers.settings import Settings

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
        from sluice.memory.learning.deduplication import judge_by
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


@dataclass(slots=True)
class Account:
    """What asking has cost one event."""

    run_id: str
    usd: float = 0.0

    @property
    def spend(self) -> Spend:
        """The same as a spend."""
        return Spend(usd=self.usd)


_ACCOUNT: ContextVar[Account | None] = ContextVar("memory_model_account", default=None)


class MemoryModel:
    """A language model that is asked on account of a run, and else not at all."""

    def __init__(self, endpoint: ChatEndpoint | None, ledger: Ledger) -> None:
        self._endpoint = endpoint
        self._ledger = ledger

    @property
    def is_there(self) -> bool:
        """Whether the settings name one, and want it asked."""
        return self._endpoint is not None

    @contextmanager
    def on_account_of(self, run_id: str) -> Iterator[Account]:
        """What is asked inside is paid by this run."""
        account = Account(run_id)
        token = _ACCOUNT.set(account)
        try:
            yield account
        finally:
            _ACCOUNT.reset(token)

    def ask(self, system: str, question: str, max_tokens: int) -> str:
        """What the model says.

        Raises:
            Unavailable: there is none, it does not answer, or no run pays.
            BudgetExhausted: the run or its day cannot pay.
        """
        account = _ACCOUNT.get()
        if self._endpoint is None or account is None:
            raise Unavailable("no language model is asked here")
        messages: list[ChatMessage] = [{"role": "system", "content": system}, {"role": "user", "content": question}]
        left = self._ledger.budget_left(account.run_id).least("usd")
        if left is not None and self._endpoint.cost_at_most(messages, max_tokens) > left - account.usd:
            raise BudgetExhausted("the run or its day has no room for asking the model")
        reply = self._endpoint.ask(messages, max_tokens=max_tokens)
        account.usd += reply.usd
        return reply.text
