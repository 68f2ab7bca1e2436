"""Every statement that is sent to a graph server, by dialect.

Labels, types and properties are those of the engine's file (`graph.cypher.schema`), so that a question in Cypher means
the same to both: a node is known by `(corpus, id)`, where `id` is `Node.key`. An edge says besides which document made
it (`owner`), so what a document said can be taken back. Two labels more are for the feeding alone: `RemovedDocument`
keeps the id of a document that left, with the journal offset (`as_of`) of its leaving, so that a late write does not
bring it back; `GraphFeed` says up to which change a corpus was fed.

`{...}` in a statement is filled in here and never with a value from outside; values are parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from contracts.graph.model import EdgeType, NodeLabel

DialectName = Literal["neo4j", "memgraph"]
VECTOR_INDEX = "document_embedding"
REMOVED = "RemovedDocument"
FEED = "GraphFeed"


class EdgeKind(NamedTuple):
    """An edge's type with the labels that it connects; statements cannot take these as parameters."""

    type: EdgeType
    source: NodeLabel
    target: NodeLabel


EDGE_KINDS = (
    EdgeKind(EdgeType.REFERS_TO, NodeLabel.DOCUMENT, NodeLabel.SYMBOL),
    EdgeKind(EdgeType.LINKS_TO, NodeLabel.DOCUMENT, NodeLabel.URL),
    EdgeKind(EdgeType.DEFINED_IN, NodeLabel.SYMBOL, NodeLabel.DOCUMENT),
    EdgeKind(EdgeType.DEFINED_IN, NodeLabel.TOOL, NodeLabel.DOCUMENT),
    EdgeKind(EdgeType.RESOLVES_TO, NodeLabel.URL, NodeLabel.DOCUMENT),
    EdgeKind(EdgeType.CITED_BY, NodeLabel.DOCUMENT, NodeLabel.CONVERSATION),
    EdgeKind(EdgeType.ALIAS_OF, NodeLabel.SYMBOL, NodeLabel.SYMBOL),
    EdgeKind(EdgeType.INHERITS, NodeLabel.SYMBOL, NodeLabel.SYMBOL),
    EdgeKind(EdgeType.HAS_TYPE, NodeLabel.SYMBOL, NodeLabel.SYMBOL),
)
BETWEEN_SYMBOLS = (EdgeType.ALIAS_OF, EdgeType.INHERITS, EdgeType.HAS_TYPE)
"""Edges that do not touch their owner: they are found by the index of `owner`."""
NAMED = (NodeLabel.SYMBOL, NodeLabel.URL, NodeLabel.TOOL, NodeLabel.CONVERSATION)
"""Labels of nodes that stand for a name: they live while an edge touches them."""


class Dialect(NamedTuple):
    """The statements of one kind of server. Parameters are named in `$`."""

    name: DialectName
    schema: tuple[str, ...]
    """Constraints and indexes but for the vectors'; each may be there already."""
    vector_index: tuple[str, ...]
    """Ways to create it, with `{dimension}`; the first that the server understands counts."""
    vector_index_info: str
    """Columns `name` and `dimension`, of every vector index."""
    merge_documents: str
    """$corpus, $documents: of each `id`, `as_of`, `properties`. Gives `id` of those not too late."""
    remove_documents: str
    """$corpus, $documents: of each `id`, `as_of`. Gives `id` of those not too late."""
    delete_documents: str
    """$corpus, $ids."""
    delete_edges: tuple[str, ...]
    """$corpus, $owners. Each gives `label` and `id` of the nodes that lost an edge."""
    create_edges: Mapping[EdgeKind, str]
    """$corpus, $edges: of each `source`, `target`, `properties`, `source_named`, `target_named` (what ids say)."""
    delete_orphans: Mapping[NodeLabel, str]
    """$corpus, $ids."""
    lower_fences: tuple[str, ...]
    """$corpus, $ids. So that documents may be written as of an earlier offset than the server has them by."""
    delete_citations: str
    """$corpus. Every CITED_BY edge of a corpus, with the conversations."""
    feed: str
    """$corpus. Columns of `Feed`; no row where the corpus was never fed."""
    set_feed: str
    """$corpus, and the fields of `Feed`."""
    standing: str
    """$corpus, $after, $most. Columns `id`, `sha256`, `embedding_version`, ordered by `id`."""
    nearest: str
    """$corpus, $embedding, $embedding_version, $candidates, $most, by the vector index. Columns of `_DOCUMENT`."""
    nearest_exactly: str
    """As `nearest`, by every vector of the corpus."""
    linked: str
    """$corpus, $ids, $most. Documents that are two edges away, with how many names lead there."""
    drop_corpus: tuple[str, ...]
    """$corpus, $most. Each gives `count`; to be repeated until it is 0."""


