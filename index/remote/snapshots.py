"""Snapshots in an object store: generations are pushed and pulled; only new files are transferred.

    <corpus>/files/<sha256>                       a file's bytes, under the hash of its content
    <corpus>/generations/<name>/manifest.json     the files of a generation
    <corpus>/CURRENT                              the name of the generation pushed last

Files are pushed first, then the manifest, then the pointer: an interrupted push leaves only unnamed files. The
generation's name authenticates its manifest, and the manifest every file, so a pulled generation is checked in a
temporary folder before it is put in place; after an interrupted pull the old generation serves. One machine writes a
corpus, pushes and prunes it. Any number of others pull, and check everything that they read there.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from sluice.contracts.errors import Conflict, Corrupted, NotFound
from sluice.disk.durable import fsync_path, fsync_together, link_or_copy, replace_pointer, sha256_file
from sluice.disk.object_store import ObjectStore
from sluice.index.folder import CorpusLayout, Pin, WriterLock
from sluice.index.generations.manifest import (
    MANIFEST,
    FileEntry,
    Manifest,
    load_manifest,
    parse_generation_number,
    parse_manifest,
)
from sluice.index.generations.publish import collect, list_generation_names, read_current_name, remove, verify
from sluice.index.journal.journal import Journal
from sluice.index.settings import IndexSettings

_INCOMING = ".tmp-pull"


@dataclass(frozen=True, slots=True)
class Transfer:
    """Result of a push or pull: the files transferred, and the files of the generation that were already present."""

    generation: str
    files_moved: int
    bytes_moved: int
    files_present: int
    bytes_present: int


@dataclass(frozen=True, slots=True)
class Pruned:
    """The generations and files that were removed from the store."""

    generations: tuple[str, ...]
    files: int
    bytes: int


def push(root: Path, corpus: str, store: ObjectStore, name: str | None = None) -> Transfer:
    """Upload a generation (by default the current one) and make it the store's current one.

    Raises `NotFound` when there is no such generation, and `Corrupted` when one of its files differs from the
    manifest; then the store's pointer stays as it was.
    """
    layout = CorpusLayout(root, corpus)
    name = name or read_current_name(layout)
    if name is None or name not in list_generation_names(layout):
        raise NotFound(f"corpus {corpus} has no generation {name or 'yet'}")
    folder = layout.generations / name
    pin = Pin(folder / MANIFEST)
    try:
        content = (folder / MANIFEST).read_bytes()
        files = {entry.sha256: (folder / path, entry) for path, entry in load_manifest(folder).files.items()}
        present = list_present_files(store, corpus)
        missing = {sha256: file for sha256, file in files.items() if present.get(sha256) != file[1].size_bytes}
        store.each(lambda file: _upload(store, corpus, *file), missing.values())
    finally:
        pin.release()
    store.write(manifest_path(corpus, name), content)
    store.write(f"{corpus}/CURRENT", name.encode())
    return _transfer(name, (entry for _, entry in files.values()), set(missing))


def pull(
    root: Path, corpus: str, store: ObjectStore, name: str | None = None, keep: int = IndexSettings().keep_generations
) -> Transfer:
    """Download a generation (by default the store's current one), make it current here, and keep the newest `keep`.

    Readers on this machine serve the old generation until then. Raises `NotFound` when the store has no such
    generation, `Corrupted` when a downloaded file differs from the published one, `Unavailable` while a writer has the
    corpus open, and `Conflict` when the corpus was written here and its journal lacks what the generation covers.
    """
    layout = CorpusLayout(root, corpus)
    name = name or read_stored_current(store, corpus)
    manifest, content = read_stored_manifest(store, corpus, name)
    lock = WriterLock(layout)
    try:
        _check_journal(layout, manifest)
        moved = set() if _is_whole_here(layout, name) else _fetch(layout, store, name, manifest, content)
        # An empty journal: the corpus is listed here, and is not taken for one that is written here.
        layout.journal.mkdir(exist_ok=True)
        replace_pointer(layout.current, f"generations/{name}")
        collect(layout, keep)
    finally:
        lock.release()
    return _transfer(name, list_distinct_files(manifest), moved)


def drop_unstored(layout: CorpusLayout, store: ObjectStore) -> list[str]:
    """Remove the generations here that the store has no more, or never had: they are forgotten, or count nowhere."""
    stored, current = set(list_stored_generations(store, layout.corpus)), read_current_name(layout)
    gone = [name for name in list_generation_names(layout) if name not in stored and name != current]
    return [name for name in gone if remove(layout, name)]


def prune(corpus: str, store: ObjectStore, keep: int) -> Pruned:
    """Remove all but the newest `keep` generations and the current one, and the files that no kept manifest names.

    Must not run during a push of the corpus. Raises `Corrupted`, before anything is removed, when a kept manifest
    cannot be read.
    """
    names = list_stored_generations(store, corpus)
    kept = {*names[:keep], read_stored_current(store, corpus)}
    wanted = {
        entry.sha256 for name in kept for entry in list_distinct_files(read_stored_manifest(store, corpus, name)[0])
    }
    gone = tuple(name for name in names if name not in kept)
    present = list_present_files(store, corpus)
    loose = [sha256 for sha256 in present if sha256 not in wanted]
    store.delete(manifest_path(corpus, name) for name in gone)
    store.each(lambda sha256: store.delete([file_path(corpus, sha256)]), loose)
    return Pruned(gone, len(loose), sum(present[sha256] for sha256 in loose))


def _fetch(layout: CorpusLayout, store: ObjectStore, name: str, manifest: Manifest, content: bytes) -> set[str]:
    """Put a generation in place from local files and files of the store, and return the downloaded hashes."""
    incoming = layout.generations / _INCOMING
    shutil.rmtree(incoming, ignore_errors=True)
    try:
        for path in manifest.files:
            (incoming / path).parent.mkdir(parents=True, exist_ok=True)
        moved = _collect_files(layout, store, manifest, incoming)
        (incoming / MANIFEST).write_bytes(content)
        folders = {(incoming / path).parent for path in manifest.files}
        fsync_together([*(incoming / path for path in (*manifest.files, MANIFEST)), *folders, incoming])
        shutil.rmtree(layout.generations / name, ignore_errors=True)  # a damaged one, which no reader serves
        incoming.rename(layout.generations / name)
    except BaseException:
        shutil.rmtree(incoming, ignore_errors=True)
        raise
    fsync_path(layout.generations)
    return moved


def _collect_files(layout: CorpusLayout, store: ObjectStore, manifest: Manifest, incoming: Path) -> set[str]:
    """Link intact local files, download and check the others, and return the hashes downloaded."""
    here = _files_here(layout)
    places: dict[str, list[Path]] = {}
    for path, entry in manifest.files.items():
        places.setdefault(entry.sha256, []).append(incoming / path)

    def bring(entry: FileEntry) -> str | None:
        first, *others = places[entry.sha256]
        own = here.get(entry.sha256)
        is_own = own is not None and _is_intact(own, entry)
        if is_own and own is not None:
            link_or_copy(own, first)
        else:
            _download(store, layout.corpus, entry, first)
        for other in others:
            link_or_copy(first, other)
        return None if is_own else entry.sha256

    return set(filter(None, store.each(bring, list_distinct_files(manifest))))


def _download(store: ObjectStore, corpus: str, entry: FileEntry, target: Path) -> None:
    try:
        found = store.download(file_path(corpus, entry.sha256), entry.size_bytes, target)
    except NotFound as error:
        raise Corrupted(f"the object store lacks a file of corpus {corpus}: {entry.sha256}") from error
    if found != entry.sha256:
        raise Corrupted(f"the object store's {file_path(corpus, entry.sha256)} is damaged: its hash is {found}")


def _upload(store: ObjectStore, corpus: str, path: Path, entry: FileEntry) -> None:
    """Upload a file if it is intact: a damaged file must not be stored under its hash."""
    if not _is_intact(path, entry):
        raise Corrupted(f"{path.name} of corpus {corpus} is damaged; run `sluice snapshot --verify`")
    store.upload(file_path(corpus, entry.sha256), path)


def _files_here(layout: CorpusLayout) -> dict[str, Path]:
    """Return the paths of local generations' files, by hash; the newest generation with a readable manifest wins."""
    found: dict[str, Path] = {}
    for name in list_generation_names(layout):
        try:
            manifest = load_manifest(layout.generations / name)
        except (Corrupted, NotFound):
            continue
        for path, entry in manifest.files.items():
            found.setdefault(entry.sha256, layout.generations / name / path)
    return found


def _is_intact(path: Path, entry: FileEntry) -> bool:
    try:
        return path.stat().st_size == entry.size_bytes and sha256_file(path) == entry.sha256
    except OSError:
        return False


def _is_whole_here(layout: CorpusLayout, name: str) -> bool:
    if name not in list_generation_names(layout):
        return False
    try:
        verify(layout.root, layout.corpus, name)
    except (Corrupted, NotFound):
        return False
    return True


def _check_journal(layout: CorpusLayout, manifest: Manifest) -> None:
    """Raise `Conflict` unless a corpus that is written here has all records of the generation in its journal."""
    if not any(layout.journal.glob("*.log")):
        return
    journal = Journal(layout.journal)
    journal.close()
    if 0 < journal.last_offset < manifest.journal_offset:
        raise Conflict(
            f"corpus {layout.corpus} has a journal of its own that ends at {journal.last_offset}, and the generation "
            f"covers {manifest.journal_offset}: restore the journal, or pull into another data directory"
        )


def _transfer(name: str, entries: Iterable[FileEntry], moved: set[str]) -> Transfer:
    sizes = {entry.sha256: entry.size_bytes for entry in entries}
    bytes_moved = sum(size for sha256, size in sizes.items() if sha256 in moved)
    return Transfer(name, len(moved), bytes_moved, len(sizes) - len(moved), sum(sizes.values()) - bytes_moved)


GENERATION_NAME = re.compile(r"g\d{8,}-[0-9a-f]{16}")
"""Allowed names of a generation: a name from the store becomes the name of a folder here."""
_POINTER_BYTES = 100


def read_stored_current(store: ObjectStore, corpus: str) -> str:
    """Return the generation that the store's pointer names. Raises `NotFound` when the corpus was never pushed."""
    name = store.read(f"{corpus}/CURRENT")[:_POINTER_BYTES].decode("utf-8", "replace").strip()
    _check_name(name)
    return name


def list_stored_generations(store: ObjectStore, corpus: str) -> list[str]:
    """Return the generations whose manifest is in the store, newest first."""
    names = {path.split("/")[-2] for path in store.sizes(f"{corpus}/generations") if path.endswith(f"/{MANIFEST}")}
    return sorted(filter(GENERATION_NAME.fullmatch, names), key=parse_generation_number, reverse=True)


def read_stored_manifest(store: ObjectStore, corpus: str, name: str) -> tuple[Manifest, bytes]:
    """Return a generation's manifest and its bytes. Raises `NotFound`, or `Corrupted` when it and its name differ."""
    _check_name(name)
    content = store.read(manifest_path(corpus, name))
    try:
        manifest = parse_manifest(name, content)
    except Corrupted as error:
        raise Corrupted(f"in the object store {error}") from error
    for path in manifest.files:
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts or path == MANIFEST:
            raise Corrupted(f"the object store's manifest of {name} names {path!r}, which is outside a generation")
    if manifest.corpus != corpus:
        raise Corrupted(f"the object store's {name} belongs to corpus {manifest.corpus}, not to {corpus}")
    return manifest, content


def list_present_files(store: ObjectStore, corpus: str) -> dict[str, int]:
    """Return the size of every file in the store, by hash."""
    return {path.rsplit("/", 1)[-1]: size for path, size in store.sizes(f"{corpus}/files").items()}


def list_distinct_files(manifest: Manifest) -> list[FileEntry]:
    """Return one file entry for each distinct hash."""
    return list({entry.sha256: entry for entry in manifest.files.values()}.values())


def file_path(corpus: str, sha256: str) -> str:
    """Return the path of a file's bytes in the store."""
    return f"{corpus}/files/{sha256}"


def manifest_path(corpus: str, name: str) -> str:
    """Return the path of a generation's manifest in the store."""
    return f"{corpus}/generations/{name}/{MANIFEST}"


def _check_name(name: str) -> None:
    if not GENERATION_NAME.fullmatch(name):
        raise Corrupted(f"the object store names a generation {name!r}, which is no name of one")
