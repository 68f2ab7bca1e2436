"""Publishes generations of the graph of one corpus in its folder, and reads the current one.

    graph-000000000012/graph.bin      the arrays
    graph-000000000012/manifest.json  their description and hash
    CURRENT                           a symbolic link to the folder

A generation is written to a temporary folder, flushed, renamed, and the pointer is swapped last: killed at any point,
either the old one or the new one is current, and both are whole. Two are kept, and the newest with a Cypher file; a
reader of an older one can go on. All of it may be deleted at any time: it is folded again from the ledger.

The arrays lie in the file one after the other, to be mapped into memory. It begins with `SLUICEGRAPH`, the version of
the format and the length of the header in bytes (both 32 bits, little endian), then the header as JSON: of each array
its name, type, count and offset. Arrays begin at multiples of 64 bytes.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import re
import shutil
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from sluice.contracts.base import Moment, Sha256, Value
from sluice.contracts.errors import Corrupted, Unavailable
from sluice.contracts.graph.model import CitationRow, DocumentRow
from sluice.disk.durable import fsync_path, lock_file, replace_pointer, write_durably
from sluice.graph.generations.fold import fold
from sluice.graph.generations.stated import Arrays
from sluice.graph.generations.view import GraphView

POINTER = "CURRENT"
FILE = "graph.bin"
MANIFEST = "manifest.json"
KEPT = 2
BESIDE = "cypher"
"""Folder that `graph.cypher` adds to a generation later. The newest generation with one is kept besides."""
_NAME = re.compile(r"graph-(\d{12})")
_TEMPORARY = ".writing-"


class Generation(Value):
    """The manifest of a published generation."""

    name: str
    format: int
    version: int
    """Changes of the corpus's graph that it covers."""
    documents: int
    nodes: int
    edges: int
    definitions: int
    steps: int
    sha256: Sha256
    """Hash of `graph.bin`: the same rows give the same."""
    published_at: Moment
    seconds: float
    """Seconds that folding and writing took."""


def publish(
    folder: Path,
    documents: Iterable[DocumentRow],
    citations: Iterable[CitationRow],
    *,
    version: int,
    now: datetime,
    seconds: Callable[[], float],
) -> Generation:
    """Fold the rows and make them the current generation of the corpus whose graph lies in `folder`.

    `seconds` is a clock that only goes forward. The caller holds `lock_folder`. Raises `OSError` where the disk
    refuses; the current generation then stays.
    """
    began = seconds()
    folder.mkdir(parents=True, exist_ok=True)
    _sweep(folder)
    number = max((int(published[-12:]) for published in _names(folder)), default=0) + 1
    name = f"graph-{number:012}"
    temporary = folder / f"{_TEMPORARY}{name}"
    temporary.mkdir()
    try:
        arrays = fold(documents, citations)
        sha256 = write_arrays(temporary / FILE, arrays)
        view = GraphView(arrays, name, version)
        generation = Generation(
            name=name,
            format=FORMAT,
            version=version,
            documents=view.documents,
            nodes=view.nodes,
            edges=view.edges,
            definitions=view.definitions,
            steps=len(view.step_targets),
            sha256=sha256,
            published_at=now,
            seconds=round(seconds() - began, 3),
        )
        write_durably(temporary / MANIFEST, generation.model_dump_json(indent=1).encode() + b"\n")
        fsync_path(temporary)
        temporary.rename(folder / name)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    fsync_path(folder)
    replace_pointer(folder / POINTER, name)
    _collect(folder, name)
    return generation


def current(folder: Path) -> Generation | None:
    """Return the current generation; None: nothing is published. Raises `Corrupted` where it cannot be read."""
    try:
        name = os.readlink(folder / POINTER)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Corrupted(f"{folder / POINTER} is no pointer: {error}") from error
    try:
        generation = Generation.model_validate_json((folder / name / MANIFEST).read_bytes())
    except (OSError, ValidationError, json.JSONDecodeError) as error:
        raise Corrupted(f"the manifest of {folder / name} cannot be read: {error}") from error
    if not _NAME.fullmatch(name) or generation.name != name or generation.format != FORMAT:
        raise Corrupted(f"{folder / name} is of format {generation.format} and named {generation.name}")
    return generation


