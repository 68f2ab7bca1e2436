"""The manifest of a generation: the parts that belong to it, and the hash of every byte.

The folder's name ends with the hash of the manifest, and the manifest holds the hash of every file, so the name that
`CURRENT` points to authenticates everything below it.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from sluice.contracts.base import Moment, Sha256, Value
from sluice.contracts.errors import Conflict, Corrupted, NotFound, Unavailable
from sluice.disk.durable import is_shortage

MANIFEST = "manifest.json"
FORMAT = 3
"""Version of the layout of a generation's files: 1 had four files per segment, 2 the terms of one language."""
_MODULUS = 1 << 256


class FileEntry(Value):
    """A file's hash and size."""

    sha256: Sha256
    size_bytes: int


class SegmentEntry(Value):
    """A vector segment: its name, its numbers of documents and chunks, and the file that lists its dead documents."""

    name: str
    document_count: int
    chunk_count: int
    dead_file: str | None = None
    dead_document_count: int = 0


@dataclass(frozen=True, slots=True)
class Coverage:
    """The extent of a generation, or of a view that is based on it. Counts are of live documents and chunks."""

    corpus: str
    name: str
    journal_offset: int
    document_count: int
    chunk_count: int
    model_fingerprint: str | None
    dimension: int | None

    @classmethod
    def of(cls, name: str, state: Any) -> Coverage:
        """Return what a manifest, or the state of a collection, says of the generation `name`."""
        facts: dict[str, Any] = {
            field.name: getattr(state, field.name) for field in fields(cls) if field.name != "name"
        }
        return cls(name=name, **facts)

    def check_dimension(self, vector: NDArray[np.float32]) -> None:
        """Raise `Conflict` when the vector's dimension is not the corpus's."""
        if vector.shape != (self.dimension,):
            raise Conflict(
                f"corpus {self.corpus} holds vectors of {self.model_fingerprint} with {self.dimension} dimensions; "
                f"the query has {vector.shape}: embed it with that model"
            )


class Manifest(Value):
    """Everything a generation consists of. Counts are of live documents and chunks."""

    format: int = FORMAT
    number: int
    corpus: str
    epoch: int
    created_at: Moment
    journal_offset: int
    document_count: int
    chunk_count: int
    next_chunk_number: int
    id_set_hash: Sha256
    model_fingerprint: str | None
    dimension: int | None
    library_versions: dict[str, str]
    segments: tuple[SegmentEntry, ...]
    files: dict[str, FileEntry]

    def encode(self) -> bytes:
        """Return the bytes of `manifest.json`."""
        return self.model_dump_json(indent=1).encode() + b"\n"


def make_generation_name(number: int, manifest: bytes) -> str:
    """Return `g<number>-<first 16 hex digits of the manifest's SHA-256>`."""
    return f"g{number:08d}-{hashlib.sha256(manifest).hexdigest()[:16]}"


def parse_generation_number(name: str) -> int:
    """Return the number in a generation's name."""
    return int(name[1:9])


def load_manifest(folder: Path) -> Manifest:
    """Return the manifest of a generation, checked against the folder's name.

    Raises `NotFound` when there is none, `Corrupted` when its hash is not the one in the name, and `Unavailable` when
    the machine lacks memory, file handles or disk for reading it.
    """
    try:
        content = (folder / MANIFEST).read_bytes()
    except FileNotFoundError as error:
        if folder.is_dir():
            raise Corrupted(f"generation {folder.name} has no manifest") from error
        raise NotFound(f"generation {folder.name} is not there") from error
    except OSError as error:
        failure = Unavailable if is_shortage(error) else Corrupted
        raise failure(f"the manifest of {folder.name} cannot be read: {error}") from error
    manifest = parse_manifest(folder.name, content)
    if manifest.format != FORMAT:
        raise Corrupted(f"{folder.name} has format {manifest.format}, not {FORMAT}: the writer rebuilds it")
    return manifest


def parse_manifest(name: str, content: bytes) -> Manifest:
    """Parse the manifest of the generation `name`. Raises `Corrupted` when its hash is not the one in the name."""
    if name != make_generation_name(parse_generation_number(name), content):
        raise Corrupted(f"the manifest of {name} does not match the hash in its name")
    try:
        return Manifest.model_validate_json(content)
    except ValidationError as error:
        raise Corrupted(f"the manifest of {name} cannot be read: {error}") from error


class IdSet:
    """A hash of a set of (document, chunk) ids that can be updated as they are added and removed.

    It is the sum of the elements' SHA-256 modulo 2^256 (Clarke et al., 2003, MSet-Add-Hash), so it does not depend on
    the order, and an update costs only the changed elements.
    """

    def __init__(self, hexadecimal: str = "0" * 64) -> None:
        self._sum = int(hexadecimal, 16)

    def add(self, document_key: int, chunk_ids: Iterable[str]) -> None:
        """Add a document and its chunks."""
        self._sum = (self._sum + _sum_hashes(document_key, chunk_ids)) % _MODULUS

    def remove(self, document_key: int, chunk_ids: Iterable[str]) -> None:
        """Remove a document and its chunks."""
        self._sum = (self._sum - _sum_hashes(document_key, chunk_ids)) % _MODULUS

    @property
    def hexadecimal(self) -> str:
        """The hash, as 64 hex digits."""
        return f"{self._sum:064x}"


@lru_cache(maxsize=1)
def library_versions() -> dict[str, str]:
    """Return the versions of the libraries whose files a generation holds."""
    return {name: importlib.metadata.version(name) for name in ("faiss-cpu", "tantivy", "numpy")}


def _sum_hashes(document_key: int, chunk_ids: Iterable[str]) -> int:
    """Return the summed hashes of the chunks and of the document itself: one without chunks is in the set too."""
    key, sha256 = document_key.to_bytes(16, "big"), hashlib.sha256
    elements = [key, *[key + chunk_id.encode() for chunk_id in chunk_ids]]
    return sum([int.from_bytes(sha256(element).digest(), "big") for element in elements])
