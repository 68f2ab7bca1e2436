"""An object store by URL: small reads and writes, files up and down, every failure one of the project's errors.

    store = open_store("s3://bucket/prefix", ObjectStoreSettings())
    store.write("default/CURRENT", b"g00000001-...")

`s3://` (and S3-compatible stores, by `endpoint`), `gs://`, `az://`, `file://` and `memory://` are understood. The
library sets time-outs and tries requests again, so no call here waits for ever.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from sluice.contracts.errors import InvalidSetting, NotFound, Unavailable
from sluice.index.settings import ObjectStoreSettings

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Backend

Item = TypeVar("Item")
Result = TypeVar("Result")

_PART_BYTES = 8_000_000
"""Most bytes of one request, up or down: small enough to end within its time-out on a slow line."""
_FILES_AT_A_TIME = 8
"""Number of files that are transferred at the same time."""
_CONNECT_TIMEOUT_SECONDS = 5.0
"""Longest wait for a connection; a reachable store answers within one second."""
_CREDENTIALS = "AWS_ACCESS_KEY_ID"
_REFUSED = re.compile(r"status code: 40[13]\b")
"""Pattern of a refused listing: the library reports it in the message alone."""


class ObjectStore:
    """One place in an object store. Safe for threads."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def sizes(self, prefix: str) -> dict[str, int]:
        """Return the size in bytes of every object below `prefix`, by path."""
        with _named_errors(prefix):
            return {one["path"]: one["size"] for page in self._backend.list(prefix) for one in page}

    def size(self, path: str) -> int:
        """Return the size of one object, in bytes. Raises `NotFound` when it does not exist."""
        with _named_errors(path):
            return self._backend.head(path)["size"]

    def read(self, path: str) -> bytes:
        """Return a small object, whole. Raises `NotFound` when the object does not exist."""
        with _named_errors(path):
            return bytes(self._backend.get(path).bytes())

    def write(self, path: str, content: bytes) -> None:
        """Put a small object, replacing an older one; readers see the old one or the new one."""
        with _named_errors(path):
            self._backend.put(path, content, use_multipart=False)

    def upload(self, path: str, file: Path) -> None:
        """Put a file, in parts where it is large; it does not appear before it is complete."""
        with _named_errors(path):
            self._backend.put(path, file, chunk_size=_PART_BYTES, max_concurrency=2)

    def download(self, path: str, size_bytes: int, target: Path) -> str:
        """Write an object's first `size_bytes` to a new file and return their SHA-256. The caller flushes it."""
        digest = hashlib.sha256()
        with target.open("xb") as file, _named_errors(path):
            for start in range(0, size_bytes, _PART_BYTES):
                end = min(start + _PART_BYTES, size_bytes)
                part = bytes(self._backend.get_range(path, start=start, end=end))
                digest.update(part)
                file.write(part)
        return digest.hexdigest()

    def delete(self, paths: Iterable[str]) -> None:
        """Remove objects; a missing object is no error."""
        for path in paths:
            with contextlib.suppress(NotFound), _named_errors(path):
                self._backend.delete(path)

    def each(self, work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Do `work` for each item, several at a time. The first failure cancels the items that have not begun."""
        pool = ThreadPoolExecutor(max_workers=_FILES_AT_A_TIME, thread_name_prefix="object-store")
        try:
            return list(pool.map(work, items))
        finally:
            pool.shutdown(cancel_futures=True)


def open_store(url: str, settings: ObjectStoreSettings) -> ObjectStore:
    """Return the store at `url`; no request is sent yet. Raises `InvalidSetting` for a URL that names no store."""
    from obstore.exceptions import BaseError
    from obstore.store import LocalStore, from_url

    try:
        if urlsplit(url).scheme == "file":
            backend: Backend = LocalStore.from_url(url, mkdir=True)
        else:
            backend = from_url(url, **_options(urlsplit(url).scheme, settings))
    except (BaseError, ValueError, OSError) as error:
        raise InvalidSetting(
            "index.object_store_url", f"opens no store: {_first_line(error)}", "like s3://bucket/prefix or file:///path"
        ) from error
    return ObjectStore(backend)


def _options(scheme: str, settings: ObjectStoreSettings) -> dict[str, Any]:
    if scheme == "memory":
        return {}
    seconds = timedelta(seconds=settings.timeout_seconds)
    client = {"timeout": seconds, "connect_timeout": timedelta(seconds=_CONNECT_TIMEOUT_SECONDS)}
    endpoint = settings.endpoint or ""
    # Only set values: credentials and region come from the process's environment, as for every S3 client.
    return {
        "config": {"endpoint": endpoint} if endpoint and scheme in ("s3", "s3a") else {},
        "client_options": {**client, "allow_http": endpoint.startswith("http://")},
        "retry_config": {"max_retries": settings.max_retries, "retry_timeout": seconds * (settings.max_retries + 1)},
    }


@contextlib.contextmanager
def _named_errors(path: str) -> Iterator[None]:
    """Raise the library's errors as the project's own."""
    from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

    try:
        yield
    except FileNotFoundError as error:
        raise NotFound(f"the object store has no {path}") from error
    except (BaseError, OSError) as error:
        told = _first_line(error)
        if isinstance(error, PermissionDeniedError | UnauthenticatedError) or _REFUSED.search(told):
            remedy = "give a key that may read and write there"
            raise InvalidSetting(_CREDENTIALS, f"the object store refuses {path}: {told}", remedy) from error
        raise Unavailable(f"the object store does not answer for {path}: {told}") from error


def _first_line(error: Exception) -> str:
    """Return the first line of the message, without the library's debug dump, which repeats the whole request."""
    return str(error).split("\n", 1)[0][:300]
