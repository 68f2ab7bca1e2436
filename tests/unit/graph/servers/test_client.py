"""The connection: who may be reached and how, what goes wrong on the way, and what is said of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from sluice.contracts.errors import InvalidInput, InvalidSetting, PolicyRefused, TimedOut, Unavailable
from sluice.graph.servers.server import GraphServer
from sluice.graph.settings import GraphSettings
from tests.support.bolt.server import FakeBoltServer
from tests.support.bolt.store import Refused, Table, edge_value, node_value
from tests.support.bolt.world import EDGES, World, allow, connected, document, fake_server, refers, settings

SECRET = "hunter2-hunter2"


@pytest.fixture
def world() -> Iterator[World]:
    with connected(fake_server()) as world:
        yield world


def _fake(world: World) -> FakeBoltServer:
    assert world.fake is not None
    return world.fake


def test_a_wrong_password_is_named_as_the_setting_and_never_shown() -> None:
    with connected(fake_server(), password=SECRET) as world:
        with capture_logs() as logs, pytest.raises(InvalidSetting, match=r"graph\.password.*refuses it") as raised:
            world.server.ping()
        assert SECRET not in str(raised.value) + repr(raised.value) + repr(logs) + repr(
            settings("bolt://h", password=SECRET)
        )


def test_a_server_that_is_not_there_is_unavailable_and_found_when_it_comes() -> None:
    fake = fake_server()
    with fake.serving():
        pass
    server = GraphServer(settings(fake.url, timeout_seconds=1.0), allow)
    try:
        with pytest.raises(Unavailable, match="does not answer"):
            server.ping()
        with fake.serving():
            server.ping()
    finally:
        server.close()


def test_a_silent_server_times_out() -> None:
    with connected(fake_server(is_silent=True), timeout_seconds=0.2) as world:
        started = time.monotonic()
        with pytest.raises(Unavailable):
            world.server.ping()
        assert time.monotonic() - started < 5


def test_a_slow_statement_is_ended_by_the_server_and_told_as_a_timeout(world: World) -> None:
    fake = _fake(world)
    world.server.ping()
    fake.behaviour.delay_seconds = 30.0
    with pytest.raises(TimedOut, match="too long"):
        world.server.query(EDGES, {"corpus": world.corpus}, 10, 0.1)
    fake.behaviour.delay_seconds = 0.0
    assert world.edges() == [], "the next question is answered"


def test_a_server_that_is_gone_in_mid_transaction_leaves_nothing_half_done(world: World) -> None:
    fake = _fake(world)
    world.server.upsert(world.corpus, [document("shop", 1, refers("shop", "old"))])
    before = world.nodes(), world.edges()
    fake.behaviour.hang_up_at = "CREATE (a)-[r:REFERS_TO]->(b)"
    impatient = GraphServer(settings(fake.url, timeout_seconds=0.3), allow)
    try:
        with pytest.raises(Unavailable):
            impatient.upsert(world.corpus, [document("shop", 2, refers("shop", "new")), document("till", 2)])
    finally:
        impatient.close()
    assert "lost" in fake.ended
    assert (world.nodes(), world.edges()) == before
    fake.behaviour.hang_up_at = None
    world.server.upsert(world.corpus, [document("shop", 2, refers("shop", "new"))])
    assert world.edges() == [("REFERS_TO", "shop", "python:new", "shop")]


def test_what_fails_in_passing_is_tried_again(world: World) -> None:
    _fake(world).behaviour.fail_times = 1
    assert world.server.upsert(world.corpus, [document("shop", 1, refers("shop", "till"))]).stored == 1
    assert _fake(world).ended[:2] == ["rollback", "commit"]
    assert world.edges() == [("REFERS_TO", "shop", "python:till", "shop")], "done once"


def test_a_question_reads_in_a_transaction_that_is_rolled_back(world: World) -> None:
    fake = _fake(world)

    def write(_: dict[str, object]) -> Table:
        fake.store.content.nodes["Document", world.corpus, "sneaked"] = {"corpus": world.corpus, "id": "sneaked"}
        return Table(("done",), [[1]])

    fake.store.extra["CREATE what the guard should have refused"] = write
    world.server.query("CREATE what the guard should have refused", {}, 10, 1.0)
    assert fake.modes[-1] == "r"
    assert fake.ended[-1] == "rollback"
    assert world.nodes() == set()


def test_a_huge_result_is_cut_and_not_fetched_whole(world: World) -> None:
    fetched = 0

    def rows() -> Iterator[list[object]]:
        nonlocal fetched
        for number in range(1_000_000):
            fetched += 1
            yield [number]

    _fake(world).store.extra["UNWIND everything"] = lambda _: Table(("n",), rows())
    found = world.server.query("UNWIND everything", {}, 100, 5.0)
    assert (found.is_cut, len(found.rows), found.rows[-1]) == (True, 100, (99,))
    assert fetched <= 10_000


def test_nodes_and_edges_are_objects_of_their_properties_without_the_vector(world: World) -> None:
    node = node_value("Document", {"id": "shop", "embedding": [0.1] * 384, "path": "shop.py"})
    edge = edge_value("REFERS_TO", {"lines": [1, 2], "origin": "import"})
    _fake(world).store.extra["MATCH things"] = lambda _: Table(("d", "r", "l"), [[node, edge, [node, None]]])
    [row] = world.server.query("MATCH things", {}, 10, 1.0).rows
    shop = {"id": "shop", "path": "shop.py", "label": "Document"}
    assert row == (shop, {"lines": [1, 2], "origin": "import", "type": "REFERS_TO"}, [shop, None])


def test_a_statement_that_the_server_does_not_understand_is_the_askers(world: World) -> None:
    with pytest.raises(InvalidInput, match="Invalid input"):
        world.server.query("MATCH (n", {}, 10, 1.0)
    assert world.nodes() == set()


def test_a_server_without_vectors_is_fed_and_the_report_says_what_it_refused() -> None:
    with connected(fake_server(has_vectors=False)) as world:
        report = world.server.prepare(3)
        assert report.dimension is None
        assert len(report.refused) == 2
        assert "VECTOR" in report.refused[0]
        assert world.server.upsert(world.corpus, [document("shop", 1, vector=(1.0, 0.0, 0.0))]).stored == 1
        found = world.server.retrieve(world.corpus, (1.0, 0.0, 0.0), "model-a", 1)
        assert [one.document_id for one in found.documents] == ["shop"]


def test_the_rules_of_egress_are_asked_before_a_connection_is_made() -> None:
    def refuse(host: str, port: int) -> None:
        raise PolicyRefused("egress", f"{host}:{port}", "egress.policy")

    with connected(fake_server()) as world:
        server = GraphServer(settings(_fake(world).url), refuse)
        with pytest.raises(PolicyRefused, match=f"127.0.0.1:{_fake(world).port}"):
            server.ping()
        server.close()
        assert _fake(world).said == []


def test_members_that_a_server_names_are_put_to_the_rules_of_egress_too() -> None:
    asked: list[tuple[str, int]] = []

    def rules(host: str, port: int) -> None:
        asked.append((host, port))
        if port == 1:
            raise PolicyRefused("egress", f"{host}:{port} is not listed", "egress.allow")

    with connected(fake_server(members=("127.0.0.1:1",))) as world:
        fake = _fake(world)
        server = GraphServer(settings(fake.url.replace("bolt:", "neo4j:"), timeout_seconds=0.5), rules)
        with pytest.raises(PolicyRefused, match="not listed"):
            server.ping()
        fake.behaviour.members = ()
        routed = GraphServer(settings(fake.url.replace("bolt:", "neo4j:")), rules)
        assert routed.upsert(world.corpus, [document("shop")]).stored == 1
        routed.close()
        server.close()
    assert ("127.0.0.1", 1) in asked


@pytest.mark.parametrize(
    ("url", "event"),
    [
        ("bolt://127.0.0.1:{}", None),
        ("bolt://graph.example.org:{}", "graph_server_in_clear_text"),
        ("bolt+ssc://graph.example.org:{}", "graph_server_not_verified"),
        ("bolt+s://graph.example.org:{}", None),
    ],
)
def test_clear_text_beyond_this_machine_is_said(url: str, event: str | None) -> None:
    server = GraphServer(settings(url.format(9), timeout_seconds=0.2), lambda host, port: None)
    with capture_logs() as logs, pytest.raises(Unavailable):
        server.ping()
    server.close()
    assert [entry["event"] for entry in logs] == ([event] if event else [])


def test_the_driver_is_needed_only_where_a_server_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "neo4j", None)
    server = GraphServer(settings("bolt://127.0.0.1:7687"), allow)
    with pytest.raises(InvalidSetting, match=r"pip install 'sluice\[neo4j\]'"):
        server.ping()
    server.close()
    with pytest.raises(InvalidSetting, match="not set"):
        GraphServer(GraphSettings(), allow)


@pytest.mark.parametrize(
    "url",
    ["http://h:7474", "bolt://", "bolt://user:secret@h:7687", "bolt://h:7687/db", "bolt://h:99999", "bolt://h?x=1"],
)
def test_an_address_that_is_none_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(ValueError, match="url: ") as raised:
        GraphSettings(url=url)
    assert "secret" not in str(raised.value.errors(include_input=False, include_url=False))  # type: ignore[attr-defined]


def test_many_threads_share_one_server(world: World) -> None:
    problems: list[BaseException] = []

    def feed(number: int) -> None:
        try:
            for turn in range(3):
                world.server.upsert(world.corpus, [document(f"d{number}", turn, refers(f"d{number}", "shared"))])
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=feed, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert len(world.edges()) == 6


def test_closed_is_closed(world: World) -> None:
    world.server.ping()
    world.server.close()
    with pytest.raises(Unavailable, match="closed"):
        world.server.ping()


def test_the_fake_refuses_what_it_does_not_know() -> None:
    with pytest.raises(Refused, match="Invalid input"):
        fake_server().store.run("RETURN 2", {}, in_transaction=False)
