"""The statements that every graph server takes alike, with their parameters.

Labels, types and properties are those of `graph.schema`, so that a question in Cypher means the same to a server and to
the engine's file: a node is known by `(corpus, id)`, where `id` is `Node.key`. An edge says besides which document made
it (`owner`), so what a document said can be taken back. Two labels more are for the feeding alone: `RemovedDocument`
keeps the id of a document that left, with the journal offset (`as_of`) of its leaving, so that a late write does not
bring it back; `GraphFeed` says up to which change a corpus was fed.

`{...}` in a statement is filled in here and never with a value from outside; values are parameters.
"""

from __future__ import annotations

from typing import NamedTuple

from sluice.contracts.graph.model import EdgeType, NodeLabel
from sluice.graph.schema import EDGE_ENDS

REMOVED = "RemovedDocument"
FEED = "GraphFeed"


class EdgeKind(NamedTuple):
    """An edge's type with the labels that it connects; statements cannot take these as parameters."""

    type: EdgeType
    source: NodeLabel
    target: NodeLabel


EDGE_KINDS = tuple(EdgeKind(kind, *ends) for kind, pairs in EDGE_ENDS.items() for ends in pairs)
BETWEEN_SYMBOLS = (EdgeType.ALIAS_OF, EdgeType.INHERITS, EdgeType.HAS_TYPE)
"""Edges that do not touch their owner: they are found by the index of `owner`."""

_KEY = "{corpus: $corpus, id: "
DOCUMENT_COLUMNS = "d.id AS id, d.path AS path, d.url AS url, d.title AS title"

