"""Generations on disk: publishing, verifying, listing, rolling back, collecting.

Publishing goes temporary folder → files → manifest → fsync of all of them beside the self-test → rename → fsync of the
parent → swap of `CURRENT` → fsync. Killed at any point, it leaves the old generation or the new one current, both
complete. Unchanged files are hard links, and their hashes are carried over.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sluice.contracts.errors import Corrupted, NotFound, Unavailable
from sluice.disk.durable import (
    StrPath,
    fsync_meanwhile,
    fsync_path,
    is_shortage,
    link_or_copy,
    replace_file,
    replace_pointer,
    sha256_file,
)
from sluice.index.folder import CorpusLayout, Pin
from sluice.index.generations.manifest import (
    MANIFEST,
    Coverage,
    FileEntry,
    Manifest,
    load_manifest,
    make_generation_name,
    parse_generation_number,
)

_TEMPORARY = ".tmp-"
_TRASH = ".trash-"
_NAME = re.compile(r"g\d{8}-[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class Rebuild:
    """A generation rebuilt from the journal alone, and the id-set hash before and after."""

    generation: Coverage
    hash_before: str
    hash_after: str

    @property
    def is_proven(self) -> bool:
        """Whether the journal alone gives the same set of chunks."""
        return self.hash_before == self.hash_after


@dataclass(frozen=True, slots=True)
class GenerationInfo:
    """A generation as it is listed. `problem` says why its manifest cannot be read."""

    name: str
    is_current: bool
    journal_offset: int = 0
    document_count: int = 0
    chunk_count: int = 0
    size_bytes: int = 0
    created_at: datetime | None = None
    id_set_hash: str = ""
    problem: str = ""


class VerifiedFiles:
    """Files whose hash was checked; a file with the same inode, size and time is not read again."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int, int], str] = {}

    def check(self, folder: str, name: str, entry: FileEntry) -> None:
        """Check a file's size and hash. Raises `Corrupted` if they differ, and `Unavailable` if it cannot be read."""
        path = f"{folder}/{name}"
        try:
            status = os.stat(path)
            mark = (status.st_ino, status.st_size, status.st_mtime_ns)
            if self._seen.get(mark) == entry.sha256 and status.st_size == entry.size_bytes:
                self._seen[mark] = self._seen.pop(mark)
                return
            found = sha256_file(path) if status.st_size == entry.size_bytes else f"{status.st_size} bytes"
        except OSError as error:
            failure = Unavailable if is_shortage(error) else Corrupted
            raise failure(f"{_of_generation(path)} cannot be read: {error}") from error
        if found != entry.sha256:
            raise Corrupted(f"{_of_generation(path)} is damaged: found {found}")
        self._seen[mark] = entry.sha256

    def __len__(self) -> int:
        return len(self._seen)

    def keep_latest(self, count: int) -> None:
        """Forget all but the `count` files that were checked last: older generations are not opened again."""
        for mark in list(self._seen)[: max(0, len(self._seen) - count)]:
            del self._seen[mark]


@dataclass(frozen=True, slots=True)
class Sources:
    """The files of a new generation: for each path below its folder, the file to link to it."""

    links: Mapping[str, str]
    contents: Mapping[str, bytes]
    """Content of small files that are written for each generation, by path."""