def open_generation(folder: Path, generation: Generation) -> GraphView:
    """Map a generation into memory. Raises `Corrupted` where its file is missing or differs from its hash."""
    arrays = open_arrays(folder / generation.name / FILE, generation.sha256)
    try:
        return GraphView(arrays, generation.name, generation.version)
    except (KeyError, ValueError, IndexError) as error:
        raise Corrupted(f"{folder / generation.name} lacks arrays: {error!r}") from error


def verified(folder: Path) -> Generation | None:
    """Return the current generation after reading its whole file; None: there is none, or a damaged one is thrown away.

    For publishers: None means that the rows have to be folded.
    """
    try:
        generation = current(folder)
        if generation is not None:
            open_generation(folder, generation)
    except Corrupted:
        discard(folder)
        return None
    return generation


def discard(folder: Path) -> None:
    """Throw away all generations of a corpus. The caller holds `lock_folder`; readers of an open one can go on."""
    (folder / POINTER).unlink(missing_ok=True)
    _sweep(folder)
    for name in _names(folder):
        shutil.rmtree(folder / name, ignore_errors=True)


@contextmanager
def lock_folder(folder: Path, timeout_seconds: float = 0.0) -> Iterator[None]:
    """Hold the exclusive right to publish in a folder. Raises `Unavailable` where another process holds it."""
    folder.mkdir(parents=True, exist_ok=True)
    refusal = Unavailable(f"another process publishes the graph in {folder}")
    with lock_file(folder / ".lock", refusal, timeout_seconds=timeout_seconds):
        yield


def _names(folder: Path) -> list[str]:
    with suppress(FileNotFoundError):
        return sorted(entry.name for entry in folder.iterdir() if _NAME.fullmatch(entry.name))
    return []


def _sweep(folder: Path) -> None:
    """Remove the half-written files of a killed process."""
    for entry in folder.glob(f"{_TEMPORARY}*"):
        shutil.rmtree(entry, ignore_errors=True)


def _collect(folder: Path, newest: str) -> None:
    older = [name for name in _names(folder) if name != newest]
    asked = next((name for name in reversed(older) if (folder / name / BESIDE).is_dir()), None)
    for name in older[: 1 - KEPT or None]:
        if name != asked:
            shutil.rmtree(folder / name, ignore_errors=True)


_MAGIC = b"SLUICEGRAPH"
FORMAT = 1
"""Raised when arrays change their meaning: files of another format are folded again."""
_PREFIX = struct.Struct(f"<{len(_MAGIC)}sII")
_ALIGNMENT = 64


def write_arrays(path: Path, arrays: Arrays) -> str:
    """Write the arrays in the order of their names, flush them to the disk, and return the SHA-256 of the file."""
    described: dict[str, list[str | int]] = {}
    position = 0
    for name, array in sorted(arrays.items()):
        described[name] = [array.dtype.str, len(array), position]
        position = _aligned(position + array.nbytes)
    header = json.dumps(described, separators=(",", ":")).encode()
    prefix = _PREFIX.pack(_MAGIC, FORMAT, len(header)) + header
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for content in (prefix, *(array.tobytes() for _, array in sorted(arrays.items()))):
            padded = content + b"\0" * (_aligned(len(content)) - len(content))
            file.write(padded)
            digest.update(padded)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def open_arrays(path: Path, sha256: str) -> Arrays:
    """Map a file into memory and compare its hash. The file may be deleted meanwhile. Raises `Corrupted`."""
    try:
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise Corrupted(f"{path} cannot be mapped: {error}") from error
    if hashlib.sha256(mapped).hexdigest() != sha256:
        raise Corrupted(f"{path} does not have the hash of its manifest")
    try:
        magic, version, length = _PREFIX.unpack_from(mapped)
        if (magic, version) != (_MAGIC, FORMAT):
            raise Corrupted(f"{path} has another format: {magic!r} {version}")
        described = json.loads(mapped[_PREFIX.size : _PREFIX.size + length])
        start = _aligned(_PREFIX.size + length)
        return {
            name: _array(mapped, dtype, count, start + position) for name, (dtype, count, position) in described.items()
        }
    except (struct.error, ValueError, TypeError) as error:
        raise Corrupted(f"{path} cannot be read: {error}") from error


def _array(mapped: mmap.mmap, dtype: str, count: int, offset: int) -> NDArray[Any]:
    if count == 0:
        return np.zeros(0, np.dtype(dtype))
    return np.frombuffer(mapped, np.dtype(dtype), count, offset)


def _aligned(position: int) -> int:
    return -(-position // _ALIGNMENT) * _ALIGNMENT
