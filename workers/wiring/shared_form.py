"""Moves the data of a machine to the object store that machines share, and back.

Setting `object_store.url` is enough to go there: the first owner of the index puts what is only local into the store at
its start, and goes on after an interruption. `put_back` is the way back, before the setting is taken away again.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from sluice.contracts.errors import Conflict
from sluice.disk.durable import replace_file
from sluice.disk.object_store import PART_BYTES, ObjectStore
from sluice.evaluation.learned_gate import share_models
from sluice.workers.runtime.blob_store import blob_path
from sluice.workers.runtime.shared_blobs import SharedBlobs
from sluice.workers.wiring.corpora import FITTED_FOLDER


def put_up(folder: Path, store: ObjectStore) -> None:
    """Move what machines share besides corpora from a data directory to the object store. Raises `Conflict` if that
    holds another memory under the same name; whatever else is there stays. May run again."""
    blobs = SharedBlobs(store)
    store.each(lambda path: store.create(blobs.path_of(path.stem), path.read_bytes()), folder.glob("blobs/*/*/*.zst"))
    for path in sorted((folder / "memory").glob("*/*.json*")):
        place, whole = f"memory/{path.parent.name}/{path.name}".removesuffix(".jsonl"), path.read_bytes()
        for offset in range(0, len(whole), PART_BYTES):
            part = whole[offset : offset + PART_BYTES]
            name = f"{place}/{offset:015d}" if path.suffix == ".jsonl" else place
            if not store.create(name, part) and store.read(name) != part:
                raise Conflict(f"the object store holds another {name}: name another prefix in object_store.url")
    for path in (folder / FITTED_FOLDER).glob("*"):
        store.create(f"{FITTED_FOLDER}/{path.name}", path.read_bytes())
    share_models(folder, store)
    for name in ("blobs", "memory"):
        shutil.rmtree(folder / name, ignore_errors=True)


def put_back(folder: Path, store: ObjectStore) -> int:
    """Undo `put_up`; the store stays as it is. Returns how many files came. May run again."""
    wanted = list(_files(store))

    def bring(file: tuple[Path, list[str]]) -> None:
        path, parts = file
        (folder / path).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if path.parts[0] != "blobs" or not (folder / path).exists():
            replace_file(folder / path, b"".join(map(store.read, parts)), 0o600)

    store.each(bring, wanted)
    share_models(folder, store)
    return len(wanted)


def _files(store: ObjectStore) -> Iterator[tuple[Path, list[str]]]:
    """Yield the files of a data directory, each with the objects that make it up."""
    for name in store.sizes("blobs"):
        if len(name.split("/")) == 3 and len(Path(name).stem) == 64:  # the others are set aside
            yield Path("blobs") / blob_path(Path(name).stem), [name]
    journals: dict[Path, list[str]] = {}
    for name in sorted(store.sizes("memory")):
        path = Path(name)
        if path.name.isdecimal():
            journals.setdefault(path.parent.with_name(f"{path.parent.name}.jsonl"), []).append(name)
        else:
            yield path, [name]
    yield from journals.items()
    yield from ((Path(name), [name]) for name in store.sizes(FITTED_FOLDER))
