"""Questions to a graph server: the documents nearest to a question with what they are linked to, and read-only Cypher.

The order of the decision record is `cosineSimilarity DESC, tfidfScore DESC`. A server holds no text, so there is no
tf-idf score on it; equal similarities are ordered by id. Words are searched by the index, beside this.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sluice.contracts.errors import Unavailable
from sluice.contracts.graph.api import NearDocument, NearestDocuments, NearLink
from sluice.graph.servers.client import BoltClient, Rows, dicts
from sluice.graph.servers.statements import LINKED

DEEPER = 4
"""Candidates of the vector index for each result: it knows no corpus, so others' documents are among them."""
MOST_LINKED = 20


async def retrieve(
    client: BoltClient, corpus: str, embedding: Sequence[float], embedding_version: str, limit: int
) -> NearestDocuments:
    """The `limit` documents of a corpus with the highest cosine to `embedding` (d,), and what is linked to them.

    Only vectors of the same model count. Where the vector index finds fewer than that, because it is not there, takes
    vectors of another dimension or is full of other corpora, every vector of the corpus is compared.

    Raises as `BoltClient.ping`.
    """
    dialect = await client.dialect()
    asked = {
        "corpus": corpus,
        "embedding": list(map(float, embedding)),
        "embedding_version": embedding_version,
        "most": limit,
    }
    found: list[dict[str, Any]] = []
    try:
        found = dicts(await client.read(dialect.nearest, {**asked, "candidates": limit * DEEPER}, limit))
    except Unavailable:
        await client.ping()  # away, and not only without this index
    by_index = len(found) >= limit
    if not by_index:
        found = dicts(await client.read(dialect.nearest_exactly, asked, limit))
    near = tuple(NearDocument(**_document(row), score=float(row["score"])) for row in found)
    beside = await linked(client, corpus, [one.document_id for one in near])
    return NearestDocuments(documents=near, linked=beside, by_vector_index=by_index)


async def linked(
    client: BoltClient, corpus: str, document_ids: Sequence[str], limit: int = MOST_LINKED
) -> tuple[NearLink, ...]:
    """The documents that these refer or link to, those that share most names first. Raises as `BoltClient.ping`."""
    if not document_ids:
        return ()
    asked = {"corpus": corpus, "ids": list(document_ids), "most": limit}
    return tuple(
        NearLink(**_document(row), from_document_id=row["near_id"], names=row["names"], shared=row["shared"])
        for row in dicts(await client.read(LINKED, asked, limit))
    )


def _document(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"document_id": row["id"], **{name: row[name] for name in ("path", "url", "title")}}


async def query(
    client: BoltClient, statement: str, parameters: Mapping[str, Any], limit: int, timeout_seconds: float
) -> Rows:
    """The rows of a question in Cypher, as JSON; a node or edge is an object of its properties, without `embedding`.

    `statement` has passed the guard, which lets nothing through that writes and names the corpus in every pattern. It
    is sent in READ access mode, in a transaction that is rolled back: a hint and a remedy, not the guard itself.

    Raises as `BoltClient.ping`, and `InvalidInput` where the server does not understand the statement.
    """
    rows = await client.read(statement, parameters, limit, timeout_seconds, whose="query")
    return rows._replace(rows=tuple(tuple(map(plain, row)) for row in rows.rows))


def plain(value: Any) -> Any:
    """A value of the driver as JSON."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if hasattr(value, "nodes") and hasattr(value, "relationships"):
        return {"nodes": [plain(one) for one in value.nodes], "edges": [plain(one) for one in value.relationships]}
    if hasattr(value, "element_id"):  # a node or an edge
        shown = {name: plain(one) for name, one in value.items() if name != "embedding"}
        return shown | ({"label": next(iter(value.labels), "")} if hasattr(value, "labels") else {"type": value.type})
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if hasattr(value, "iso_format"):
        return value.iso_format()
    return str(value)
