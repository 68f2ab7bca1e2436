"""A graph server is brought to where the ledger is, from wherever it stands."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, cast

import numpy as np
import pytest

from sluice.contracts.errors import Unavailable
from sluice.contracts.graph.model import CitationRow
from sluice.ledger.graph.reading import GraphRow, Snapshot
from sluice.ledger.graph.store import Change, Graphs
from sluice.workers.wiring import graph_documents
from sluice.workers.wiring.graph_documents import FedServer, feed_server, mean_vector
from tests.support.bolt.world import World, connected, fake_server
from tests.support.graph.rows import defines, graph_row, links, refers
from tests.support.ledger_story import Story

A = graph_row("a", defines("a", "a.f", 1, 3), refers("a", "b.g", 2, 7))
B = graph_row("b", defines("b", "b.g", 1, 2), links("b", "https://example.org/", "home"))


class Index:
    """The vectors of an index."""

    def __init__(self, model: str | None = "model-a", dimension: int = 3) -> None:
        self.model_fingerprint = model
        self.dimension = dimension

    def document(self, document_id: str) -> None:
        """Its facts; nothing is known of any."""

    def vectors(self, document_id: str) -> Any:
        if self.model_fingerprint is None:
            return None
        first, second = np.zeros(self.dimension), np.zeros(self.dimension)
        first[0] = second[ord(document_id[0]) % self.dimension] = 1.0
        return np.array([first, second], dtype=np.float32)


@pytest.fixture
def graph(story: Story) -> Graphs:
    return story.ledger.graph


@pytest.fixture
def world() -> Iterator[World]:
    with connected(fake_server()) as world:
        yield world


def feed(world: World, graph: Graphs, index: Index | None = None, seconds: float = 60.0, **told: Any) -> FedServer:
    return feed_server("docs", world.server, graph, cast("Any", index or Index()), seconds=seconds, **told)


def shown(world: World) -> tuple[Any, ...]:
    return world.nodes("docs"), world.edges("docs")


def as_built(*rows: GraphRow, as_of: int, graph: Graphs) -> tuple[Any, ...]:
    """What a new server shows of a new graph of these rows."""
    with connected(fake_server()) as other:
        graph.carry_out("anew", Change(as_of, replace=rows))
        feed_server("anew", other.server, graph, cast("Any", Index()), seconds=60.0)
        return other.nodes("anew"), other.edges("anew")


def test_a_server_that_has_nothing_gets_everything_and_then_nothing_more(world: World, graph: Graphs) -> None:
    graph.carry_out("docs", Change(4, replace=[A, B]))
    done = feed(world, graph)
    assert (done.is_level, done.fed.stored, done.totals) == (True, 2, graph.totals("docs"))
    assert shown(world) == as_built(A, B, as_of=4, graph=graph)
    assert feed(world, graph).fed.stored == 0
    found = world.server.retrieve("docs", (1.0, 0.0, 0.0), "model-a", 2)
    assert {one.document_id for one in found.documents} == {"a", "b"}


def test_only_what_differs_is_sent(world: World, graph: Graphs) -> None:
    graph.carry_out("docs", Change(4, replace=[A, B]))
    feed(world, graph)
    newer = graph_row("a", refers("a", "b.h", 2), content="newer")
    graph.carry_out("docs", Change(6, replace=[newer]))
    graph.carry_out("docs", Change(6, remove=["b"]))
    done = feed(world, graph)
    assert (done.is_level, done.fed.stored, done.fed.removed) == (True, 1, 1)
    assert shown(world) == as_built(newer, as_of=6, graph=graph)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_in_whatever_order_documents_came_the_server_is_the_one_that_was_fed_at_once(
    graph: Graphs, order: tuple[int, ...]
) -> None:
    changes = [A, B, graph_row("c", refers("c", "a.f", 1))]
    with connected(fake_server()) as world:
        for number in order:
            graph.carry_out("docs", Change(4, replace=[changes[number]]))
            feed(world, graph)
        assert shown(world) == as_built(*changes, as_of=4, graph=graph)


def test_a_pass_that_is_cut_short_is_gone_on_with(world: World, graph: Graphs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_documents, "DOCUMENTS_AT_ONCE", 2)
    graph.carry_out(
        "docs", Change(4, replace=[graph_row(f"d{number}", refers(f"d{number}", "x", 1)) for number in range(5)])
    )
    time = iter(range(100))
    passes = [feed(world, graph, seconds=2.5, clock=lambda: float(next(time))) for _ in range(2)]
    assert [(one.is_level, one.fed.stored) for one in passes] == [(False, 4), (True, 1)]


def test_a_server_that_fails_in_the_midst_is_level_after_the_next_pass(world: World, graph: Graphs) -> None:
    assert world.fake is not None
    graph.carry_out("docs", Change(4, replace=[A, B]))
    world.fake.behaviour.hang_up_at = "LINKS_TO]->(b)"
    impatient = World(world.settings.model_copy(update={"timeout_seconds": 0.3}), world.fake)
    with pytest.raises(Unavailable):
        feed(impatient, graph)
    impatient.server.close()
    assert world.server.read_feed("docs") is None
    world.fake.behaviour.hang_up_at = None
    assert feed(world, graph).is_level
    assert shown(world) == as_built(A, B, as_of=4, graph=graph)


def test_a_server_that_was_emptied_is_filled_again(world: World, graph: Graphs) -> None:
    graph.carry_out("docs", Change(4, replace=[A, B]))
    feed(world, graph)
    world.server.drop_corpus("docs")
    assert feed(world, graph).fed.stored == 2


def test_a_server_that_is_ahead_of_an_index_that_was_set_back_follows_it(world: World, graph: Graphs) -> None:
    graph.carry_out("docs", Change(40, replace=[graph_row("a", refers("a", "later", 1), content="later"), B]))
    feed(world, graph)
    graph.forget_versions("docs")
    graph.carry_out("docs", Change(4, replace=[A]))
    done = feed(world, graph)
    assert done.is_level
    assert done.fed.outdated == ("a",)
    assert shown(world) == as_built(A, B, as_of=4, graph=graph)


def test_another_model_sends_every_vector_anew(world: World, graph: Graphs) -> None:
    graph.carry_out("docs", Change(4, replace=[A, B]))
    feed(world, graph, Index(None))
    assert not world.server.retrieve("docs", (1.0, 0.0, 0.0), "model-a", 2).documents
    assert feed(world, graph, Index("model-b")).fed.stored == 2
    assert len(world.server.retrieve("docs", (1.0, 0.0, 0.0), "model-b", 2).documents) == 2


def test_vectors_that_the_vector_index_does_not_take_are_left_out_until_its_owner_drops_it(
    world: World, graph: Graphs
) -> None:
    assert world.fake is not None
    graph.carry_out("docs", Change(4, replace=[A, B]))
    feed(world, graph)
    wide = Index("model-c", dimension=5)
    assert feed(world, graph, wide).fed.stored == 2
    assert feed(world, graph, wide).fed.stored == 0, "it is not tried again and again"
    assert "embedding" not in world.fake.store.node("docs", "a")
    world.fake.store.content.index_dimension = None
    restarted = World(world.settings, world.fake)
    assert feed(restarted, graph, wide).fed.stored == 2
    assert len(restarted.server.retrieve("docs", (1.0, 0.0, 0.0, 0.0, 0.0), "model-c", 2).documents) == 2
    restarted.server.close()


def test_citations_come_along_and_are_sent_where_they_alone_changed(
    world: World, graph: Graphs, monkeypatch: pytest.MonkeyPatch
) -> None:
    cited: Mapping[str, list[CitationRow]] = {"docs": [CitationRow("a", "talk", (1,))]}
    monkeypatch.setattr(Snapshot, "citations", lambda snapshot: iter(cited["docs"]))
    graph.carry_out("docs", Change(4, replace=[A]))
    feed(world, graph)
    assert ("CITED_BY", "a", "talk", "") in world.edges("docs")
    cited["docs"].append(CitationRow("a", "another"))
    assert feed(world, graph).fed.stored == 0
    assert {edge[2] for edge in world.edges("docs") if edge[0] == "CITED_BY"} == {"talk", "another"}


def test_a_documents_vector_is_the_mean_of_its_chunks_of_length_one() -> None:
    vectors = np.array([[1.0, 0.0], [0.0, 1.0]], dtype=np.float32)
    assert mean_vector(vectors) == pytest.approx((0.5**0.5, 0.5**0.5))
    assert mean_vector(np.array([[1.0, 0.0], [-1.0, 0.0]], dtype=np.float32)) is None
    assert mean_vector(np.empty((0, 2), dtype=np.float32)) is None
    assert mean_vector(None) is None
