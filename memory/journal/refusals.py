"""Errors of the system in the words of `contracts.errors`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sluice.contracts.errors import DiskFull, Unavailable, is_disk_full


@contextmanager
def refusals(path: Path, what: str) -> Iterator[None]:
    """Say of an `OSError` in the block that `path` cannot be `what` (written, read): `DiskFull` or `Unavailable`."""
    try:
        yield
    except OSError as error:
        failure = DiskFull if is_disk_full(error) else Unavailable
        raise failure(f"{path} cannot be {what}: {error}") from error
