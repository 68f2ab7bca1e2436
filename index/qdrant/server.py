"""A Qdrant server, through `qdrant-client`: points, conditions and searches of a collection.

A corpus is one collection with two vectors, `dense` (inner product of vectors of length 1) and `terms` (sparse, with
the `idf` modifier).
"""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from sluice.contracts.errors import InvalidSetting, TimedOut, Unavailable
from sluice.index.settings import QdrantSettings

if TYPE_CHECKING:  # importing the client opens a socket
    from qdrant_client import QdrantClient, models

DENSE = "dense"
TERMS = "terms"
BUILD = "~"
"""Stands between a collection's alias and the number of its build; no corpus has it in its name."""
PROVENANCE = ("source", "origin", "author", "run_id", "submitted_by")
KEYWORDS = ("kind", "document", "languages", "domains", "metadata", *PROVENANCE)
PREFIXED = ("url", "path", "title")
NUMBERS = ("since", "until", "fetched_at", "published_at", "ordinal")
"""Payload fields that conditions may name, by their kind of index."""

Payload = Mapping[str, Any]
Point: TypeAlias = "models.PointStruct"
Weights = dict[int, float]
"""A sparse vector: the weight of each dimension."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A found point. `score` is 0 where the call did not rank."""

    id: str
    score: float
    payload: Payload
    dense: Sequence[float] | None = None
    terms: Weights | None = None


class Clause(NamedTuple):
    """A condition on a point. `any`: the field is, or holds, one of the values; `id`: its id is one of them; `some`: it
    meets one of these conditions; `none`: it does not meet this one."""

    test: Literal["any", "prefix", "above", "at_most", "absent_or_above", "absent", "id", "some", "none"]
    field: str
    value: Any


Condition = tuple[Clause, ...]
"""Clauses that a point must all meet."""


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """One ranked search: by `dense` or by `terms`, among the points that meet `where`."""

    limit: int
    where: Condition
    dense: Sequence[float] | None = None
    terms: Weights | None = None
    fields: tuple[str, ...] = ()
    """Fields of the payload to return."""
    with_terms: bool = False
    """Whether to return the sparse vector."""


_PAGE_POINTS = 1_000
_READ_PAUSES, _WRITE_PAUSES = (0.1,), (0.25, 0.5, 1.0, 2.0)
"""Seconds before each further try: a search is waited for, and a node that restarts is back within seconds."""


class Hnsw(NamedTuple):
    """Parameters of a collection's graph: edges of a node, and neighbours considered while building."""

    m: int
    ef_construct: int


