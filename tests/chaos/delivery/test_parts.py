"""The suite's own tools do what it relies on."""

from __future__ import annotations

import json
import multiprocessing
import random
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.contracts.errors import InvalidInput
from sluice.otel.spans import SpanLink, StoredSpan
from sluice.workers.broker.keys import wake_up_in
from tests.chaos.delivery.failpoints import FAULTS, Cell, Failpoints, arm, cells
from tests.chaos.delivery.malformed import GARBAGE, garbage, wake_up
from tests.chaos.delivery.matrix import waves
from tests.chaos.delivery.plan import kill_plan
from tests.chaos.delivery.proxy import Proxy
from tests.chaos.delivery.recovery import recovery
from tests.chaos.delivery.traces import pieces
from tests.chaos.delivery.witness import Witness, facts

BROKEN = Cell("settle.after", "embed", "exception")


def failpoints(folder: Path, role: str = "embed") -> Failpoints:
    return Failpoints(folder, role, Witness(folder / "witness.jsonl", role))


def passes(folder: Path, point: str) -> bool:
    """Whether the fault happened."""
    try:
        failpoints(folder).passes(point)
    except RuntimeError:
        return True
    return False


def test_an_armed_fault_happens_once_and_is_witnessed_before_it_does(tmp_path: Path) -> None:
    arm(tmp_path, BROKEN)
    assert [passes(tmp_path, "settle.before"), passes(tmp_path, "settle.after")] == [False, True]
    assert not passes(tmp_path, "settle.after")
    assert [fact.more["cell"] for fact in facts(tmp_path / "witness.jsonl", "fired")] == [str(BROKEN)]


def test_a_fault_for_one_corpus_spares_the_others_and_may_happen_for_ever(tmp_path: Path) -> None:
    arm(tmp_path, BROKEN, corpus="poison", keep=True)
    points = failpoints(tmp_path)
    points.handles("chaos")
    points.passes("settle.after")
    points.handles("poison")
    for _ in range(2):
        with pytest.raises(RuntimeError):
            points.passes("settle.after")


def _die_at(folder: Path, point: str) -> None:
    failpoints(folder).passes(point)


def test_a_killed_process_leaves_its_last_words(tmp_path: Path) -> None:
    arm(tmp_path, Cell("claim.after", "embed", "kill"))
    process = multiprocessing.get_context("fork").Process(target=_die_at, args=(tmp_path, "claim.after"))
    process.start()
    process.join(20)
    assert process.exitcode == -signal.SIGKILL
    assert [fact.pid for fact in facts(tmp_path / "witness.jsonl", "fired")] == [process.pid]


def test_every_cell_is_in_one_wave_and_no_wave_breaks_a_process_twice() -> None:
    planned = list(waves(cells()))
    assert sorted(map(str, (cell for wave in planned for cell in wave))) == sorted(map(str, cells()))
    for wave in planned:
        assert len({cell.role for cell in wave}) == len(wave)
        assert len({cell.fault for cell in wave}) == 1
    assert {cell.fault for cell in cells()} == set(FAULTS)


def test_a_seed_gives_the_same_plan_again_and_another_seed_another() -> None:
    assert kill_plan(7, 50, 1.0) == kill_plan(7, 50, 1.0) != kill_plan(8, 50, 1.0)
    assert garbage(7, 60)[0][0] == garbage(7, 60)[0][0]


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_is_garbage(kind: str) -> None:
    with pytest.raises(InvalidInput):
        wake_up_in(GARBAGE[kind](random.Random(1), "embed"), "embed")


def test_what_garbage_is_made_of_is_none() -> None:
    assert wake_up_in(json.dumps(wake_up("embed")).encode(), "embed").startswith("evt_")


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that sends back what it gets."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=_echo, args=(connection,), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield int(server.getsockname()[1])


def _echo(connection: socket.socket) -> None:
    with connection:
        while data := connection.recv(100):
            connection.sendall(data)


@pytest.fixture
def proxy(echo: int) -> Iterator[Proxy]:
    proxy = Proxy(lambda: echo)
    proxy.start()
    yield proxy
    proxy.stop()


def test_a_proxy_that_refuses_resets_what_is_open_and_takes_nothing_until_mended(proxy: Proxy) -> None:
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as open_before:
        assert _echoed(open_before)
        proxy.cut("refuse")
        assert _has_ended(open_before)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", proxy.port), timeout=10)
    proxy.mend()
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as mended:
        assert _echoed(mended)


def test_a_black_hole_keeps_everything_open_and_lets_it_flow_when_mended(proxy: Proxy) -> None:
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=10) as kept:
        assert _echoed(kept)
        proxy.cut("blackhole")
        kept.sendall(b"late")
        kept.settimeout(0.3)
        with pytest.raises(TimeoutError):
            kept.recv(4)
        proxy.mend()
        kept.settimeout(10)
        assert kept.recv(4) == b"late"


def _has_ended(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def _echoed(connection: socket.socket) -> bool:
    connection.sendall(b"x")
    return connection.recv(1) == b"x"


def span(trace: str, name: str, link: str | None = None) -> StoredSpan:
    links = (SpanLink(link, "s"),) if link else ()
    return StoredSpan(trace, name, None, name, "s", 1, "internal", "ok", "", 0, 1, links=links)


def test_traces_are_in_one_piece_where_links_connect_them() -> None:
    assert pieces([span("t", "a"), span("t", "b")]) == 1
    assert pieces([span("t", "a"), span("u", "b")]) == 2
    assert pieces([span("t", "a"), span("u", "b", link="t"), span("v", "c", link="u")]) == 1


def test_recovery_is_the_time_until_what_a_killed_process_held_is_taken_up(tmp_path: Path) -> None:
    path = tmp_path / "witness.jsonl"
    lines = [
        ("claimed", 1.0, 7, "e1", 1, {}),
        ("settled", 2.0, 7, "e1", 1, {}),
        ("claimed", 3.0, 7, "e2", 1, {}),
        ("killed", 4.0, 1, "", 0, {"killed": [7]}),
        ("claimed", 6.5, 8, "e2", 2, {}),
    ]
    names = ("what", "at", "pid", "event", "epoch", "more")
    path.write_text("".join(_line(dict(zip(names, line, strict=True))) for line in lines))
    found = recovery(path)
    assert (found.kills, found.holding, found.seconds) == (1, 1, (2.5,))


def _line(facts: dict[str, object]) -> str:
    order = ("what", "at", "pid", "role", "event", "epoch", "more")
    return json.dumps({name: facts.get(name, "r") for name in order}) + "\n"