PING = "RETURN 1 AS n"

_KEY = "{corpus: $corpus, id: "
_DOCUMENT = "d.id AS id, d.path AS path, d.url AS url, d.title AS title"

_MERGE_DOCUMENTS = f"""
UNWIND $documents AS row
OPTIONAL MATCH (gone:{REMOVED} {_KEY}row.id}})
WITH row, gone WHERE gone IS NULL OR gone.as_of <= row.as_of
MERGE (d:Document {_KEY}row.id}})
WITH row, gone, d WHERE d.as_of IS NULL OR d.as_of <= row.as_of
SET d = row.properties
DETACH DELETE gone
RETURN row.id AS id
"""
_REMOVE_DOCUMENTS = f"""
UNWIND $documents AS row
OPTIONAL MATCH (d:Document {_KEY}row.id}})
OPTIONAL MATCH (gone:{REMOVED} {_KEY}row.id}})
WITH row, d, gone
WHERE (d IS NULL OR d.as_of IS NULL OR d.as_of <= row.as_of) AND (gone IS NULL OR gone.as_of <= row.as_of)
MERGE (tombstone:{REMOVED} {_KEY}row.id}})
SET tombstone.as_of = row.as_of
RETURN row.id AS id
"""
_DELETE_DOCUMENTS = f"""
UNWIND $ids AS id
MATCH (d:Document {_KEY}id}})
DETACH DELETE d
"""
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
_LOWER_FENCES = (
    f"UNWIND $ids AS id MATCH (d:Document {_KEY}id}}) SET d.as_of = -1",
    f"UNWIND $ids AS id MATCH (gone:{REMOVED} {_KEY}id}}) DELETE gone",
)
_DELETE_CITATIONS = "MATCH (c:Conversation {corpus: $corpus}) DETACH DELETE c"
_FEED = f"""
MATCH (f:{FEED} {{corpus: $corpus}})
RETURN f.version AS version, f.sha256 AS sha256, f.embedding_version AS embedding_version,
  f.citations_sha256 AS citations_sha256, f.dimension AS dimension
"""
_SET_FEED = f"""
MERGE (f:{FEED} {{corpus: $corpus}})
SET f.version = $version, f.sha256 = $sha256, f.embedding_version = $embedding_version,
  f.citations_sha256 = $citations_sha256, f.dimension = $dimension
"""
_STANDING = """
MATCH (d:Document {corpus: $corpus})
WHERE d.id > $after
RETURN d.id AS id, d.sha256 AS sha256, d.embedding_version AS embedding_version ORDER BY id LIMIT $most
"""
_LINKED = f"""
MATCH (near:Document {{corpus: $corpus}})-[:REFERS_TO|LINKS_TO]->(name)-[:DEFINED_IN|RESOLVES_TO]->(d:Document)
WHERE near.id IN $ids AND d.corpus = $corpus AND d.id <> near.id
WITH near.id AS near_id, d, collect(DISTINCT name.id) AS names
RETURN near_id, {_DOCUMENT}, names[0..5] AS names, size(names) AS shared ORDER BY shared DESC, id, near_id LIMIT $most
"""
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


def _delete_orphans(label: NodeLabel, untouched: str) -> str:
    return f"""
UNWIND $ids AS id
MATCH (n:{label} {_KEY}id}})
WHERE {untouched}
DELETE n
"""


_ALL_LABELS = (*NodeLabel, REMOVED)
_DELETE_EDGES = (_DELETE_OWN_EDGES, *(_DELETE_EDGES_BETWEEN_SYMBOLS.replace("{type}", one) for one in BETWEEN_SYMBOLS))
_CREATE_EDGES = {kind: _create_edges(kind) for kind in EDGE_KINDS}