class ServerCollection:
    """The collection `name` of a server, or the one that `name` is an alias of. Safe for threads. Sends nothing to the
    server before its first use.

    Every method raises `Unavailable` when the engine fails or does not answer in time; a passing failure is tried
    again before. After a writing method has returned, every call sees its changes, on every replica. The collection
    owns `client` and closes it. Without `hnsw` the server's own settings apply.
    """

    def __init__(self, client: QdrantClient, name: str, settings: QdrantSettings, hnsw: Hnsw | None = None) -> None:
        self._client, self.name = client, name
        self._settings, self._hnsw = settings, hnsw
        self._seconds = max(1, round(settings.timeout_seconds))
        self._write_seconds = max(1, round(settings.write_timeout_seconds))

    def at(self, name: str) -> ServerCollection:
        """Return the collection of that name on the same server; empty for this one."""
        other = copy.copy(self)
        other.name = name or self.name
        return other

    def builds(self) -> list[str]:
        """Return the names of the collections that were built for this name to be their alias, the oldest first."""
        return sorted(one for one in list_collections(self._client) if one.startswith(self.name + BUILD))

    def create(self, dimension: int) -> None:
        """Create the collection for dense vectors of `dimension`; an existing one is dropped with all of its points."""
        from qdrant_client import models

        keyword, integer = models.KeywordIndexType.KEYWORD, models.IntegerIndexType.INTEGER
        schema: dict[str, Any] = {
            **dict.fromkeys(KEYWORDS, models.KeywordIndexParams(type=keyword)),
            **dict.fromkeys(PREFIXED, models.KeywordIndexParams(type=keyword, prefix=True)),
            **dict.fromkeys(NUMBERS, models.IntegerIndexParams(type=integer, lookup=True, range=True)),
        }
        self.drop()
        self._call(
            "create_collection",
            (),
            timeout=self._write_seconds,
            vectors_config={DENSE: models.VectorParams(size=dimension, distance=models.Distance.DOT)},
            sparse_vectors_config={TERMS: models.SparseVectorParams(modifier=models.Modifier.IDF)},
            hnsw_config=models.HnswConfigDiff(**self._hnsw._asdict()) if self._hnsw else None,
            shard_number=self._settings.shards,
            replication_factor=self._settings.replicas,
            write_consistency_factor=self._settings.replicas // 2 + 1,
        )
        for name, kind in schema.items():
            self._write("create_payload_index", name, kind)

    def drop(self, *, builds: bool = True) -> None:
        """Remove the collection, if there is one, and those that were built for this name."""
        for name in list_collections(self._client):
            if self.name in (name, name.partition(BUILD)[0] if builds else name):
                with _failures():
                    self._client.delete_collection(name, timeout=self._write_seconds)

    def serve(self, name: str) -> None:
        """Make this name an alias of the collection `name`, in one request: searches see the old one or the new one."""
        from qdrant_client import models

        old = models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=self.name))
        new = models.CreateAliasOperation(create_alias=models.CreateAlias(collection_name=name, alias_name=self.name))
        is_alias = self.name in list_aliases(self._client)
        if not is_alias:  # an older Sluice gave this name to the collection itself
            self.drop(builds=False)
        with _failures():
            self._client.update_collection_aliases([old, new] if is_alias else [new], timeout=self._write_seconds)

    def upsert(self, points: Sequence[Point]) -> None:
        """Store the points, replacing points of the same ids."""
        self._write("upsert", list(points))

    def mark(self, where: Condition, payload: Payload) -> None:
        """Set these fields in all points that meet `where`."""
        self._write("set_payload", dict(payload), points=_filter(where))

    def unmark(self, where: Condition, field: str) -> None:
        """Remove a field from all points that meet `where`."""
        self._write("delete_payload", [field], points=_filter(where))

    def delete(self, where: Condition) -> None:
        """Remove all points that meet `where`."""
        self._write("delete", _filter(where))

    def ranked(self, asks: Sequence[SearchRequest]) -> list[list[Hit]]:
        """Return each search's best hits, best first, in one round trip. Scores are inner products or BM25."""
        from qdrant_client import models

        requests = [
            models.QueryRequest(
                query=models.NearestQuery(nearest=_sparse(ask.terms or {}) if ask.dense is None else list(ask.dense)),
                using=TERMS if ask.dense is None else DENSE,
                filter=_filter(ask.where),
                limit=ask.limit,
                with_payload=list(ask.fields) or False,
                with_vector=[TERMS] if ask.with_terms else False,
            )
            for ask in asks
        ]
        found = self._read("query_batch_points", requests)
        return [[_hit(one, one.score) for one in answer.points] for answer in found]

    def points(self, where: Condition, fields: Sequence[str], with_dense: bool = False) -> Iterator[Hit]:
        """Yield all points that meet `where`, in no order; they are read by pages."""
        offset: Any = None
        while True:
            page, offset = self._read(
                "scroll",
                scroll_filter=_filter(where),
                limit=_PAGE_POINTS,
                offset=offset,
                with_payload=list(fields) or False,
                with_vectors=[DENSE] if with_dense else False,
            )
            yield from (_hit(one, 0.0) for one in page)
            if offset is None:
                return

    def payload(self, point_id: str) -> Payload | None:
        """Return the payload of one point, or None when there is no such point or no collection."""
        try:
            found = self._read("retrieve", [point_id], with_payload=True)
        except Unavailable as error:
            if getattr(error.__cause__, "status_code", None) == HTTPStatus.NOT_FOUND:
                return None
            raise
        except ValueError:  # the client's local mode has no collection of that name
            return None
        return dict(found[0].payload or {}) if found else None

    def count(self, where: Condition) -> int:
        """Count the points that meet `where`, exactly."""
        return int(self._read("count", _filter(where), exact=True).count)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _read(self, method: str, *given: Any, **more: Any) -> Any:
        return self._call(method, _READ_PAUSES, *given, timeout=self._seconds, **more)

    def _write(self, method: str, *given: Any, **more: Any) -> None:
        self._call(method, _WRITE_PAUSES, *given, wait=True, timeout=self._write_seconds, **more)

    def _call(self, method: str, pauses: Sequence[float], *given: Any, **more: Any) -> Any:
        """Call the client's method for this collection; after a passing failure again, behind each pause (seconds)."""
        left = iter(pauses)
        while True:
            try:
                with _failures():
                    return getattr(self._client, method)(self.name, *given, **more)
            except Unavailable as error:
                pause = next(left, None)
                if pause is None or not _is_passing(error):
                    raise
                time.sleep(pause)


def open_collection(corpus: str, settings: QdrantSettings) -> ServerCollection:
    """Return the collection of a corpus on the configured server. The caller closes it.

    Raises `InvalidSetting` when the URL is missing or invalid, or when the library is not installed.
    """
    settings.require_url()
    return ServerCollection(server_client(settings), collection_name(corpus, settings), settings)


def collection_name(corpus: str, settings: QdrantSettings) -> str:
    """Return the name of a corpus's collection on a server."""
    return f"{settings.collection_prefix}_{corpus}"


