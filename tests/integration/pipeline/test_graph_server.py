"""What is indexed gets to a graph server by itself, and nothing waits for one that is away."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from sluice.contracts.operations.forget import ForgetRequest, Selection
from sluice.graph.settings import GraphSettings
from sluice.workers.processes.watches.graph import AWAY_SECONDS, GraphServerFeed
from sluice.workers.service.callers import OWN_MACHINE
from sluice.workers.service.forget import ForgetDesk
from tests.support.bolt.server import FakeBoltServer
from tests.support.bolt.world import World, fake_server, settings
from tests.support.in_process import Instance, MakeInstance

STAGES = ("chunk", "embed", "index", "graph")


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def fake() -> FakeBoltServer:
    return fake_server()


@pytest.fixture
def looking(fake: FakeBoltServer) -> Iterator[World]:
    """Another client of the same server, which keeps its port while it is away."""
    with fake.serving():
        pass
    world = World(settings(fake.url), fake)
    yield world
    world.server.close()


def _instance(make_instance: MakeInstance, fake: FakeBoltServer) -> Instance:
    told: GraphSettings = settings(fake.url, timeout_seconds=1.0)
    password = told.password.get_secret_value() if told.password else ""
    return make_instance(graph={"url": told.url, "user": told.user, "password": password, "timeout_seconds": 1.0})


def test_documents_get_to_the_server_with_vectors_and_leave_it_when_they_are_forgotten(
    make_instance: MakeInstance, fake: FakeBoltServer, looking: World
) -> None:
    instance, clock = _instance(make_instance, fake), Clock()
    feed = GraphServerFeed(instance.context, clock)
    with fake.serving():
        instance.adds("See `shop.pay` in [the till](till.md).", "Ferrets sleep all day.")
        instance.works(*STAGES)
        feed.look()
        assert {name for label, name in looking.nodes("default") if label == "Document"} == {"doc-0", "doc-1"}
        model = instance.context.readers.reader("default").model_fingerprint
        assert model is not None
        question = instance.context.embedding.embed_by(model, ["when do ferrets sleep?"]).vectors[0]
        found = looking.server.retrieve("default", question.tolist(), model, 1)
        assert [one.document_id for one in found.documents] == ["doc-1"]
        assert found.documents[0].score > 0.5
        assert not any("text" in name or name == "content" for name in fake.store.node("default", "doc-0"))
        desk = ForgetDesk(instance.context)
        desk.forget(ForgetRequest(document_id="doc-1"), OWN_MACHINE)
        instance.works(*STAGES)
        assert _found_on_server(desk) == ("doc-1",)
        clock.now += 1.0
        feed.look()
        assert _found_on_server(desk) == ()
        assert {name for label, name in looking.nodes("default") if label == "Document"} == {"doc-0"}


def _found_on_server(desk: ForgetDesk) -> tuple[str, ...]:
    proof = desk.prove("default", Selection(document_id="doc-1"), OWN_MACHINE)
    return next(trace.found for trace in proof.traces if trace.place == "graph server")


def test_a_proof_of_forgetting_is_none_while_the_server_cannot_be_looked_into(
    make_instance: MakeInstance, fake: FakeBoltServer, looking: World
) -> None:
    instance = _instance(make_instance, fake)
    assert _found_on_server(ForgetDesk(instance.context)) == ("not looked into",)


def test_nothing_waits_for_a_server_that_is_away_and_it_gets_all_when_it_is_back(
    make_instance: MakeInstance, fake: FakeBoltServer, looking: World
) -> None:
    instance, clock = _instance(make_instance, fake), Clock()
    feed = GraphServerFeed(instance.context, clock)
    run_id = instance.adds("See `shop.pay`.")
    instance.works(*STAGES)
    assert instance.context.ledger.graph.totals("default").documents == 1, "the rows are the truth"
    with capture_logs() as logs:
        for _ in range(3):
            feed.look()
            clock.now += AWAY_SECONDS + 1
    assert [entry["event"] for entry in logs] == ["graph_server_not_fed"], "told once"
    assert instance.context.ledger.dead_letters.list() == []
    assert instance.context.ledger.run(run_id).missing == ()
    with fake.serving():
        feed.look()
        assert ("Document", "doc-0") in looking.nodes("default")


def test_two_workers_do_not_feed_one_server_at_once(
    make_instance: MakeInstance, fake: FakeBoltServer, looking: World
) -> None:
    instance = _instance(make_instance, fake)
    clock = Clock()
    first, second = GraphServerFeed(instance.context, clock), GraphServerFeed(instance.context, clock)
    with fake.serving():
        instance.adds("one")
        instance.works(*STAGES)
        first.look()
        instance.adds("one, changed")
        instance.works(*STAGES)
        before = len(fake.statements)
        second.look()
        assert len(fake.statements) == before
        first.look()
        assert looking.server.read_feed("default") is not None
        assert len(fake.statements) > before


def test_a_refused_password_is_told_and_not_tried_at_once_again(
    make_instance: MakeInstance, fake: FakeBoltServer
) -> None:
    with fake.serving():
        instance, clock = _instance(make_instance, fake), Clock()
        feed = GraphServerFeed(instance.context, clock)
        fake.behaviour.password = "changed"
        instance.adds("one")
        instance.works(*STAGES)
        with capture_logs() as logs:
            feed.look()
            seen = len(fake.said)
            clock.now += AWAY_SECONDS + 1
            feed.look()
        [told] = logs
        assert "refuses it" in told["error"]
        assert len(fake.said) == seen, "a server that locks accounts out is not asked again and again"
        fake.behaviour.password = "right"
