"""Journals in an object store: the owner of the index ships what it appends, another machine takes over from there.

    <corpus>/journal/parts/<first>-<last>-<epoch>-<sha256>[.kept]   a range of whole records, or a compacted file
    <corpus>/journal/heads/<number>                                 the parts that count, and the newest generation

A head is put only if its number is free, and each is made from the one before: of two owners one fails, as `Fenced`,
and what it still puts is named by no head. Parts are put before their head and removed after it, so that a crash leaves
parts without a name, never a name without its part. `Shipping` is the owner's side. The rest only reads.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from sluice.contracts.base import Sha256, Value
from sluice.contracts.errors import Corrupted, Fenced
from sluice.disk.durable import fsync_path, fsync_together, link_or_copy, replace_file, sha256_file
from sluice.disk.object_store import ObjectStore
from sluice.index.folder import CorpusLayout
from sluice.index.journal.files import JournalFile, create_segment, list_files, skip_frames
from sluice.index.journal.journal import DURABLE, OFFSET, JournalTail, read_last_offset

PART_BYTES = 8_000_000
"""Size at which records are shipped at once, and most of a part that is joined with others in memory."""
_MOST_SMALL = 16
"""Parts of the segment being written that are joined into one."""
_HEADS_KEPT = 100
PULLED = "pulled"
"""Folder of a corpus with the parts that a standby has pulled so far."""
ASIDE = "aside"
"""Folder of a corpus with a journal that another owner's has replaced, records included that count nowhere."""
EPOCHS = 100_000
"""Writer's epochs of one owner of the index: those of the next are all greater, and so its segments' names differ."""


class Part(Value):
    """A range of the journal in the store."""

    first: int
    last: int
    epoch: int
    size_bytes: int
    sha256: Sha256
    is_compacted: bool = False

    @property
    def name(self) -> str:
        """The name of the object, and of its file in `PULLED`."""
        kind = ".kept" if self.is_compacted else ""
        return f"{self.first:020d}-{self.last:020d}-{self.epoch}-{self.sha256[:16]}{kind}"


class Head(Value):
    """The parts that make up a journal, in order, under the owner's epoch; and the newest generation that it pushed."""

    epoch: int
    machine: str
    parts: tuple[Part, ...] = ()
    generation: str | None = None

    @property
    def last_offset(self) -> int:
        """The last offset that is in the store."""
        return self.parts[-1].last if self.parts else 0


def read_head(store: ObjectStore, corpus: str) -> tuple[int, Head | None]:
    """Return the newest head of a corpus and its number; 0 and None where nothing was shipped."""
    names = [path.rsplit("/", 1)[-1] for path in store.sizes(_heads(corpus))]
    number = max((int(name) for name in names if name.isdecimal()), default=0)
    if not number:
        return 0, None
    path = f"{_heads(corpus)}/{number:012d}"
    try:
        return number, Head.model_validate_json(store.read(path))
    except ValidationError as error:
        raise Corrupted(f"the object store's {path} cannot be read: {error.errors()[0]['msg']}") from error