def publish(
    layout: CorpusLayout,
    sources: Sources,
    carried: Mapping[str, FileEntry],
    describe: Callable[[dict[str, FileEntry]], Manifest],
    self_test: Callable[[Path, Manifest], None],
    before_swap: Callable[[], None],
    threads: Executor,
) -> tuple[str, Manifest]:
    """Put a generation on disk, make it current, and return its name and manifest.

    `carried` are the entries of files that are already hashed and flushed: those of an earlier generation, and segments
    merged in the background. `describe` makes the manifest of the files' entries, `self_test` raises when the opened
    generation is wrong, `before_swap` raises when this writer was fenced. Nothing is left behind when one of them
    raises. Files are flushed in `threads`, during the self-test.
    """
    temporary = layout.generations / f"{_TEMPORARY}{layout.corpus}"
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        entries = _fill(temporary, sources, carried)
        manifest = describe(entries)
        content = manifest.encode()
        (temporary / MANIFEST).write_bytes(content)
        new = [name for name in entries if name not in carried]
        new += [MANIFEST, "segments", "terms", ""]
        with fsync_meanwhile([f"{temporary}/{name}" for name in new], threads):
            self_test(temporary, manifest)
        before_swap()
        name = make_generation_name(manifest.number, content)
        temporary.rename(layout.generations / name)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    fsync_path(layout.generations)
    replace_pointer(layout.current, f"generations/{name}")
    return name, manifest


def read_current_name(layout: CorpusLayout) -> str | None:
    """Read the name that `CURRENT` points to; None before the first generation, or for a lost or damaged pointer."""
    return read_pointer(os.fspath(layout.current))


def read_pointer(pointer: str) -> str | None:
    """Read the generation that the link at the path `pointer` names, as `read_current_name` does. One system call."""
    try:
        name = os.readlink(pointer).rpartition("/")[2]
    except OSError:  # there is none, or it is no link
        return None
    return name if _NAME.fullmatch(name) else None


def read_rollback_offset(layout: CorpusLayout) -> int | None:
    """Read the offset up to which a rollback leaves records out of the current generation; None without a rollback."""
    try:
        name, offset = layout.held.read_text().split()
        return int(offset) if name == read_current_name(layout) else None
    except (OSError, ValueError):
        return None


def list_generation_names(layout: CorpusLayout) -> list[str]:
    """Return the complete generations on disk, newest first."""
    if not layout.generations.is_dir():
        return []
    with os.scandir(layout.generations) as entries:
        names = [entry.name for entry in entries if _NAME.fullmatch(entry.name) and entry.is_dir()]
    return sorted(names, key=parse_generation_number, reverse=True)


def list_candidates(layout: CorpusLayout) -> list[str]:
    """List the generations in the order in which to try them: the current one, missing or not, and older ones.

    Newer ones are left out, as they may have been rolled back. Without a pointer, all are listed, newest first.
    """
    current, names = read_current_name(layout), list_generation_names(layout)
    if current is None:
        return names
    number = parse_generation_number(current)
    return [current, *(name for name in names if name != current and parse_generation_number(name) <= number)]


def verify_files(folder: Path, manifest: Manifest, verified: VerifiedFiles) -> None:
    """Raise `Corrupted`, naming the first file that is missing or not as in the manifest. Raises also as `check`."""
    place = os.fspath(folder)
    for name, entry in manifest.files.items():
        verified.check(place, name, entry)
    verified.keep_latest(len(manifest.files))


def verify(root: Path, corpus: str, name: str) -> Manifest:
    """Re-hash everything in a generation. Raises `NotFound`, `Corrupted`, or `Unavailable` where it cannot be read."""
    folder = _folder(CorpusLayout(root, corpus), name)
    manifest = load_manifest(folder)
    verify_files(folder, manifest, VerifiedFiles())
    return manifest


def list_generations(root: Path, corpus: str) -> tuple[GenerationInfo, ...]:
    """Return the generations of a corpus, newest first."""
    layout = CorpusLayout(root, corpus)
    current = read_current_name(layout)
    return tuple(_info(layout.generations / name, name == current) for name in list_generation_names(layout))


def rollback(root: Path, corpus: str, name: str) -> Coverage:
    """Verify an earlier generation and make it current. It stays current until there are new records to publish."""
    layout = CorpusLayout(root, corpus)
    pin = Pin(_folder(layout, name) / MANIFEST)
    try:
        manifest = verify(root, corpus, name)
        if name == list_generation_names(layout)[0]:
            layout.held.unlink(missing_ok=True)
        else:
            left_out = max(generation.journal_offset for generation in list_generations(root, corpus))
            replace_file(layout.held, f"{name} {left_out}\n".encode())
        replace_pointer(layout.current, f"generations/{name}")
    finally:
        pin.release()
    return Coverage.of(name, manifest)


