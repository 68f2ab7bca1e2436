"""Where backups go: a file or a folder of this machine, or an object store; and how one is fetched from there."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from sluice.contracts.errors import InvalidInput, NotFound
from sluice.disk.durable import fsync_path, replace_file
from sluice.disk.object_store import ObjectStore, open_store
from sluice.index.settings import ObjectStoreSettings

_URL = re.compile(r"[a-z0-9]+://")
PARTIAL = ".partial"


class Target:
    """A place of a backup by path or URL. One that ends with a slash, or is a folder, gets a name by the time."""

    def __init__(self, told: str, store: ObjectStoreSettings, named: str = "") -> None:
        """`named` is the name for a file in a folder. Raises `InvalidInput` for a place that is no file's."""
        self.store: ObjectStore | None = None
        if _URL.match(told):
            folder, _, self.name = told.rpartition("/")
            self.name = self.name or named
            self.store = open_store(folder, store)
            self.told = f"{folder}/{self.name}"
        else:
            path = Path(told).absolute()
            self.path = path / named if told.endswith("/") or path.is_dir() else path
            self.name, self.told = self.path.name, str(self.path)
        if not self.name:
            raise InvalidInput("file", f"{told!r} names no file", "a path, or a URL such as s3://bucket/folder/name")

    def partial(self, work: Path) -> Path:
        """Return the path at which the file is written: beside its place, or in `work` before it is uploaded."""
        if self.store is not None:
            return work / self.name
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return self.path.with_name(f"{self.name}{PARTIAL}")

    def put(self, partial: Path) -> None:
        """Give a whole, flushed file its name; in an object store it appears when it is complete."""
        if self.store is not None:
            self.store.upload(self.name, partial)
            return
        os.replace(partial, self.path)
        fsync_path(self.path.parent)

    def put_beside(self, name: str, content: bytes) -> None:
        """Write a small file beside the backup, whole or not at all."""
        if self.store is not None:
            self.store.write(name, content)
        else:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(self.path.with_name(name), content, 0o600)

    def beside(self, name: str) -> bytes | None:
        """Return a small file beside the backup; None without one."""
        with suppress(NotFound, FileNotFoundError):
            return self.store.read(name) if self.store is not None else self.path.with_name(name).read_bytes()
        return None

    @contextmanager
    def fetched(self, work: Path) -> Iterator[Path]:
        """Yield the file on this machine; a fetched one goes afterwards. Raises `NotFound` without it."""
        if self.store is None:
            if not self.path.is_file():
                raise NotFound(f"there is no backup {self.path}")
            yield self.path
            return
        size, path = self.store.size(self.name), work / f"fetched-{self.name}"
        try:
            self.store.download(self.name, size, path)
            yield path
        finally:
            path.unlink(missing_ok=True)


def name_of(instance: str, at: datetime, *, is_closed: bool) -> str:
    """Return the name of a backup among others."""
    return f"{instance}-{at:%Y%m%dT%H%M%SZ}.tar.zst{'.age' if is_closed else ''}"


WORK = ".backup-"
"""Beginning of the names of folders in which backups are worked on, in the data directory."""


@contextmanager
def work_folder(data_dir: Path, kind: str) -> Iterator[Path]:
    """Yield an empty private folder on the disk of the data directory; what a killed process left there goes first."""
    folder = data_dir / f"{WORK}{kind}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