class Shipping:
    """Ships the journal of one corpus. Not for several threads at once."""

    def __init__(
        self, store: ObjectStore, layout: CorpusLayout, epoch: int, machine: str, check: Callable[[], None]
    ) -> None:
        """`check` raises `Fenced` once this owner's lease could have run out."""
        self._store, self._layout, self._check = store, layout, check
        self._epoch, self._machine = epoch, machine
        self._number, self.head = read_head(store, layout.corpus)
        self._kept: tuple[tuple[int, int, int], Part] | None = None
        self._is_known = False
        self._tail = JournalTail(layout.journal, 0)

    def ship(self, generation: str | None = None) -> int:
        """Put what the store lacks and name it by a new head, with `generation` if one is given; return the bytes.

        Raises `Fenced` when another owner has put a head; then nothing counts of what was put.
        """
        self._check()
        before = self.head or Head(epoch=0, machine="")
        counted = before.parts if self._is_known or holds(self._layout, before) else ()
        try:
            parts = self._parts(counted)
        except FileNotFoundError:  # compacted meanwhile: another file holds its records
            parts = self._parts(counted)
        self._is_known = True
        head = Head(epoch=self._epoch, machine=self._machine, parts=parts, generation=generation or before.generation)
        if head == self.head or not (parts or before.parts):
            return 0
        new = [part for part in parts if part not in before.parts]
        self._put_head(head)
        self._check()  # only now is this head known to be the newest: what it lacks no later one can name
        self._store.delete(_part(self._layout.corpus, one) for one in before.parts if one not in parts)
        self._store.delete([f"{_heads(self._layout.corpus)}/{self._number - _HEADS_KEPT:012d}"])
        return sum(part.size_bytes for part in new)

    def drop_unnamed(self) -> None:
        """Remove parts that an owner put and did not live to name."""
        named = {_part(self._layout.corpus, part) for part in self.head.parts} if self.head else set()
        found = self._store.sizes(f"{self._layout.corpus}/journal/parts")
        self._check()
        self._store.delete(path for path in found if path not in named)

    def unshipped_bytes(self) -> int:
        """Return about how many bytes of the journal the store lacks. One system call while there are none."""
        end = self.head.last_offset if self.head else 0
        if self._tail.durable_offset() <= end:
            return 0
        files = [file for file in list_files(self._layout.journal) if file.last_offset > end]
        return sum(_range(file.path, end, _FAR)[1] for file in files if not file.is_compacted)

    def _put_head(self, head: Head) -> None:
        number, content = self._number + 1, head.model_dump_json(exclude_defaults=True).encode()
        path = f"{_heads(self._layout.corpus)}/{number:012d}"
        # Where the reply to a first try was lost, the second finds its own.
        if not self._store.create(path, content) and self._store.read(path) != content:
            raise Fenced(f"another owner of the index ships corpus {self._layout.corpus} since head {number}")
        self._number, self.head = number, head

    def _parts(self, before: tuple[Part, ...]) -> tuple[Part, ...]:
        """Return the parts that make up the journal as it is on disk; put those that are new."""
        parts = list(before)
        while True:  # a compaction drops what was replaced up to an offset that then is shipped as well
            files = list_files(self._layout.journal)
            durable, again = read_last_offset(self._layout), list_files(self._layout.journal)
            if [file.path for file in files] == [file.path for file in again]:
                break
        if files and files[0].is_compacted:
            kept = self._compacted(files.pop(0), parts[:1])
            parts = [kept, *(part for part in parts if part.first > kept.last)]
        elif parts and parts[0].is_compacted:
            parts = []  # another journal was put in its place
        start = next((at for at, part in enumerate(parts) if at and part.first != parts[at - 1].last + 1), len(parts))
        parts = parts[:start]
        if parts and parts[-1].last > durable:
            parts = []  # an operator let records go
        for number, file in enumerate(files):
            is_open = number == len(files) - 1
            parts = self._with_segment(parts, file, min(durable, file.last_offset), is_open=is_open)
        return tuple(parts)

    def _with_segment(self, parts: list[Part], file: JournalFile, last: int, *, is_open: bool) -> list[Part]:
        """Return the parts with those of a segment up to an offset."""
        end = parts[-1].last if parts else file.first_offset - 1
        own = [part for part in parts if file.first_offset <= part.first and part.last <= file.last_offset]
        small = [part for part in own if part.size_bytes < PART_BYTES]
        if (not is_open and last > end) or (not is_open and len(own) > 1):
            joined = self._put(_read(file.path, file.first_offset, last), file.first_offset, last)
            return [*(part for part in parts if part not in own), joined]
        if last > end:
            parts = [*parts, self._put(_read(file.path, end + 1, last), end + 1, last)]
            small = [*small, parts[-1]]
        if len(small) > _MOST_SMALL and small == parts[-len(small) :]:
            first = small[0].first
            return [*parts[: -len(small)], self._put(_read(file.path, first, last), first, last)]
        return parts

    def _compacted(self, file: JournalFile, first: list[Part]) -> Part:
        """Return the part of a compacted file. One that was rewritten alone has the same name."""
        facts = file.path.stat()
        mark = (facts.st_ino, facts.st_size, facts.st_mtime_ns)
        if self._kept is None or self._kept[0] != mark or first != [self._kept[1]]:
            sha256, copy = sha256_file(file.path), self._layout.folder / ".shipped"
            part = first[0] if first and first[0].sha256 == sha256 else None
            if part is None:
                copy.unlink(missing_ok=True)
                link_or_copy(file.path, copy)  # it may be rewritten meanwhile
                part = Part(
                    first=file.first_offset,
                    last=file.last_offset,
                    epoch=self._epoch,
                    size_bytes=copy.stat().st_size,
                    sha256=sha256_file(copy),
                    is_compacted=True,
                )
                self._check()
                self._store.upload(_part(self._layout.corpus, part), copy)
                copy.unlink()
            self._kept = mark, part
        return self._kept[1]

    def _put(self, content: bytes, first: int, last: int) -> Part:
        sha256 = hashlib.sha256(content).hexdigest()
        part = Part(first=first, last=last, epoch=self._epoch, size_bytes=len(content), sha256=sha256)
        self._check()
        self._store.write(_part(self._layout.corpus, part), content)
        return part