def collect(layout: CorpusLayout, keep: int) -> list[str]:
    """Remove all but the newest `keep` generations, the current one, and those that readers have pinned."""
    # The folder is listed once: a generation that is published from here on cannot be removed.
    return [name for name in list_generation_names(layout)[keep:] if remove(layout, name)]


def drop_others(layout: CorpusLayout) -> list[str]:
    """Remove every generation but the current one. A reader keeps the files that it has open until its next query."""
    current = read_current_name(layout)
    dropped = [name for name in list_generation_names(layout) if name != current]
    for name in dropped:
        _put_away(layout.generations / name)
    return dropped


def sweep(layout: CorpusLayout) -> None:
    """Remove what a killed writer left behind: half-written and half-removed generations."""
    layout.generations.mkdir(parents=True, exist_ok=True)
    for path in layout.generations.iterdir():
        if path.name.startswith((_TEMPORARY, _TRASH)):
            shutil.rmtree(path)


def _fill(folder: Path, sources: Sources, carried: Mapping[str, FileEntry]) -> dict[str, FileEntry]:
    for part in ("segments", "terms"):
        (folder / part).mkdir(parents=True)
    place = os.fspath(folder)
    for name, source in sources.links.items():
        link_or_copy(source, f"{place}/{name}")
    for name, content in sources.contents.items():
        (folder / name).write_bytes(content)
    names = sorted([*sources.links, *sources.contents])
    return {name: carried.get(name) or make_file_entry(f"{place}/{name}") for name in names}


def make_file_entry(path: StrPath) -> FileEntry:
    """Hash and measure a file."""
    return FileEntry(sha256=sha256_file(path), size_bytes=os.stat(path).st_size)


def flush_file(path: StrPath) -> FileEntry:
    """Flush a file to the disk, hash and measure it."""
    fsync_path(path)
    return make_file_entry(path)


def _of_generation(path: str) -> str:
    """Return the name of a file for error messages."""
    *_, generation, _, name = path.split("/")
    return f"{name} of generation {generation}"


def _folder(layout: CorpusLayout, name: str) -> Path:
    if name not in list_generation_names(layout):
        raise NotFound(f"corpus {layout.corpus} has no generation {name}")
    return layout.generations / name


def _info(folder: Path, is_current: bool) -> GenerationInfo:
    try:
        manifest = load_manifest(folder)
    except (Corrupted, NotFound, Unavailable) as error:
        return GenerationInfo(folder.name, is_current, problem=str(error))
    size_bytes = sum(entry.size_bytes for entry in manifest.files.values())
    same = ("journal_offset", "document_count", "chunk_count", "created_at", "id_set_hash")
    facts: dict[str, Any] = {field: getattr(manifest, field) for field in same}
    return GenerationInfo(folder.name, is_current, size_bytes=size_bytes, **facts)


def remove(layout: CorpusLayout, name: str) -> bool:
    """Remove a generation unless it is current or pinned, and return whether it was removed. The rename is atomic."""
    folder = layout.generations / name
    pin = Pin.exclusive(folder / MANIFEST)
    if read_current_name(layout) == name:  # checked under the lock that a rollback to it would need
        if pin is not None:
            pin.release()
        return False
    if pin is None and (folder / MANIFEST).exists():
        return False
    try:
        _put_away(folder)
    finally:
        if pin is not None:
            pin.release()
    return True


def _put_away(folder: Path) -> None:
    """Remove a generation. After a kill half-way it counts as removed, and the next writer removes the rest."""
    trash = folder.with_name(_TRASH + folder.name)
    folder.rename(trash)
    shutil.rmtree(trash)