def server_client(settings: QdrantSettings) -> QdrantClient:
    """Return a client of the server at `settings.url`; it connects at its first use."""
    try:
        from qdrant_client import QdrantClient
    except ImportError as error:
        problem = "the engine qdrant needs the package qdrant-client"
        raise InvalidSetting("index.engine", problem, "install sluice[qdrant]") from error
    key = settings.api_key.get_secret_value() if settings.api_key else None
    seconds = max(1, round(max(settings.timeout_seconds, settings.write_timeout_seconds)))
    try:
        return QdrantClient(url=settings.url, api_key=key, timeout=seconds, check_compatibility=False)
    except ValueError as error:
        raise InvalidSetting("qdrant.url", str(error), "like http://qdrant:6333") from error


def list_collections(client: QdrantClient) -> list[str]:
    """Return the names of all collections of the server. Raises `Unavailable` when it does not answer."""
    with _failures():
        return [one.name for one in client.get_collections().collections]


def list_aliases(client: QdrantClient) -> list[str]:
    """Return all aliases of the server. Raises `Unavailable` when it does not answer."""
    with _failures():
        return [one.alias_name for one in client.get_aliases().aliases]


def list_corpora(settings: QdrantSettings) -> tuple[str, ...]:
    """Return the corpora that the configured server has, sorted. Raises as `open_collection`, and `Unavailable`."""
    settings.require_url()
    hasty = settings.model_copy(update={"write_timeout_seconds": settings.timeout_seconds})
    prefix, client = collection_name("", settings), server_client(hasty)
    try:
        names = {*list_aliases(client), *(name for name in list_collections(client) if BUILD not in name)}
    finally:
        client.close()
    return tuple(sorted(name.removeprefix(prefix) for name in names if name.startswith(prefix)))


@contextlib.contextmanager
def _failures() -> Iterator[None]:
    """Raise the client's errors as the project's own."""
    import httpx
    from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

    try:
        yield
    except ResponseHandlingException as error:
        if isinstance(error.source, httpx.TimeoutException):
            raise TimedOut("the Qdrant server did not answer in time") from error
        raise Unavailable(f"the Qdrant server does not answer: {error.source}") from error
    except UnexpectedResponse as error:
        if error.status_code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise InvalidSetting("qdrant.api_key", "the Qdrant server refuses it", "give one that may write") from error
        told = error.content.decode("utf-8", "replace")[:300]
        raise Unavailable(f"the Qdrant server answers {error.status_code}: {told}") from error
    except (ApiException, httpx.HTTPError, OSError) as error:
        raise Unavailable(f"the Qdrant server does not answer: {error}") from error


def _is_passing(error: Unavailable) -> bool:
    """Return whether the same call may succeed in a moment: the server was away, busy, or failed within."""
    status = getattr(error.__cause__, "status_code", HTTPStatus.SERVICE_UNAVAILABLE)
    return not isinstance(error, TimedOut) and status >= HTTPStatus.INTERNAL_SERVER_ERROR


def make_point(
    point_id: str, payload: Payload, dense: Sequence[float] | None = None, terms: Weights | None = None
) -> Point:
    """Make a point to store: a payload under an id (a UUID), with or without vectors."""
    from qdrant_client import models

    vectors: dict[str, Any] = {} if dense is None else {DENSE: list(dense)}
    if terms:
        vectors[TERMS] = _sparse(terms)
    return models.PointStruct(id=point_id, vector=vectors, payload=dict(payload))


def _sparse(weights: Weights) -> models.SparseVector:
    from qdrant_client import models

    ordered = sorted(weights.items())
    return models.SparseVector(indices=[index for index, _ in ordered], values=[value for _, value in ordered])


def _hit(found: Any, score: float) -> Hit:
    vectors = found.vector if isinstance(found.vector, dict) else {}
    sparse = vectors.get(TERMS)
    weights = dict(zip(sparse.indices, sparse.values, strict=True)) if sparse is not None else None
    return Hit(str(found.id), float(score), found.payload or {}, vectors.get(DENSE), weights)


def _filter(where: Condition) -> models.Filter:
    from qdrant_client import models

    conditions: dict[str, Callable[[str, Any], Any]] = {
        "any": lambda name, values: models.FieldCondition(key=name, match=models.MatchAny(any=list(values))),
        "prefix": lambda name, value: models.FieldCondition(key=name, match=models.MatchPrefix(prefix=value)),
        "above": lambda name, value: models.FieldCondition(key=name, range=models.Range(gt=value)),
        "at_most": lambda name, value: models.FieldCondition(key=name, range=models.Range(lte=value)),
        "absent": lambda name, _: models.IsEmptyCondition(is_empty=models.PayloadField(key=name)),
        "id": lambda _, values: models.HasIdCondition(has_id=list(values)),
        "some": lambda _, parts: models.Filter(should=[_filter(part) for part in parts]),
        "none": lambda _, part: models.Filter(must_not=[_filter(part)]),
    }
    must = [conditions[test](name, value) for test, name, value in where if test != "absent_or_above"]
    must_not = [conditions["at_most"](name, value) for test, name, value in where if test == "absent_or_above"]
    return models.Filter(must=must or None, must_not=must_not or None)
