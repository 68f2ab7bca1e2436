"""Qdrant's own engine in this process (`qdrant-edge-py`: one shard of its Rust code, without a server), behind the
calls of `QdrantClient` that this project makes. What it ranks, filters and counts is what a node does."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from qdrant_client import models

edge = pytest.importorskip("qdrant_edge", reason="qdrant-edge-py, Qdrant's engine as a library, is not installed")


class EdgeClient:
    """As much of `QdrantClient` as `ServerCollection` calls."""

    _KINDS: ClassVar[dict[str, Any]] = {
        "keyword": edge.PayloadSchemaType.Keyword,
        "integer": edge.PayloadSchemaType.Integer,
    }

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="edge-"))
        self.shards: dict[str, Any] = {}
        self.aliases: dict[str, str] = {}

    def get_collections(self) -> Any:
        return SimpleNamespace(collections=[SimpleNamespace(name=name) for name in self.shards])

    def get_aliases(self) -> Any:
        return SimpleNamespace(aliases=[SimpleNamespace(alias_name=name) for name in self.aliases])

    def update_collection_aliases(self, operations: Sequence[Any], timeout: int) -> None:
        for one in operations:
            if isinstance(one, models.CreateAliasOperation):
                self.aliases[one.create_alias.alias_name] = one.create_alias.collection_name
            else:
                del self.aliases[one.delete_alias.alias_name]

    def create_collection(
        self, name: str, vectors_config: Any, sparse_vectors_config: Any, hnsw_config: Any, **_: Any
    ) -> None:
        dense = {key: edge.EdgeVectorParams(one.size, edge.Distance.Dot) for key, one in vectors_config.items()}
        sparse = {key: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf) for key in sparse_vectors_config}
        self.shards[name] = edge.EdgeShard.create(str(self.folder / name), edge.EdgeConfig(dense, sparse))

    def delete_collection(self, name: str, timeout: int) -> None:
        self.shards.pop(name).close()
        shutil.rmtree(self.folder / name)
        self.aliases = {alias: target for alias, target in self.aliases.items() if target != name}

    def create_payload_index(self, name: str, field: str, schema: Any, **_: Any) -> None:
        told = schema.model_dump(exclude_none=True)
        kind = edge.KeywordIndexParams if told.pop("type") == "keyword" else edge.IntegerIndexParams
        self._of(name).update(edge.UpdateOperation.create_field_index(field, kind(**told)))

    def upsert(self, name: str, points: Sequence[models.PointStruct], **_: Any) -> None:
        stored = [edge.Point(one.id, _vectors(one.vector), one.payload) for one in points]
        self._of(name).update(edge.UpdateOperation.upsert_points(stored))

    def set_payload(self, name: str, payload: dict[str, Any], points: Any, **_: Any) -> None:
        self._of(name).update(edge.UpdateOperation.set_payload_by_filter(_filter(points), payload))

    def delete_payload(self, name: str, keys: list[str], points: Any, **_: Any) -> None:
        self._of(name).update(edge.UpdateOperation.delete_payload_by_filter(_filter(points), keys))

    def delete(self, name: str, where: Any, **_: Any) -> None:
        self._of(name).update(edge.UpdateOperation.delete_points_by_filter(_filter(where)))

    def query_batch_points(self, name: str, requests: Sequence[models.QueryRequest], timeout: int) -> list[Any]:
        asked = [
            edge.QueryRequest(
                one.limit,
                query=_nearest(one),
                filter=_filter(one.filter),
                with_payload=one.with_payload,
                with_vector=one.with_vector,
            )
            for one in requests
        ]
        found = self._of(name).query_batch(edge.QueryBatchRequest(asked))
        return [SimpleNamespace(points=[_told(hit) for hit in hits]) for hits in found]

    def scroll(
        self, name: str, scroll_filter: Any, limit: int, offset: Any, with_payload: Any, with_vectors: Any, timeout: int
    ) -> Any:
        asked = edge.ScrollRequest(offset, limit, _filter(scroll_filter), with_payload, with_vectors)
        page, following = self._of(name).scroll(asked)
        return [_told(one) for one in page], following

    def retrieve(self, name: str, ids: list[str], with_payload: bool, timeout: int) -> list[Any]:
        return [_told(one) for one in self._of(name).retrieve(ids, with_payload, False)]

    def count(self, name: str, where: Any, exact: bool, timeout: int) -> Any:
        return SimpleNamespace(count=self._of(name).count(edge.CountRequest(exact, _filter(where))))

    def close(self) -> None:
        for shard in self.shards.values():
            shard.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _of(self, name: str) -> Any:
        try:
            return self.shards[self.aliases.get(name, name)]
        except KeyError as error:
            raise ValueError(f"Collection {name} not found") from error


def _vectors(vectors: Any) -> dict[str, Any]:
    return {name: _vector(one) for name, one in vectors.items()}


def _vector(vector: Any) -> Any:
    return edge.SparseVector(vector.indices, vector.values) if isinstance(vector, models.SparseVector) else vector


def _nearest(asked: Any) -> Any:
    return edge.Query.Nearest(_vector(asked.query.nearest), asked.using)


def _told(found: Any) -> Any:
    return SimpleNamespace(
        id=found.id, score=getattr(found, "score", 0.0), payload=found.payload, vector=found.vector or {}
    )


def _filter(where: models.Filter | None) -> Any:
    if where is None:
        return None
    parts = {
        name: [_condition(one) for one in listed]
        for name in ("must", "should", "must_not")
        if (listed := getattr(where, name))
    }
    return edge.Filter(**parts)


def _condition(one: Any) -> Any:
    match one:
        case models.Filter():
            return _filter(one)
        case models.HasIdCondition():
            return edge.HasIdCondition(set(one.has_id))
        case models.IsEmptyCondition():
            return edge.IsEmptyCondition(one.is_empty.key)
        case models.FieldCondition(match=models.MatchAny(any=values)):
            return edge.FieldCondition(one.key, match=edge.MatchAny(values))
        case models.FieldCondition(match=models.MatchPrefix(prefix=prefix)):
            return edge.FieldCondition(one.key, match=edge.MatchPrefix(prefix))
        case models.FieldCondition(range=bounds) if bounds is not None:
            return edge.FieldCondition(one.key, range=edge.RangeFloat(**json.loads(bounds.model_dump_json())))
        case _:
            raise TypeError(one)