NEO4J = Dialect(
    name="neo4j",
    schema=(
        *(
            f"CREATE CONSTRAINT sluice_{label.lower()} IF NOT EXISTS FOR (n:{label}) REQUIRE (n.corpus, n.id) IS UNIQUE"
            for label in _ALL_LABELS
        ),
        f"CREATE CONSTRAINT sluice_feed IF NOT EXISTS FOR (n:{FEED}) REQUIRE n.corpus IS UNIQUE",
        *(
            f"CREATE INDEX sluice_{kind.lower()}_owner IF NOT EXISTS FOR ()-[r:{kind}]-() ON (r.corpus, r.owner)"
            for kind in BETWEEN_SYMBOLS
        ),
    ),
    vector_index=(
        # Neo4j 5.15 and later.
        f"CREATE VECTOR INDEX {VECTOR_INDEX} IF NOT EXISTS FOR (d:Document) ON (d.embedding) OPTIONS {{indexConfig: "
        "{`vector.dimensions`: {dimension}, `vector.similarity_function`: 'cosine'}}",
        # Neo4j 5.11 to 5.14 have the index, and a procedure in place of the command.
        f"CALL db.index.vector.createNodeIndex('{VECTOR_INDEX}', 'Document', 'embedding', {{dimension}}, 'cosine')",
    ),
    vector_index_info=(
        "SHOW INDEXES YIELD name, type, options WHERE type = 'VECTOR' "
        "RETURN name, options.indexConfig.`vector.dimensions` AS dimension"
    ),
    merge_documents=_MERGE_DOCUMENTS,
    remove_documents=_REMOVE_DOCUMENTS,
    delete_documents=_DELETE_DOCUMENTS,
    delete_edges=_DELETE_EDGES,
    create_edges=_CREATE_EDGES,
    delete_orphans={label: _delete_orphans(label, "NOT (n)--()") for label in NAMED},
    lower_fences=_LOWER_FENCES,
    delete_citations=_DELETE_CITATIONS,
    feed=_FEED,
    set_feed=_SET_FEED,
    standing=_STANDING,
    nearest=f"""
CALL db.index.vector.queryNodes('{VECTOR_INDEX}', $candidates, $embedding) YIELD node AS d, score
WITH d, score WHERE d.corpus = $corpus AND d.embedding_version = $embedding_version
RETURN {_DOCUMENT}, 2 * score - 1 AS score ORDER BY score DESC, id LIMIT $most
""",
    nearest_exactly=f"""
MATCH (d:Document {{corpus: $corpus, embedding_version: $embedding_version}})
WHERE d.embedding IS NOT NULL
RETURN {_DOCUMENT}, 2 * vector.similarity.cosine(d.embedding, $embedding) - 1 AS score
ORDER BY score DESC, id LIMIT $most
""",
    linked=_LINKED,
    drop_corpus=(_DROP_EDGES, _DROP_NODES),
)

MEMGRAPH = Dialect(
    name="memgraph",
    schema=(
        *(f"CREATE CONSTRAINT ON (n:{label}) ASSERT n.corpus, n.id IS UNIQUE" for label in _ALL_LABELS),
        f"CREATE CONSTRAINT ON (n:{FEED}) ASSERT n.corpus IS UNIQUE",
        *(f"CREATE INDEX ON :{label}(id)" for label in _ALL_LABELS),  # a constraint makes none there
        *(f"CREATE EDGE INDEX ON :{kind}(owner)" for kind in BETWEEN_SYMBOLS),
    ),
    vector_index=(
        f"CREATE VECTOR INDEX {VECTOR_INDEX} ON :Document(embedding) "
        'WITH CONFIG {"dimension": {dimension}, "capacity": 10000, "metric": "cos"}',
    ),
    vector_index_info=(
        "CALL vector_search.show_index_info() YIELD index_name, dimension RETURN index_name AS name, dimension"
    ),
    merge_documents=_MERGE_DOCUMENTS,
    remove_documents=_REMOVE_DOCUMENTS,
    delete_documents=_DELETE_DOCUMENTS,
    delete_edges=_DELETE_EDGES,
    create_edges=_CREATE_EDGES,
    delete_orphans={label: _delete_orphans(label, "NOT exists((n)-[]-())") for label in NAMED},
    lower_fences=_LOWER_FENCES,
    delete_citations=_DELETE_CITATIONS,
    feed=_FEED,
    set_feed=_SET_FEED,
    standing=_STANDING,
    nearest=f"""
CALL vector_search.search('{VECTOR_INDEX}', $candidates, $embedding) YIELD node AS d, distance
WITH d, 1.0 - distance AS score WHERE d.corpus = $corpus AND d.embedding_version = $embedding_version
RETURN {_DOCUMENT}, score ORDER BY score DESC, id LIMIT $most
""",
    nearest_exactly=f"""
MATCH (d:Document {{corpus: $corpus, embedding_version: $embedding_version}})
WHERE d.embedding IS NOT NULL
WITH d, reduce(total = 0.0, i IN range(0, size($embedding) - 1) | total + d.embedding[i] * $embedding[i]) AS score
RETURN {_DOCUMENT}, score ORDER BY score DESC, id LIMIT $most
""",
    linked=_LINKED,
    drop_corpus=(_DROP_EDGES, _DROP_NODES),
)

DIALECTS: Mapping[DialectName, Dialect] = {"neo4j": NEO4J, "memgraph": MEMGRAPH}


def dialect_of(agent: str) -> Dialect:
    """The dialect of a server by how it names itself: `Neo4j/5.26.0`, or `Neo4j/v5.11.0 compatible … - Memgraph`."""
    return MEMGRAPH if "memgraph" in agent.lower() else NEO4J
