"""A table of the differences between graph servers: schema language, vector index, some Cypher."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from sluice.contracts.graph.model import NodeLabel
from sluice.graph.servers.statements import BETWEEN_SYMBOLS, DOCUMENT_COLUMNS, FEED, REMOVED, delete_orphans

DialectName = Literal["neo4j", "memgraph"]
VECTOR_INDEX = "document_embedding"
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
    delete_orphans: Mapping[NodeLabel, str]
    """$corpus, $ids."""
    nearest: str
    """$corpus, $embedding, $embedding_version, $candidates, $most, by the vector index. `DOCUMENT_COLUMNS`, `score`."""
    nearest_exactly: str
    """As `nearest`, by every vector of the corpus."""


_ALL_LABELS = (*NodeLabel, REMOVED)

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
    delete_orphans={label: delete_orphans(label, "NOT (n)--()") for label in NAMED},
    nearest=f"""
CALL db.index.vector.queryNodes('{VECTOR_INDEX}', $candidates, $embedding) YIELD node AS d, score
WITH d, score WHERE d.corpus = $corpus AND d.embedding_version = $embedding_version
RETURN {DOCUMENT_COLUMNS}, 2 * score - 1 AS score ORDER BY score DESC, id LIMIT $most
""",
    nearest_exactly=f"""
MATCH (d:Document {{corpus: $corpus, embedding_version: $embedding_version}})
WHERE d.embedding IS NOT NULL
RETURN {DOCUMENT_COLUMNS}, 2 * vector.similarity.cosine(d.embedding, $embedding) - 1 AS score
ORDER BY score DESC, id LIMIT $most
""",
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
    delete_orphans={label: delete_orphans(label, "NOT exists((n)-[]-())") for label in NAMED},
    nearest=f"""
CALL vector_search.search('{VECTOR_INDEX}', $candidates, $embedding) YIELD node AS d, distance
WITH d, 1.0 - distance AS score WHERE d.corpus = $corpus AND d.embedding_version = $embedding_version
RETURN {DOCUMENT_COLUMNS}, score ORDER BY score DESC, id LIMIT $most
""",
    nearest_exactly=f"""
MATCH (d:Document {{corpus: $corpus, embedding_version: $embedding_version}})
WHERE d.embedding IS NOT NULL
WITH d, reduce(total = 0.0, i IN range(0, size($embedding) - 1) | total + d.embedding[i] * $embedding[i]) AS score
RETURN {DOCUMENT_COLUMNS}, score ORDER BY score DESC, id LIMIT $most
""",
)

DIALECTS: Mapping[DialectName, Dialect] = {"neo4j": NEO4J, "memgraph": MEMGRAPH}


def dialect_of(agent: str) -> Dialect:
    """The dialect of a server by how it names itself: `Neo4j/5.26.0`, or `Neo4j/v5.11.0 compatible … - Memgraph`."""
    return MEMGRAPH if "memgraph" in agent.lower() else NEO4J
