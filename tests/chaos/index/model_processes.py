"""The writer and the reader of the model test, each in a process of its own: so one can be killed, and is.

The parent sends a method's name and its arguments through a pipe and gets the result or the error back; it never
runs the index itself. `dies_at` lets the child kill itself at its n-th change of files, counted by an audit hook, so
that a death in the middle of a call is the same each time.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from sluice.contracts.errors import SluiceError
from sluice.contracts.retrieval import Filters, Query, Strategy
from sluice.index.local.reader import IndexReader
from sluice.index.local.working_set import WritePolicy
from sluice.index.local.writer import IndexWriter
from sluice.index.settings import QuerySettings
from tests.chaos.index.corpus import CORPUS, MAKE, TODAY, new_reader

TIMEOUT_SECONDS = 30.0
_CHANGES = frozenset({"open", "os.rename", "os.link", "os.symlink", "os.mkdir", "os.remove", "os.rmdir", "os.truncate"})
Seen = list[tuple[str, str, str]]
"""(document id, chunk id, text), sorted."""


class Died(Exception):
    """The process was killed during the call."""


class Process:
    """An object in a forked child. Raises what its methods raise, and `Died` when it is gone."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._ours, theirs = multiprocessing.Pipe()
        self._child = os.fork()
        if self._child == 0:
            self._ours.close()
            _serve(make, theirs)
        theirs.close()
        try:
            self._answer()
        except BaseException:
            self.kill()
            raise

    def call(self, method: str, *arguments: Any, dies_at: int | None = None) -> Any:
        """The method's result."""
        self._ours.send((method, arguments, dies_at))
        return self._answer()

    def kill(self) -> None:
        """SIGKILL, now."""
        if self._child:
            os.kill(self._child, signal.SIGKILL)
            os.waitpid(self._child, 0)
            self._child = 0
            self._ours.close()

    def _answer(self) -> Any:
        try:
            assert self._ours.poll(TIMEOUT_SECONDS), f"no answer within {TIMEOUT_SECONDS:.0f} s"
            is_well, result = self._ours.recv()
        except EOFError as error:
            self.kill()
            raise Died from error
        if not is_well:
            raise result
        return result


class Writing:
    """A writer, by calls that can travel."""

    def __init__(self, root: Path, settings: WritePolicy, told: list[str]) -> None:
        self._told = told
        self._writer = IndexWriter(root, CORPUS, settings, clock=lambda: TODAY, on_fallback=told.append)

    def append(self, documents: list[Any]) -> int:
        return self._writer.append(*MAKE.batch(documents))

    def remove(self, document_ids: list[str]) -> int:
        return self._writer.remove(document_ids)

    def publish(self) -> str:
        return self._writer.publish().name

    def rebuild(self) -> tuple[str, bool]:
        rebuilt = self._writer.rebuild()
        return rebuilt.generation.name, rebuilt.is_proven

    def state(self, document_ids: list[str]) -> tuple[int, set[str], list[str]]:
        """The journal's last offset, which of the documents it holds, and fallbacks told."""
        return self._writer.journal_offset, {i for i in document_ids if self._writer.has_document(i)}, self._told

    def close(self) -> None:
        self._writer.close()


class Reading:
    """A reader, by calls that can travel."""

    def __init__(self, root: Path, settings: QuerySettings) -> None:
        self._told: list[str] = []
        self._reader: IndexReader = new_reader(root, self._told, settings=settings)

    def look(self) -> tuple[str | None, int, int, int, list[str]]:
        """Reload; generation, journal offset, counts of documents and chunks, and fallbacks told."""
        name, reader = self._reader.reload(), self._reader
        return name, reader.journal_offset, reader.document_count, reader.chunk_count, self._told

    def search(self, text: str, way: Strategy, filters: Filters) -> tuple[str | None, Seen, list[float | None]]:
        """The generation that answered, everything found, and the distances in order of rank."""
        query = Query(query=text, corpus=CORPUS, strategy=way, filters=filters, top_k=200)
        retrieval = self._reader.search(query, MAKE.vector(text))
        seen = sorted((chunk.document_id, chunk.chunk_id, chunk.text) for chunk in retrieval.chunks)
        return retrieval.generation, seen, [chunk.dense_distance for chunk in retrieval.chunks]

    def facts(self, document_ids: list[str]) -> dict[str, Any]:
        return self._reader.documents(document_ids)


def _serve(make: Callable[[], Any], pipe: Connection) -> None:
    """The child's life: answer calls until the other side closes."""
    bomb = _Bomb()
    sys.addaudithook(bomb)
    try:
        served = _answered(make, pipe)
        while served is not None:
            method, arguments, dies_at = pipe.recv()
            bomb.arm(dies_at)
            _answered(lambda: getattr(served, method)(*arguments), pipe, is_told=True)  # noqa: B023
            bomb.arm(None)
    finally:
        os._exit(0)


def _answered(work: Callable[[], Any], pipe: Connection, is_told: bool = False) -> Any:
    try:
        result = work()
    except (SluiceError, AssertionError) as error:
        pipe.send((False, error))
        return None
    except Exception as error:
        pipe.send((False, AssertionError(f"raised {error!r}")))
        return None
    pipe.send((True, result if is_told else None))
    return result


class _Bomb:
    """An audit hook that kills its process at the n-th change of files, once armed."""

    def __init__(self) -> None:
        self._left: itertools.count[int] | None = None
        self._dies_at = 0

    def arm(self, dies_at: int | None) -> None:
        self._left, self._dies_at = (None, 0) if dies_at is None else (itertools.count(1), dies_at)

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._left is None or event not in _CHANGES:
            return
        if event == "open" and not (isinstance(arguments[1], str) and set(arguments[1]) & set("wax+")):
            return
        if next(self._left) >= self._dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
