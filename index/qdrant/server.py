"""A Qdrant server, through `qdrant-client`: points, conditions and searches of a collection.

A corpus is one collection with two vectors, `dense` (inner product of vectors of length 1) and `terms` (sparse, with
the `idf` modifier).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from sluice.contracts.errors import InvalidSetting, TimedOut, Unavailable
from sluice.index.settings import QdrantSettings

if TYPE_CHECKING:  # importing the client opens a socket
    from qdrant_client import QdrantClient, models

DENSE = "dense"
TERMS = "terms"
KEYWORDS = ("kind", "document", "languages", "domains", "source", "metadata")
PREFIXED = ("url", "path")
NUMBERS = ("since", "until", "fetched_at", "ordinal")
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

    test: Literal["any", "prefix", "above", "at_most", "absent_or_above", "id", "some", "none"]
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
    fields: tuple[str, ...] = field(default=())
    """Fields of the payload to return."""
    with_terms: bool = False
    """Whether to return the sparse vector."""


_PAGE_POINTS = 1_000


class Hnsw(NamedTuple):
    """Parameters of a collection's graph: edges of a node, and neighbours considered while building."""

    m: int
    ef_construct: int


class ServerCollection:
    """The collection `name` of a server. Safe for threads. Sends nothing to the server before its first use.

    Every method raises `Unavailable` when the engine fails or does not answer in time. After a writing method has
    returned, every call sees its changes. The collection owns `client` and closes it. Without `hnsw` the server's own
    settings apply.
    """

    def __init__(self, client: QdrantClient, name: str, settings: QdrantSettings, hnsw: Hnsw | None = None) -> None:
        self._hnsw = hnsw
        self._client = client
        self._name = name
        self._is_there = False
        self._seconds = max(1, round(settings.timeout_seconds))
        self._write_seconds = max(1, round(settings.write_timeout_seconds))

    def exists(self) -> bool:
        """Return whether the collection was created and not dropped."""
        with _failures():
            return bool(self._client.collection_exists(self._name))

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
        with _failures():
            self._client.create_collection(
                self._name,
                vectors_config={DENSE: models.VectorParams(size=dimension, distance=models.Distance.DOT)},
                sparse_vectors_config={TERMS: models.SparseVectorParams(modifier=models.Modifier.IDF)},
                hnsw_config=models.HnswConfigDiff(**self._hnsw._asdict()) if self._hnsw else None,
                timeout=self._write_seconds,
            )
            for name, kind in schema.items():
                self._client.create_payload_index(self._name, name, kind, wait=True, timeout=self._write_seconds)

    def drop(self) -> None:
        """Remove the collection, if there is one."""
        with _failures():
            if self._client.collection_exists(self._name):
                self._client.delete_collection(self._name, timeout=self._write_seconds)
        self._is_there = False

    def upsert(self, points: Sequence[Point]) -> None:
        """Store the points, replacing points of the same ids."""
        with _failures():
            self._client.upsert(self._name, list(points), wait=True, timeout=self._write_seconds)

    def mark(self, where: Condition, payload: Payload) -> None:
        """Set these fields in all points that meet `where`."""
        with _failures():
            self._client.set_payload(
                self._name, dict(payload), points=_filter(where), wait=True, timeout=self._write_seconds
            )

    def unmark(self, where: Condition, field: str) -> None:
        """Remove a field from all points that meet `where`."""
        with _failures():
            self._client.delete_payload(
                self._name, [field], points=_filter(where), wait=True, timeout=self._write_seconds
            )

    def delete(self, where: Condition) -> None:
        """Remove all points that meet `where`."""
        with _failures():
            self._client.delete(self._name, _filter(where), wait=True, timeout=self._write_seconds)

    def ranked(self, asks: Sequence[SearchRequest]) -> list[list[Hit]]:
        """Return each search's best hits, best first, in one round trip. Scores are inner products or BM25."""
        from qdrant_client import models

        requests = [
            models.QueryRequest(
                query=models.NearestQuery(
                    nearest=list(ask.dense) if ask.dense is not None else _sparse(ask.terms or {})
                ),
                using=DENSE if ask.dense is not None else TERMS,
                filter=_filter(ask.where),
                limit=ask.limit,
                with_payload=list(ask.fields) or False,
                with_vector=[TERMS] if ask.with_terms else False,
            )
            for ask in asks
        ]
        with _failures():
            found = self._client.query_batch_points(self._name, requests, timeout=self._seconds)
        return [[_hit(one, one.score) for one in answer.points] for answer in found]

    def points(self, where: Condition, fields: Sequence[str], with_dense: bool = False) -> list[Hit]:
        """Return all points that meet `where`, in no order."""
        found: list[Hit] = []
        offset: Any = None
        with _failures():
            while True:
                page, offset = self._client.scroll(
                    self._name,
                    scroll_filter=_filter(where),
                    limit=_PAGE_POINTS,
                    offset=offset,
                    with_payload=list(fields) or False,
                    with_vectors=[DENSE] if with_dense else False,
                    timeout=self._seconds,
                )
                found += [_hit(one, 0.0) for one in page]
                if offset is None:
                    return found

    def payload(self, point_id: str) -> Payload | None:
        """Return the payload of one point, or None when there is no such point or no collection."""
        from qdrant_client.http.exceptions import UnexpectedResponse

        if not self._is_there:
            self._is_there = self.exists()
        if not self._is_there:
            return None
        with _failures():
            try:
                found = self._client.retrieve(self._name, [point_id], with_payload=True, timeout=self._seconds)
            except UnexpectedResponse as error:
                if error.status_code != HTTPStatus.NOT_FOUND:
                    raise
                self._is_there = False
                return None
        return dict(found[0].payload or {}) if found else None

    def count(self, where: Condition) -> int:
        """Count the points that meet `where`, exactly."""
        with _failures():
            return self._client.count(self._name, _filter(where), exact=True, timeout=self._seconds).count

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


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
        "id": lambda _, values: models.HasIdCondition(has_id=list(values)),
        "some": lambda _, parts: models.Filter(should=[_filter(part) for part in parts]),
        "none": lambda _, part: models.Filter(must_not=[_filter(part)]),
    }
    must = [conditions[test](name, value) for test, name, value in where if test != "absent_or_above"]
    must_not = [conditions["at_most"](name, value) for test, name, value in where if test == "absent_or_above"]
    return models.Filter(must=must or None, must_not=must_not or None)
