"""Bugs to be planted in the product, so that every check proves that it can fail.

Each is a mistake that somebody could make; the value patches the product for the length of a block, in this process
and in all that are forked meanwhile. `BUGS` says which check must notice which.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from sluice.contracts.errors import Corrupted, Unavailable
from sluice.index.local.reader import IndexReader
from sluice.index.local.writer import IndexWriter

Bug = Callable[[], AbstractContextManager[Any]]


def _look_at_no_hash() -> AbstractContextManager[Any]:
    original = IndexReader.__init__

    @functools.wraps(original)
    def begin(self: IndexReader, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **{**named, "verify_on_open": False})

    return patch.object(IndexReader, "__init__", begin)


def _flush_all_but(is_left_out: Callable[[str], bool]) -> AbstractContextManager[Any]:
    original = os.fsync

    def fsync(descriptor: int) -> None:
        if not is_left_out(os.readlink(f"/proc/self/fd/{descriptor}")):
            original(descriptor)

    return patch.object(os, "fsync", fsync)


def _flush_no_file_of_a_generation() -> AbstractContextManager[Any]:
    return _flush_all_but(lambda path: os.path.isfile(path) and ("/generations/" in path or "/working/" in path))


def _flush_no_folder() -> AbstractContextManager[Any]:
    return _flush_all_but(os.path.isdir)


def _flush_no_journal() -> AbstractContextManager[Any]:
    return _flush_all_but(lambda path: "/journal/" in path)


def _acknowledge_before_the_journal() -> AbstractContextManager[Any]:
    """Appends are kept in memory and written by the next publish or removal."""
    append, waiting = IndexWriter.append, []

    def keep(self: IndexWriter, *arguments: Any) -> int:
        waiting.append(arguments)
        return self.journal_offset + len(arguments[0].documents)

    def write_first(method: Any) -> Any:
        def write(self: IndexWriter, *arguments: Any) -> Any:
            while waiting:
                append(self, *waiting.pop(0))
            return method(self, *arguments)

        return write

    return patch.multiple(
        IndexWriter, append=keep, publish=write_first(IndexWriter.publish), remove=write_first(IndexWriter.remove)
    )


def _say_published_when_the_disk_refused() -> AbstractContextManager[Any]:
    original = IndexWriter.publish

    def publish(self: IndexWriter) -> Any:
        try:
            return original(self)
        except Unavailable:
            return None

    return patch.object(IndexWriter, "publish", publish)


def _raise_what_the_system_raised() -> AbstractContextManager[Any]:
    original = IndexWriter.publish

    def publish(self: IndexWriter) -> Any:
        try:
            return original(self)
        except Unavailable as error:
            raise OSError(str(error)) from error

    return patch.object(IndexWriter, "publish", publish)


def _read_on_over_damage() -> AbstractContextManager[Any]:
    original = IndexWriter.rebuild

    def rebuild(self: IndexWriter) -> Any:
        try:
            return original(self)
        except Corrupted:
            return None

    return patch.object(IndexWriter, "rebuild", rebuild)


def _forget_no_document() -> AbstractContextManager[Any]:
    return patch.object(IndexWriter, "remove", lambda self, document_ids: self.journal_offset)


def _ignore_filters() -> AbstractContextManager[Any]:
    original = IndexReader.search

    def search(self: IndexReader, query: Any, vector: Any = None) -> Any:
        return original(self, query.model_copy(update={"filters": type(query.filters)()}), vector)

    return patch.object(IndexReader, "search", search)


def _take_the_first_version_only() -> AbstractContextManager[Any]:
    original = IndexWriter.append

    def append(self: IndexWriter, batch: Any, vectors: Any, fingerprint: str) -> int:
        if any(self.has_document(document.document_id) for document in batch.documents):
            return self.journal_offset
        return original(self, batch, vectors, fingerprint)

    return patch.object(IndexWriter, "append", append)


@dataclass(frozen=True, slots=True)
class Planted:
    """A bug: what it is, how it is planted, and what the check must say (one of these) for it to count as noticed."""

    what: str
    plant: Bug
    told: tuple[str, ...]


_HELD = ("holds something else", "opens with something else", "records are kept")

BUGS: dict[str, tuple[Planted, ...]] = {
    "corruption": (Planted("no hash is looked at", _look_at_no_hash, ("nobody is told",)),),
    "journal": (Planted("damage is read over", _read_on_over_damage, ("nobody noticed",)),),
    "kills": (Planted("appends wait in memory", _acknowledge_before_the_journal, ("acknowledged were",)),),
    "power": (
        Planted("no file of a generation is flushed", _flush_no_file_of_a_generation, ("is damaged", "fell back")),
        Planted("no folder is flushed", _flush_no_folder, ("fell back",)),
        Planted("the journal is not flushed", _flush_no_journal, ("acknowledged were", "ends at")),
    ),
    "disk": (
        Planted("a refused publish is called done", _say_published_when_the_disk_refused, ("passages are served",)),
        Planted("errors of the system are passed on", _raise_what_the_system_raised, ("a full disk raised OSError",)),
    ),
    "model": (
        Planted("appends wait in memory", _acknowledge_before_the_journal, _HELD),
        Planted("documents are never forgotten", _forget_no_document, _HELD),
        Planted("only the first version counts", _take_the_first_version_only, _HELD),
        Planted("filters are ignored", _ignore_filters, ("finds something else",)),
    ),
}
"""By the check that must notice."""
