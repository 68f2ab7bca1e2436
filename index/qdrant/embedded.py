"""A Qdrant in this process: a shard in a folder, by `qdrant-edge-py`. One process alone can have it open."""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from contracts.errors import InvalidSetting, Unavailable
from index.qdrant.collection import DENSE, KEYWORDS, NUMBERS, PREFIXED, TERMS, Ask, Hit, Payload, Point, Where
from index.qdrant.sparse_bm25 import Weights

_PAGE_POINTS = 1_000


class EdgeCollection:
    """The collection of one corpus in `folder`. Opened at its first use. Safe for threads.

    Raises `Unavailable` when another process has it open.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.RLock()
        self._shard: Any = None
        self._closed = False

    def exists(self) -> bool:
        """Whether it was created and not dropped."""
        return self._opened() is not None

    def create(self, dimension: int) -> None:
        """Make it anew, dropping what is there."""
        edge = _library()
        with self._lock, _failures():
            if self._shard is not None:
                self._shard.close()
                self._shard = None
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder.mkdir(parents=True)
            config = edge.EdgeConfig(
                vectors={DENSE: edge.EdgeVectorParams(size=dimension, distance=edge.Distance.Dot)},
                sparse_vectors={TERMS: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)},
            )
            shard = edge.EdgeShard.create(str(self._folder), config)
            for name, schema in _schema(edge).items():
                shard.update(edge.UpdateOperation.create_field_index(name, schema))
            shard.flush()
            self._shard = shard

    def upsert(self, points: Sequence[Point]) -> None:
        """Store the points."""
        edge = _library()
        stored = [edge.Point(point.id, _vectors(edge, point), dict(point.payload)) for point in points]
        self._update(edge.UpdateOperation.upsert_points(stored))

    def mark(self, where: Where, payload: Payload) -> None:
        """Set these fields in all points that meet `where`."""
        edge = _library()
        self._update(edge.UpdateOperation.set_payload_by_filter(_filter(edge, where), dict(payload)))

    def unmark(self, where: Where, field: str) -> None:
        """Take a field out of all points that meet `where`."""
        edge = _library()
        self._update(edge.UpdateOperation.delete_payload_by_filter(_filter(edge, where), [field]))

    def delete(self, where: Where) -> None:
        """Remove all points that meet `where`."""
        edge = _library()
        self._update(edge.UpdateOperation.delete_points_by_filter(_filter(edge, where)))

    def ranked(self, asks: Sequence[Ask]) -> list[list[Hit]]:
        """The best hits of each search."""
        edge, shard = _library(), self._opened()
        if shard is None:
            return [[] for _ in asks]
        requests = [
            edge.QueryRequest(
                limit=ask.limit,
                query=_query(edge, ask),
                filter=_filter(edge, ask.where),
                with_payload=list(ask.fields) or False,
                with_vector=[TERMS] if ask.with_terms else False,
            )
            for ask in asks
        ]
        with _failures():
            found = shard.query_batch(edge.QueryBatchRequest(requests))
            return [[_hit(one, one.score) for one in hits] for hits in found]

    def points(self, where: Where, fields: Sequence[str], with_dense: bool = False) -> list[Hit]:
        """All points that meet `where`."""
        edge, shard = _library(), self._opened()
        found: list[Hit] = []
        offset = None
        with _failures():
            while shard is not None:
                request = edge.ScrollRequest(
                    offset=offset,
                    limit=_PAGE_POINTS,
                    filter=_filter(edge, where),
                    with_payload=list(fields) or False,
                    with_vector=[DENSE] if with_dense else False,
                )
                page, offset = shard.scroll(request)
                found += [_hit(one, 0.0) for one in page]
                if offset is None:
                    break
        return found

    def payload(self, point_id: str) -> Payload | None:
        """The payload of one point."""
        shard = self._opened()
        if shard is None:
            return None
        with _failures():
            found = shard.retrieve([point_id], with_payload=True, with_vector=False)
            return dict(found[0].payload or {}) if found else None

    def count(self, where: Where) -> int:
        """How many points meet `where`."""
        edge, shard = _library(), self._opened()
        if shard is None:
            return 0
        with _failures():
            return int(shard.count(edge.CountRequest(exact=True, filter=_filter(edge, where))))

    def flush(self) -> None:
        """Everything stored is on the disk when it returns; and what was deleted makes room."""
        shard = self._opened()
        if shard is not None:
            with _failures():
                shard.flush()
                shard.optimize()

    def close(self) -> None:
        """Let another process have it."""
        with self._lock:
            self._closed = True
            if self._shard is not None:
                with _failures():
                    self._shard.close()
                self._shard = None

    def _update(self, operation: Any) -> None:
        shard = self._opened()
        if shard is not None:
            with _failures():
                shard.update(operation)

    def _opened(self) -> Any:
        """The shard, or None while there is none."""
        if self._shard is None:
            with self._lock:
                if self._closed:
                    raise Unavailable(f"the collection in {self._folder} was closed")
                if self._shard is None and (self._folder / "edge_config.json").exists():
                    self._shard = self._load()
        return self._shard

    def _load(self) -> Any:
        try:
            return _library().EdgeShard.load(str(self._folder))
        except Exception as error:  # the library has no error types of its own
            raise Unavailable(
                f"the embedded Qdrant in {self._folder} does not open ({error}): one process alone can have it; "
                "give `qdrant.url` of a server to use several"
            ) from error


def _library() -> Any:
    try:
        import qdrant_edge
    except ImportError as error:
        problem = "the engine qdrant without an url needs the package qdrant-edge-py"
        raise InvalidSetting("qdrant.url", problem, "install sluice[qdrant], or give the url of a server") from error
    return qdrant_edge


@contextlib.contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # the library has no error types of its own
        raise Unavailable(f"the embedded Qdrant fails: {error}") from error


def _schema(edge: Any) -> dict[str, Any]:
    keywords = {name: edge.KeywordIndexParams() for name in KEYWORDS}
    prefixed = {name: edge.KeywordIndexParams(prefix=True) for name in PREFIXED}
    return keywords | prefixed | {name: edge.IntegerIndexParams(lookup=True, range=True) for name in NUMBERS}


def _vectors(edge: Any, point: Point) -> dict[str, Any]:
    vectors: dict[str, Any] = {}
    if point.dense is not None:
        vectors[DENSE] = list(point.dense)
    if point.terms:
        vectors[TERMS] = _sparse(edge, point.terms)
    return vectors


def _sparse(edge: Any, weights: Weights) -> Any:
    ordered = sorted(weights.items())
    return edge.SparseVector([index for index, _ in ordered], [value for _, value in ordered])


def _query(edge: Any, ask: Ask) -> Any:
    if ask.dense is not None:
        return edge.Query.Nearest(list(ask.dense), using=DENSE)
    return edge.Query.Nearest(_sparse(edge, ask.terms or {}), using=TERMS)


def _hit(found: Any, score: float) -> Hit:
    vectors = found.vector if isinstance(found.vector, dict) else {}
    sparse = vectors.get(TERMS)
    weights = dict(zip(sparse.indices, sparse.values, strict=True)) if sparse is not None else None
    return Hit(str(found.id), float(score), found.payload or {}, vectors.get(DENSE), weights)


def _filter(edge: Any, where: Where) -> Any:
    must = [edge.FieldCondition(name, match=edge.MatchAny(list(values))) for name, values in where.one_of]
    must += [edge.FieldCondition(name, match=edge.MatchPrefix(prefix)) for name, prefix in where.prefixes]
    must += [edge.FieldCondition(name, range=edge.RangeFloat(gt=float(value))) for name, value in where.above]
    must += [edge.FieldCondition(name, range=edge.RangeFloat(lte=float(value))) for name, value in where.at_most]
    must_not = [
        edge.FieldCondition(name, range=edge.RangeFloat(lte=float(value))) for name, value in where.absent_or_above
    ]
    if where.ids is not None:
        must.append(edge.HasIdCondition(set(where.ids)))
    return edge.Filter(must=must or None, must_not=must_not or None)