def pull_parts(store: ObjectStore, layout: CorpusLayout, head: Head) -> int:
    """Bring the parts of a head that this machine lacks, and forget others; return the bytes that travelled.

    Raises `Corrupted` for a part that differs from its hash, and `NotFound` for one that a later head has replaced.
    """
    folder = layout.folder / PULLED
    folder.mkdir(parents=True, exist_ok=True)
    here = {path.name for path in folder.iterdir()}
    missing = [part for part in head.parts if part.name not in here]

    def bring(part: Part) -> None:
        incoming, path = folder / f".{part.name}", _part(layout.corpus, part)
        incoming.unlink(missing_ok=True)
        if store.download(path, part.size_bytes, incoming) != part.sha256:
            incoming.unlink()
            raise Corrupted(f"the object store's {path} is damaged")
        fsync_path(incoming)
        incoming.rename(folder / part.name)

    store.each(bring, missing)
    for name in here - {part.name for part in head.parts}:
        (folder / name).unlink()
    return sum(part.size_bytes for part in missing)


def put_in_place(store: ObjectStore, layout: CorpusLayout, head: Head) -> None:
    """Make the journal of a corpus what `head` says; a journal with anything else in it is set aside.

    Killed at any point, the next call does it again. Nobody may have the corpus open for writing.
    """
    pull_parts(store, layout, head)
    incoming = layout.folder / ".incoming-journal"
    shutil.rmtree(incoming, ignore_errors=True)
    incoming.mkdir()
    for part in head.parts:
        name = f"{part.first:020d}-{part.last:020d}.kept" if part.is_compacted else f"{part.first:020d}.log"
        link_or_copy(layout.folder / PULLED / part.name, incoming / name)
    create_segment(incoming, head.last_offset + 1)  # what follows is appended there, not to a linked file
    replace_file(incoming / DURABLE, OFFSET.pack(head.last_offset))
    fsync_together([*incoming.iterdir(), incoming])
    set_aside(layout, head.last_offset)
    incoming.rename(layout.journal)
    fsync_path(layout.folder)


def set_aside(layout: CorpusLayout, counted_offset: int) -> None:
    """Move a journal out of the way; it is removed if it has nothing beyond an offset that the store holds."""
    has_more = read_last_offset(layout) > counted_offset
    drop_aside(layout)
    with suppress(FileNotFoundError), (layout.journal / DURABLE).open("r+b") as mark:
        mark.write(OFFSET.pack(0))  # by which readers that follow it know
    with suppress(FileNotFoundError):
        layout.journal.rename(layout.folder / ASIDE)
    if not has_more:
        drop_aside(layout)


def drop_aside(layout: CorpusLayout) -> None:
    """Remove what was set aside before."""
    shutil.rmtree(layout.folder / ASIDE, ignore_errors=True)


def holds(layout: CorpusLayout, head: Head) -> bool:
    """Return whether the journal on this disk goes on from what is in the store: it ends there or later."""
    if not any(layout.journal.glob("*.log")) or read_last_offset(layout) < head.last_offset:
        return not head.parts and not any(layout.journal.glob("*.log"))
    if not head.parts or head.parts[-1].is_compacted:
        return True
    last = head.parts[-1]
    for file in list_files(layout.journal):
        if file.is_compacted and file.last_offset >= last.last:
            return True
        if file.first_offset <= last.first and last.last <= file.last_offset:
            return hashlib.sha256(_read(file.path, last.first, last.last)).hexdigest() == last.sha256
    return True  # the part was of segments that were compacted since


_FAR = (1 << 63) - 1


def _read(path: Path, first: int, last: int) -> bytes:
    """Return the bytes of a segment's records from one offset up to another."""
    with path.open("rb") as file:
        start, size = _range(path, first - 1, last)
        file.seek(start)
        return file.read(size)


def _range(path: Path, after: int, until: int) -> tuple[int, int]:
    """Return where the records of a segment after one offset and up to another begin, and their bytes."""
    with path.open("rb") as file:
        skip_frames(file, after)
        start = file.tell()
        if until >= _FAR:
            return start, os.fstat(file.fileno()).st_size - start
        skip_frames(file, until)
        return start, file.tell() - start


def _heads(corpus: str) -> str:
    return f"{corpus}/journal/heads"


def _part(corpus: str, part: Part) -> str:
    return f"{corpus}/journal/parts/{part.name}"


def list_shipped(store: ObjectStore) -> Iterator[str]:
    """Yield the corpora of which the store has something."""
    yield from (name for name in store.folders("") if not name.startswith("."))
