"""The figures' page, and the fragments that the streams of these pages send."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.testclient import TestClient

from sluice.api.console.figures import GRAPH_HEIGHT, GRAPH_WIDTH, rings, stacked
from sluice.api.console.frame import render
from sluice.api.console.hub import FIGURES
from sluice.contracts.errors import Forbidden
from sluice.contracts.graph.api import Neighbours, NeighbourView, NodeView
from sluice.contracts.graph.model import EdgeType
from sluice.ledger.ledger import Ledger
from sluice.workers.service.callers import OWN_MACHINE, Caller
from tests.support.console_visitor import Visitor


@pytest.fixture
def worked(visitor: Visitor, ledger: Ledger) -> Visitor:
    """A stage that handled three events and failed at one."""
    for ended, waited in (("handled", 0.5), ("handled", 1.5), ("handled", 1.0), ("failed", 9.0)):
        ledger.stage_minutes.note_ended("crawl", ended, waited, 0.25)  # type: ignore[arg-type]
    ledger.stage_minutes.flush()
    return visitor


def test_what_stages_did_is_drawn_and_told(worked: Visitor) -> None:
    page = worked.get("/figures")
    row = page.partition('id="total-crawl"')[2].partition("</tr>")[0]
    assert [one for one in (">3<", ">1<", "3.00 s", "9.00 s", "250 ms") if one not in row] == []
    assert page.count("<polyline") == 4 * 8
    for hours in (24, 720):
        assert 'id="total-crawl"' in worked.get("/figures", hours=hours)
    worked.get("/figures", 422, hours=0)


@pytest.mark.parametrize(("hours", "width"), [(1, 1), (24, 15), (720, 60)])
def test_the_same_stands_under_v1(worked: Visitor, hours: int, width: int) -> None:
    found = worked.http.get("/v1/stages/figures", params={"hours": hours}).json()["data"]
    [crawl] = [one for one in found if one["figures"]]
    assert (crawl["stage"], crawl["minutes_each"]) == ("crawl", width)
    [figures] = crawl["figures"]
    assert (figures["handled"], figures["failed"], figures["longest_wait_ms"]) == (3, 1, 9_000)
    assert figures["mean_wait_ms"] == 3_000


def test_neighbours_are_drawn_apart_and_within_the_picture() -> None:
    node = NodeView(id="Symbol:x", label="Symbol", name="x")
    for count in (1, 20, 21, 60):
        near = tuple(
            NeighbourView(
                node=node.model_copy(update={"id": f"n{n}"}), edge=EdgeType.INHERITS, direction="out", origin="import"
            )
            for n in range(count)
        )
        drawn = rings(Neighbours(node=node, neighbours=near, total=count, generation="g"))
        assert len({(one.x, one.y) for one in drawn}) == count
        assert all(20 < one.x < GRAPH_WIDTH - 20 and 20 < one.y < GRAPH_HEIGHT - 20 for one in drawn)


def test_columns_fill_the_chart_and_are_stacked() -> None:
    bars = stacked([("1", {"a": 1, "b": 3}), ("2", {"b": 2})], ("a", "b"))
    assert [(one.of, one.y, one.height) for one in bars] == [("a", 120, 40), ("b", 0, 120), ("b", 80, 80)]
    assert stacked([], ("a",)) == []


def test_nothing_done_is_said(visitor: Visitor) -> None:
    assert "No stage did anything" in visitor.get("/figures")


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("crawl", {"days": "2"}),
        ("host", {"host": "example.org"}),
        ("corpus", {"corpus": "default"}),
        ("figures", {"hours": "24"}),
    ],
)
def test_a_fragment_holds_nothing_that_the_guard_would_strip(
    worked: Visitor, name: str, parameters: dict[str, str]
) -> None:
    app: Any = worked.http.app
    visit: Any = SimpleNamespace(instance=app.state.instance, caller=OWN_MACHINE)
    figures = FIGURES[name]
    figures.needs(visit, parameters)
    fragment = render(None, figures.template, **figures.read(visit, parameters))
    assert "hx-" not in fragment
    assert "<form" not in fragment
    visit.caller = Caller("key_1", "agent", frozenset({"docs"}))
    with pytest.raises(Forbidden):
        figures.needs(visit, parameters)


@pytest.mark.parametrize(("role", "corpora"), [("agent", ()), ("operator", ("docs",))])
def test_only_an_operator_of_all_corpora_sees_them(
    signed: Callable[..., Visitor], role: str, corpora: tuple[str, ...]
) -> None:
    other = signed(role, *corpora)
    other.get("/figures", 403)
    assert isinstance(other.http, TestClient)
    assert other.http.get("/console/stream", params={"page": "figures"}).status_code == 403
