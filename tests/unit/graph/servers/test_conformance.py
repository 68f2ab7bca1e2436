"""One suite for every graph server: fakes of two dialects over real sockets, and a real one where the owner names it."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from sluice.contracts.graph.model import CitationRow, Edge, EdgeType, Node, NodeLabel, Origin, document_node
from sluice.graph.servers.server import GraphServer
from sluice.graph.servers.statements import Feed
from tests.support.bolt.world import (
    MODEL,
    WHOLE_EDGES,
    WHOLE_NODES,
    World,
    alias,
    allow,
    connected,
    defines,
    document,
    fake_server,
    links,
    real_server,
    refers,
)

SHOP = document("shop", 1, *defines("shop", "pay"), refers("shop", "till.count"), alias("shop.sum", "till.count"))
TILL = document("till", 1, *defines("till", "count"), links("till", "https://example.org/"))


@pytest.fixture(params=["neo4j", "neo4j before manifests", "neo4j 5.11", "memgraph", "real"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    made = {
        "neo4j": lambda: connected(fake_server()),
        "neo4j before manifests": lambda: connected(fake_server(manifest=False)),
        "neo4j 5.11": lambda: connected(fake_server(has_vector_command=False)),
        "memgraph": lambda: connected(fake_server("memgraph")),
        "real": real_server,
    }
    with made[request.param]() as world:
        yield world


def test_documents_come_with_their_edges_and_the_names_that_these_need(world: World) -> None:
    fed = world.server.upsert(world.corpus, [SHOP, TILL])
    assert (fed.stored, fed.outdated) == (2, ())
    assert world.nodes() == {
        ("Document", "shop"),
        ("Document", "till"),
        ("Symbol", "python:shop.pay"),
        ("Symbol", "python:?.pay"),
        ("Symbol", "python:till.count"),
        ("Symbol", "python:?.count"),
        ("Symbol", "python:shop.sum"),
        ("URL", "https://example.org/"),
    }
    assert world.edges() == [
        ("ALIAS_OF", "python:shop.sum", "python:till.count", "shop"),
        ("DEFINED_IN", "python:?.count", "till", "till"),
        ("DEFINED_IN", "python:?.pay", "shop", "shop"),
        ("DEFINED_IN", "python:shop.pay", "shop", "shop"),
        ("DEFINED_IN", "python:till.count", "till", "till"),
        ("LINKS_TO", "till", "https://example.org/", "till"),
        ("REFERS_TO", "shop", "python:till.count", "shop"),
    ]


def test_nodes_say_what_their_ids_say_and_edges_where_they_stand(world: World) -> None:
    tool = Edge(EdgeType.DEFINED_IN, Node(NodeLabel.TOOL, "files/read"), document_node("till"), Origin.TOOL, (4, 9))
    world.server.upsert(world.corpus, [TILL._replace(edges=(*TILL.edges, tool))])
    nodes = {row[0]["id"]: row[0] for row in world.server.query(WHOLE_NODES, {"corpus": world.corpus}, 100, 5.0).rows}
    edges = [row[0] for row in world.server.query(WHOLE_EDGES, {"corpus": world.corpus}, 100, 5.0).rows]
    corpus = {"corpus": world.corpus}
    count = {"id": "python:till.count", "name": "count", "qualified_name": "till.count", "language": "python"}
    assert nodes["python:till.count"] == {**corpus, **count, "label": "Symbol"}
    assert nodes["files/read"] == {**corpus, "id": "files/read", "name": "read", "server": "files", "label": "Tool"}
    assert nodes["https://example.org/"]["url"] == "https://example.org/"
    assert nodes["till"]["path"] == "till.py"
    assert nodes["till"]["updated_at"] == "2026-02-01T12:00:00+00:00"
    assert {name: value for edge in edges if edge["origin"] == "tool" for name, value in edge.items()} == {
        **corpus,
        "type": "DEFINED_IN",
        "origin": "tool",
        "owner": "till",
        "line": 4,
        "lines": [4, 9],
        "detail": "",
    }


def test_feeding_a_document_twice_is_feeding_it_once(world: World) -> None:
    world.server.upsert(world.corpus, [SHOP, TILL])
    before = world.nodes(), world.edges()
    world.server.upsert(world.corpus, [SHOP])
    world.server.upsert(world.corpus, [TILL, SHOP])
    assert (world.nodes(), world.edges()) == before


def test_a_name_that_is_too_long_for_an_index_costs_its_edge_alone(world: World) -> None:
    whole = document("shop", 1, links("shop", "data:" + "x" * 9_000), refers("shop", "till"))
    assert world.server.upsert(world.corpus, [whole]).stored == 1
    assert world.edges() == [("REFERS_TO", "shop", "python:till", "shop")]


def test_a_changed_document_takes_back_what_it_said_and_leaves_what_others_said(world: World) -> None:
    world.server.upsert(world.corpus, [SHOP, TILL])
    world.server.upsert(world.corpus, [document("shop", 2, refers("shop", "till.other"))])
    assert [edge for edge in world.edges() if edge[3] == "shop"] == [("REFERS_TO", "shop", "python:till.other", "shop")]
    names = {name for label, name in world.nodes() if label == "Symbol"}
    assert names == {"python:till.other", "python:till.count", "python:?.count"}, "names that nothing touches are gone"


def test_what_is_older_than_the_servers_changes_nothing(world: World) -> None:
    world.server.upsert(world.corpus, [document("shop", 5, refers("shop", "new"))])
    fed = world.server.upsert(world.corpus, [document("shop", 4, refers("shop", "old"))])
    assert (fed.stored, fed.outdated) == (0, ("shop",))
    assert world.edges() == [("REFERS_TO", "shop", "python:new", "shop")]
    assert world.server.remove(world.corpus, {"shop": 4}).outdated == ("shop",)
    assert ("Document", "shop") in world.nodes()


def test_a_document_that_left_takes_its_edges_along_and_a_late_write_does_not_bring_it_back(world: World) -> None:
    world.server.upsert(world.corpus, [SHOP, TILL])
    assert world.server.remove(world.corpus, {"shop": 3}).removed == 1
    assert world.nodes() == {
        ("Document", "till"),
        ("Symbol", "python:till.count"),
        ("Symbol", "python:?.count"),
        ("URL", "https://example.org/"),
    }
    assert world.server.upsert(world.corpus, [document("shop", 2)]).outdated == ("shop",)
    assert ("Document", "shop") not in world.nodes()
    assert world.server.upsert(world.corpus, [document("shop", 4)]).stored == 1, "a later one is new"
    assert world.server.remove(world.corpus, {"never there": 4}).removed == 1, "twice removed is removed"


def test_two_corpora_share_nothing_but_the_server(world: World) -> None:
    for corpus in (world.corpus, world.other):
        world.server.upsert(corpus, [SHOP, TILL])
    world.server.remove(world.corpus, {"shop": 2, "till": 2})
    assert world.nodes() == set()
    assert len(world.edges(world.other)) == 7
    world.server.drop_corpus(world.other)
    assert world.nodes(world.other) == set()


def test_constraints_and_the_vector_index_may_be_made_twice(world: World) -> None:
    first = world.server.prepare(3)
    again = GraphServer(world.settings, allow)
    try:
        second = again.prepare(3)
    finally:
        again.close()
    assert first.refused == second.refused == ()
    assert second.dimension == first.dimension is not None


def test_fences_may_be_lowered_for_an_index_that_was_set_back(world: World) -> None:
    world.server.upsert(world.corpus, [document("shop", 9), document("till", 9)])
    world.server.remove(world.corpus, {"till": 10})
    world.server.lower_fences(world.corpus, ["shop", "till"])
    fed = world.server.upsert(world.corpus, [document("shop", 1, refers("shop", "x")), document("till", 1)])
    assert (fed.stored, fed.outdated) == (2, ())
    assert world.edges() == [("REFERS_TO", "shop", "python:x", "shop")]


def test_citations_are_replaced_as_a_whole_and_outlive_a_new_version_of_their_document(world: World) -> None:
    world.server.upsert(world.corpus, [SHOP, TILL])
    world.server.write_citations(world.corpus, [CitationRow("shop", "talk-1", (3,)), CitationRow("till", "talk-1")])
    world.server.upsert(world.corpus, [document("shop", 2)])
    cited = [edge[:3] for edge in world.edges() if edge[0] == "CITED_BY"]
    assert cited == [("CITED_BY", "shop", "talk-1"), ("CITED_BY", "till", "talk-1")]
    world.server.write_citations(world.corpus, [CitationRow("till", "talk-2"), CitationRow("not there", "talk-3")])
    assert [edge[:3] for edge in world.edges() if edge[0] == "CITED_BY"] == [("CITED_BY", "till", "talk-2")]
    assert ("Conversation", "talk-1") not in world.nodes()


def test_a_corpus_knows_up_to_where_it_was_fed(world: World) -> None:
    assert world.server.read_feed(world.corpus) is None
    world.server.write_feed(world.corpus, Feed(7, "ab" * 32, MODEL))
    world.server.write_feed(world.corpus, Feed(8, "cd" * 32, MODEL))
    assert world.server.read_feed(world.corpus) == Feed(8, "cd" * 32, MODEL)
    assert world.server.read_feed(world.other) is None


def test_what_stands_there_can_be_compared(world: World) -> None:
    world.server.upsert(world.corpus, [SHOP, document("till", 1, vector=(1.0, 0.0, 0.0))])
    assert world.server.standing(world.corpus) == {"shop": (SHOP.sha256, None), "till": ("till:0", MODEL)}


def test_the_nearest_documents_come_with_what_they_are_linked_to(world: World) -> None:
    world.server.prepare(3)
    vectors = {"shop": (1.0, 0.0, 0.0), "till": (0.0, 1.0, 0.0), "far": (-1.0, 0.0, 0.0)}
    documents = [
        one._replace(embedding=vectors[one.document_id], embedding_version=MODEL)
        for one in (SHOP, TILL, document("far"))
    ]
    world.server.upsert(world.corpus, documents)
    world.server.upsert(world.other, documents)
    found = world.server.retrieve(world.corpus, (math.sqrt(0.5), math.sqrt(0.5), 0.0), MODEL, 2)
    assert [one.document_id for one in found.documents] == ["shop", "till"]
    assert [one.score for one in found.documents] == pytest.approx([math.sqrt(0.5)] * 2, abs=1e-4)
    assert [(one.from_document_id, one.document_id, one.names, one.shared) for one in found.linked] == [
        ("shop", "till", ("python:till.count",), 1)
    ]
    assert not world.server.retrieve(world.corpus, (1.0, 0.0, 0.0), "model-b", 2).documents, "another model's vectors"


def test_a_corpus_is_searched_whole_where_others_crowd_the_vector_index(world: World) -> None:
    world.server.prepare(3)
    own = document("mine", 1, vector=(0.0, 0.0, 1.0))
    world.server.upsert(world.corpus, [own])
    world.server.upsert(world.other, [document(f"d{n}", 1, vector=(1.0, 0.001 * n, 0.0)) for n in range(30)])
    found = world.server.retrieve(world.corpus, (1.0, 0.0, 0.0), MODEL, 2)
    assert [one.document_id for one in found.documents] == ["mine"]
    assert not found.by_vector_index


def test_a_vector_of_another_dimension_is_left_out_and_its_document_is_not(world: World) -> None:
    world.server.prepare(3)
    fed = world.server.upsert(world.corpus, [document("wide", 1, vector=(1.0, 0.0, 0.0, 0.0))])
    assert fed.stored == 1
    assert ("Document", "wide") in world.nodes()
    assert world.server.retrieve(world.corpus, (1.0, 0.0, 0.0), MODEL, 2).documents == ()