PING = "RETURN 1 AS n"
MERGE_DOCUMENTS = f"""
UNWIND $documents AS row
OPTIONAL MATCH (gone:{REMOVED} {_KEY}row.id}})
WITH row, gone WHERE gone IS NULL OR gone.as_of <= row.as_of
MERGE (d:Document {_KEY}row.id}})
WITH row, gone, d WHERE d.as_of IS NULL OR d.as_of <= row.as_of
SET d = row.properties
DETACH DELETE gone
RETURN row.id AS id
"""
"""$corpus, $documents: of each `id`, `as_of`, `properties`. Gives `id` of those not too late."""
REMOVE_DOCUMENTS = f"""
UNWIND $documents AS row
OPTIONAL MATCH (d:Document {_KEY}row.id}})
OPTIONAL MATCH (gone:{REMOVED} {_KEY}row.id}})
WITH row, d, gone
WHERE (d IS NULL OR d.as_of IS NULL OR d.as_of <= row.as_of) AND (gone IS NULL OR gone.as_of <= row.as_of)
MERGE (tombstone:{REMOVED} {_KEY}row.id}})
SET tombstone.as_of = row.as_of
RETURN row.id AS id
"""
"""$corpus, $documents: of each `id`, `as_of`. Gives `id` of those not too late."""
DELETE_DOCUMENTS = f"""
UNWIND $ids AS id
MATCH (d:Document {_KEY}id}})
DETACH DELETE d
"""
"""$corpus, $ids."""
_DELETE_OWN_EDGES = f"""
UNWIND $owners AS owner
MATCH (d:Document {_KEY}owner}})-[r]-(n)
WHERE r.owner = owner AND r.corpus = $corpus
WITH r, labels(n)[0] AS label, n.id AS id
DELETE r
RETURN DISTINCT label, id
"""
_DELETE_EDGES_BETWEEN_SYMBOLS = """
UNWIND $owners AS owner
MATCH (a:Symbol)-[r:{type}]->(b:Symbol)
WHERE r.corpus = $corpus AND r.owner = owner
WITH r, [a.id, b.id] AS ids
DELETE r
WITH ids
UNWIND ids AS id
RETURN DISTINCT 'Symbol' AS label, id
"""
DELETE_EDGES = (_DELETE_OWN_EDGES, *(_DELETE_EDGES_BETWEEN_SYMBOLS.replace("{type}", one) for one in BETWEEN_SYMBOLS))
"""$corpus, $owners. Each gives `label` and `id` of the nodes that lost an edge."""
LOWER_FENCES = (
    f"UNWIND $ids AS id MATCH (d:Document {_KEY}id}}) SET d.as_of = -1",
    f"UNWIND $ids AS id MATCH (gone:{REMOVED} {_KEY}id}}) DELETE gone",
)
"""$corpus, $ids. So that documents may be written as of an earlier offset than the server has them by."""
DELETE_CITATIONS = "MATCH (c:Conversation {corpus: $corpus}) DETACH DELETE c"
"""$corpus. Every CITED_BY edge of a corpus, with the conversations."""
READ_FEED = f"""
MATCH (f:{FEED} {{corpus: $corpus}})
RETURN f.version AS version, f.sha256 AS sha256, f.embedding_version AS embedding_version,
  f.citations_sha256 AS citations_sha256, f.dimension AS dimension
"""
"""$corpus. Columns of `Feed`; no row where the corpus was never fed."""
WRITE_FEED = f"""
MERGE (f:{FEED} {{corpus: $corpus}})
SET f.version = $version, f.sha256 = $sha256, f.embedding_version = $embedding_version,
  f.citations_sha256 = $citations_sha256, f.dimension = $dimension
"""
"""$corpus, and the fields of `Feed`."""
STANDING = """
MATCH (d:Document {corpus: $corpus})
WHERE d.id > $after
RETURN d.id AS id, d.sha256 AS sha256, d.embedding_version AS embedding_version ORDER BY id LIMIT $most
"""
"""$corpus, $after, $most. Columns `id`, `sha256`, `embedding_version`, ordered by `id`."""
LINKED = f"""
MATCH (near:Document {{corpus: $corpus}})-[:REFERS_TO|LINKS_TO]->(name)-[:DEFINED_IN|RESOLVES_TO]->(d:Document)
WHERE near.id IN $ids AND d.corpus = $corpus AND d.id <> near.id
WITH near.id AS near_id, d, collect(DISTINCT name.id) AS names
RETURN near_id, {DOCUMENT_COLUMNS}, names[0..5] AS names, size(names) AS shared
ORDER BY shared DESC, id, near_id LIMIT $most
"""
"""$corpus, $ids, $most. Documents that are two edges away, with how many names lead there."""
_DROP_EDGES = """
MATCH (n {corpus: $corpus})-[r]-()
WITH DISTINCT r LIMIT $most
DELETE r
RETURN count(*) AS count
"""
_DROP_NODES = """
MATCH (n {corpus: $corpus})
WITH n LIMIT $most
DETACH DELETE n
RETURN count(*) AS count
"""
DROP_CORPUS = (_DROP_EDGES, _DROP_NODES)
"""$corpus, $most. Each gives `count`; to be repeated until it is 0."""


def delete_orphans(label: NodeLabel, untouched: str) -> str:
    """$corpus, $ids. Deletes nodes of a label of which `untouched`, a condition on `n`, is true."""
    return f"""
UNWIND $ids AS id
MATCH (n:{label} {_KEY}id}})
WHERE {untouched}
DELETE n
"""


def _create_edges(kind: EdgeKind) -> str:
    """Documents are there already and are matched first, as Cypher has no MATCH behind a MERGE; names are made."""
    ends = [_end("a", kind.source, "source"), _end("b", kind.target, "target")]
    first, second = reversed(ends) if kind.target is NodeLabel.DOCUMENT else ends
    return f"""
UNWIND $edges AS row
{first}
{second}
CREATE (a)-[r:{kind.type}]->(b)
SET r = row.properties
"""


def _end(variable: str, label: NodeLabel, field: str) -> str:
    node = f"({variable}:{label} {_KEY}row.{field}}})"
    if label is NodeLabel.DOCUMENT:
        return f"MATCH {node}"
    return f"MERGE {node} ON CREATE SET {variable} += row.{field}_named"


CREATE_EDGES = {kind: _create_edges(kind) for kind in EDGE_KINDS}
"""$corpus, $edges: of each `source`, `target`, `properties`, `source_named`, `target_named` (what ids say)."""
