"""What an object store holds of a corpus: where it stands there, and how it is read and not trusted."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from pydantic import ValidationError

from sluice.contracts.errors import Corrupted
from sluice.index.generations.manifest import (
    MANIFEST,
    FileEntry,
    Manifest,
    make_generation_name,
    parse_generation_number,
)
from sluice.index.remote.object_store import ObjectStore

GENERATION_NAME = re.compile(r"g\d{8,}-[0-9a-f]{16}")
"""What a generation may be called: a name from the store becomes a folder here, so nothing else will do."""
_POINTER_BYTES = 100


def read_stored_current(store: ObjectStore, corpus: str) -> str:
    """The generation that the store's pointer names. Raises `NotFound` when the corpus was never pushed."""
    name = store.read(pointer_path(corpus))[:_POINTER_BYTES].decode("utf-8", "replace").strip()
    _check_name(name)
    return name


def list_stored_generations(store: ObjectStore, corpus: str) -> list[str]:
    """The generations whose manifest is in the store, newest first."""
    names = {path.split("/")[-2] for path in store.sizes(f"{corpus}/generations") if path.endswith(f"/{MANIFEST}")}
    return sorted(filter(GENERATION_NAME.fullmatch, names), key=parse_generation_number, reverse=True)


def read_stored_manifest(store: ObjectStore, corpus: str, name: str) -> tuple[Manifest, bytes]:
    """A generation's manifest and its bytes. Raises `NotFound`, or `Corrupted` when it is not what its name says."""
    _check_name(name)
    content = store.read(manifest_path(corpus, name))
    if make_generation_name(parse_generation_number(name), content) != name:
        raise Corrupted(f"the object store's manifest of {name} does not match the hash in its name")
    try:
        manifest = Manifest.model_validate_json(content)
    except ValidationError as error:
        raise Corrupted(f"the object store's manifest of {name} cannot be read: {error}") from error
    for path in manifest.files:
        if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts or path == MANIFEST:
            raise Corrupted(f"the object store's manifest of {name} names {path!r}, which is outside a generation")
    if manifest.corpus != corpus:
        raise Corrupted(f"the object store's {name} belongs to corpus {manifest.corpus}, not to {corpus}")
    return manifest, content


def list_present_files(store: ObjectStore, corpus: str) -> dict[str, int]:
    """The size of every file in the store, by hash."""
    return {path.rsplit("/", 1)[-1]: size for path, size in store.sizes(f"{corpus}/files").items()}


def list_distinct_files(manifest: Manifest) -> list[FileEntry]:
    """One entry for each content."""
    return list({entry.sha256: entry for entry in manifest.files.values()}.values())


def file_path(corpus: str, sha256: str) -> str:
    """Where a file's bytes stand."""
    return f"{corpus}/files/{sha256}"


def manifest_path(corpus: str, name: str) -> str:
    """Where a generation's manifest stands."""
    return f"{corpus}/generations/{name}/{MANIFEST}"


def pointer_path(corpus: str) -> str:
    """Where the name of the current generation stands."""
    return f"{corpus}/CURRENT"


def _check_name(name: str) -> None:
    if not GENERATION_NAME.fullmatch(name):
        raise Corrupted(f"the object store names a generation {name!r}, which is no name of one")
