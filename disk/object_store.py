"""An object store by URL: small reads and writes, files up and down, every failure one of the project's errors.

    store = open_store("s3://bucket/prefix", settings.object_store)
    store.write("default/CURRENT", b"g00000001-...")

`s3://` (and S3-compatible stores, by `endpoint`), `gs://`, `az://`, `file://` and `memory://` are understood. The
library sets time-outs and tries requests again, so no call here waits for ever. Times are the store's own; those of S3
are whole seconds.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar
from urllib.parse import urlsplit

from sluice.contracts.errors import InvalidSetting, NotFound, StoreDown, Unavailable

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Backend

Item = TypeVar("Item")
Result = TypeVar("Result")

PART_BYTES = 8_000_000
"""Most bytes of one request, up or down: small enough to end within its time-out on a slow line."""
_FILES_AT_A_TIME = 8
"""Number of files that are transferred at the same time."""
_CONNECT_TIMEOUT_SECONDS = 5.0
"""Longest wait for a connection; a reachable store answers within one second."""
_AGAIN_SECONDS = 5.0
"""Seconds after which work that met a store that is away is tried again."""
_CLOCK = "clock"
"""An object that is written to learn the store's time."""
_CREDENTIALS = "AWS_ACCESS_KEY_ID"
_REFUSED = re.compile(r"status code: 40[13]\b")
"""Pattern of a refused listing: the library reports it in the message alone."""


class StoreAccess(Protocol):
    """How a store is reached: the settings `object_store`."""

    @property
    def endpoint(self) -> str | None:
        """URL of a store that speaks S3 and is not Amazon's."""

    @property
    def timeout_seconds(self) -> float:
        """Longest that one request may take."""

    @property
    def max_retries(self) -> int:
        """Most retries of a request."""


class Stored(NamedTuple):
    """An object: its path, its size, and when it was last written, in seconds since the epoch by the store's clock."""

    path: str
    size_bytes: int
    written_at: float


class ObjectStore:
    """One place in an object store. Safe for threads."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def listed(self, prefix: str, after: str | None = None) -> Iterator[Stored]:
        """Yield the objects below the folder `prefix`; with `after`, those whose path is greater. In no order."""
        with _named_errors(prefix):
            for page in self._backend.list(prefix, offset=after):
                yield from map(_stored, page)

    def folders(self, prefix: str) -> list[str]:
        """Return the names of the folders right below `prefix`, in order."""
        with _named_errors(prefix):
            found = self._backend.list_with_delimiter(prefix)["common_prefixes"]
        return sorted(one.rstrip("/").rpartition("/")[2] for one in found)

    def sizes(self, prefix: str) -> dict[str, int]:
        """Return the size in bytes of every object below `prefix`, by path."""
        return {one.path: one.size_bytes for one in self.listed(prefix)}

    def look(self, path: str) -> Stored:
        """Return what the store tells of one object. Raises `NotFound` when it does not exist."""
        with _named_errors(path):
            return _stored(self._backend.head(path))

    def size(self, path: str) -> int:
        """Return the size of one object, in bytes. Raises `NotFound` when it does not exist."""
        return self.look(path).size_bytes

    def now(self) -> float:
        """Return the store's time, in seconds since the epoch: that of an object written just now."""
        self.write(_CLOCK, b"")
        return self.look(_CLOCK).written_at

    def read(self, path: str) -> bytes:
        """Return a small object, whole. Raises `NotFound` when the object does not exist."""
        with _named_errors(path):
            return bytes(self._backend.get(path).bytes())

    def write(self, path: str, content: bytes) -> None:
        """Put a small object, replacing an older one; readers see the old one or the new one."""
        with _named_errors(path):
            self._backend.put(path, content, use_multipart=False)

    def create(self, path: str, content: bytes) -> bool:
        """Put a small object unless one is there, in one request; return whether it was put.

        A request that is tried again after its reply was lost finds its own object, and gives False.
        """
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        with _named_errors(path):
            try:
                self._backend.put(path, content, mode="create", use_multipart=False)
            except (AlreadyExistsError, PreconditionError):
                return False
        return True

    def upload(self, path: str, file: Path) -> None:
        """Put a file, in parts where it is large; it does not appear before it is complete."""
        with _named_errors(path):
            self._backend.put(path, file, chunk_size=PART_BYTES, max_concurrency=2)

    def download(self, path: str, size_bytes: int, target: Path) -> str:
        """Write an object's first `size_bytes` to a new file and return their SHA-256. The caller flushes it."""
        digest = hashlib.sha256()
        with target.open("xb") as file, _named_errors(path):
            for start in range(0, size_bytes, PART_BYTES):
                end = min(start + PART_BYTES, size_bytes)
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


def open_store(url: str, settings: StoreAccess) -> ObjectStore:
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
            "object_store.url", f"opens no store: {_first_line(error)}", "like s3://bucket/prefix or file:///path"
        ) from error
    return ObjectStore(backend)


def _options(scheme: str, settings: StoreAccess) -> dict[str, Any]:
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
    except (BaseError, OSError, NotImplementedError) as error:
        told = _first_line(error)
        if isinstance(error, PermissionDeniedError | UnauthenticatedError) or _REFUSED.search(told):
            remedy = "give a key that may read and write there"
            raise InvalidSetting(_CREDENTIALS, f"the object store refuses {path}: {told}", remedy) from error
        if isinstance(error, NotImplementedError):
            raise Unavailable(f"the object store cannot do so: {told}") from error
        raise StoreDown(f"the object store does not answer for {path}: {told}", _AGAIN_SECONDS) from error


def _stored(told: Any) -> Stored:
    return Stored(told["path"], told["size"], told["last_modified"].timestamp())


def _first_line(error: Exception) -> str:
    """Return the first line of the message, without the library's debug dump, which repeats the whole request."""
    return str(error).split("\n", 1)[0][:300]
