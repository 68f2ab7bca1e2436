"""A question in Cypher means the same to the published file and to a graph server."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.contracts.errors import InvalidInput
from sluice.contracts.graph.model import Edge, EdgeType, Node, NodeLabel, Origin, document_node
from sluice.graph.cypher.guard import guard
from sluice.graph.cypher.parse import NEO4J
from sluice.graph.schema import EDGE_PROPERTIES, NODE_PROPERTIES
from tests.support.bolt.grammar import problems
from tests.support.bolt.world import WHOLE_EDGES, WHOLE_NODES, connected, defines, document, fake_server, links


def test_nodes_and_edges_have_the_same_properties() -> None:
    tool = Edge(EdgeType.DEFINED_IN, Node(NodeLabel.TOOL, "files/read"), document_node("d"), Origin.TOOL, (4,), "tool")
    edges = (*defines("d", "f"), links("d", "https://example.org/"), tool)
    whole = document("d", 1, *edges, vector=(1.0, 0.0), url="https://example.org/d", title="D")
    with connected(fake_server()) as world:
        world.server.upsert(world.corpus, [whole])
        asked: dict[str, Any] = {"corpus": world.corpus}
        nodes = [row[0] for row in world.server.query(WHOLE_NODES, asked, 100, 5.0).rows]
        found = [row[0] for row in world.server.query(WHOLE_EDGES, asked, 100, 5.0).rows]
    for node in nodes:
        assert set(NODE_PROPERTIES[NodeLabel(node["label"])]) <= node.keys()
    for edge in found:
        assert EDGE_PROPERTIES.keys() - edge.keys() == {"candidates"}, "how many there are follows from other files"


@pytest.mark.parametrize(
    "question",
    [
        "MATCH (d:Document)-[:REFERS_TO]->(s:Symbol {name: $name})-[:DEFINED_IN]->(o) RETURN o.path, count(*) AS n",
        "MATCH p = (a:Symbol)-[:ALIAS_OF|INHERITS*1..3]->(b) WHERE a.language = 'python' RETURN p LIMIT 5",
        "MATCH (d:Document) WHERE d.path STARTS WITH 'docs/' OPTIONAL MATCH (d)-[r:LINKS_TO]->(u) RETURN d, r, u",
    ],
)
def test_the_guard_writes_for_a_server_what_its_parser_reads_with_the_corpus_in_every_node(question: str) -> None:
    statement = guard(question, {"name": "add"}, "docs", 10, NEO4J)
    assert problems(statement.text) == []
    assert statement.parameters["corpus"] == "docs"
    assert statement.text.count("$corpus") >= question.count("(") - question.count("count(")


def test_what_writes_does_not_get_to_a_server() -> None:
    for refused in (
        "MATCH (n) DETACH DELETE n",
        "CALL db.labels()",
        "LOAD CSV FROM 'file:///etc/passwd' AS x RETURN x",
    ):
        with pytest.raises(InvalidInput):
            guard(refused, {}, "docs", 10, NEO4J)
