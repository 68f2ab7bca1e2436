"""The pages of memory and graph: learnings and their review, nodes and what is next to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from sluice.api.console import knowledge
from sluice.contracts.api import DocumentsRequest
from sluice.contracts.operations.actions import ActionPage
from sluice.ledger.ledger import Ledger
from sluice.memory.qdrant_schema import collection_name
from tests.support.console import token_in
from tests.support.console_visitor import HOSTILE, Visitor, harmless, said
from tests.support.graph.corpus import FILES
from tests.support.in_process import MakeInstance

PROJECT = '/home/me/shop "1" & co'
PAGE = f"/memory/{quote(PROJECT)}"
CART = "Symbol:python:shop.cart.Cart"


def learn(visitor: Visitor, text: str, feature: str = "auth") -> dict[str, Any]:
    body = {"project": PROJECT, "feature": feature, "text": text, "reason": HOSTILE[0]}
    added = visitor.http.post("/v1/memory/learnings", json=body)
    assert added.status_code == 202, added.text
    learning: dict[str, Any] = added.json()["learning"]
    return learning


def test_a_memory_is_opened_and_that_is_recorded(visitor: Visitor, ledger: Ledger) -> None:
    learn(visitor, "The tests need a running database")
    for one in HOSTILE:
        learn(visitor, f"Never send {one} to the shop's till")
    projects = visitor.get("/memory")
    assert f'href="/console{PAGE}"' in projects
    assert ledger.console.actions(ActionPage(action="memory_read")) == []
    page = visitor.get(PAGE)
    assert "The tests need a running database" in page
    harmless(page)
    [looked] = ledger.console.actions(ActionPage(action="memory_read"))
    assert (looked.operator, looked.subject) == ("local", f"memory:{PROJECT}:auth")
    [known] = visitor.http.get("/v1/memory/projects").json()["data"]
    assert known == {"project": PROJECT, "features": ["auth"]}
    visitor.get("/memory/nothing", 404)
    visitor.get(PAGE, 404, feature="other")


def test_a_learning_is_approved_rejected_and_offered_again(visitor: Visitor, ledger: Ledger) -> None:
    name = learn(visitor, "The tests need a running database")["id"]
    assert "is approved" in said(visitor.send(PAGE, f"/learnings/{name}/approve"))
    assert f"/learnings/{name}/approve" not in visitor.get(PAGE)
    assert "is rejected" in said(visitor.send(PAGE, f"/learnings/{name}/reject"))
    assert "There is none of this state" in visitor.get(PAGE)
    assert "offered to prompts again" in said(visitor.send(f"{PAGE}?state=rejected", f"/learnings/{name}/retract"))
    assert "database" in visitor.get(PAGE)
    done = ledger.console.actions(ActionPage(subject=f"memory:{PROJECT}:auth:{name}"))
    assert [one.action for one in done] == ["learning_retract", "learning_reject", "learning_approve"]


def test_of_two_that_differ_one_is_kept(visitor: Visitor) -> None:
    one = learn(visitor, "The login route needs the session cookie")
    other = learn(visitor, "The login route does not need the session cookie")
    page = visitor.get(PAGE)
    if not visitor.http.get("/v1/memory/learnings", params={"project": PROJECT, "feature": "auth"}).json()["conflicts"]:
        pytest.skip("these two are not taken to differ")
    assert "Learnings that differ" in page
    visitor.send(PAGE, f"/learnings/{other['id']}/keep")
    assert "Learnings that differ" not in visitor.get(PAGE)
    assert one["id"] in visitor.get(PAGE, state="rejected")


def test_learnings_come_in_parts(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knowledge, "PART", 2)
    names = [
        learn(visitor, text)["id"]
        for text in ("Stripe refuses cents", "Postgres locks the orders table", "Vite wants node twenty")
    ]
    first = visitor.get(PAGE)
    assert [f'id="{name}"' in first for name in names] == [False, True, True]
    assert f'id="{names[0]}"' in visitor.get(PAGE, before=names[1])


def test_projects_come_in_parts(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        body = {"project": name, "feature": "auth", "text": "Vite wants node twenty", "reason": "seen"}
        assert visitor.http.post("/v1/memory/learnings", json=body).status_code == 202
    monkeypatch.setattr(knowledge, "PART", 2)
    first = visitor.get("/memory")
    assert ('"/console/memory/b"' in first, '"/console/memory/c"' in first) == (True, False)
    assert '"/console/memory/c"' in visitor.get("/memory", before="b")
    part = visitor.http.get("/v1/memory/projects", params={"limit": 2}).json()
    rest = visitor.http.get("/v1/memory/projects", params={"limit": 2, "cursor": part["next_cursor"]}).json()
    assert [one["project"] for one in (*part["data"], *rest["data"])] == ["a", "b", "c"]


def test_an_agent_reads_its_own_feature_and_changes_nothing(
    visitor: Visitor, signed: Callable[..., Visitor], ledger: Ledger
) -> None:
    name = learn(visitor, "The tests need a running database")["id"]
    learn(visitor, "Vite wants node twenty", "build")
    agent = signed("agent", collection_name(PROJECT, "auth"))
    page = agent.get(PAGE)
    assert "database" in page
    assert "Reject" not in page
    agent.get(PAGE, 404, feature="build")
    assert ("feature=auth" in agent.get("/memory"), "feature=build" in agent.get("/memory")) == (True, False)
    fields = {"project": PROJECT, "feature": "auth", "token": token_in(page)}
    assert agent.post(f"/learnings/{name}/reject", **fields).status_code == 403
    [looked] = ledger.console.actions(ActionPage(action="memory_read"))
    assert looked.operator.startswith("key_")
    other = signed("operator", collection_name(PROJECT, "build"))
    fields["token"] = token_in(other.get("/runs"))
    assert other.post(f"/learnings/{name}/reject", **fields).status_code == 403


@pytest.fixture
def graphed(visitor: Visitor, make_instance: MakeInstance) -> Visitor:
    """A corpus `docs` with the files of a small shop, and one of a hostile name, in its graph."""
    instance = make_instance()
    files = {**FILES, f"shop/{HOSTILE[0].replace('/', '')}.py": "from shop.cart import Cart\n\nCart()\n"}
    documents = [{"file_path": path, "text": text} for path, text in files.items()]
    instance.service.add_documents(DocumentsRequest.model_validate({"corpus": "docs", "documents": documents}))
    instance.works("chunk", "embed", "index", "graph")
    return visitor


def test_what_is_next_to_a_node_is_drawn_and_listed(graphed: Visitor) -> None:
    assert "answers" in graphed.get("/graph")
    led = graphed.http.get("/console/graph", params={"corpus": "docs", "node": CART}, follow_redirects=False)
    assert led.headers["location"] == f"/console/graph/{quote(CART, safe=':')}?corpus=docs"
    page = graphed.get(f"/graph/{CART}", corpus="docs")
    found = graphed.http.get(f"/v1/graph/neighbours/{CART}", params={"corpus": "docs", "limit": 60}).json()
    assert page.count("<circle") == len(found["neighbours"]) + 1
    for one in found["neighbours"]:
        assert f"/console/graph/{quote(one['node']['id'], safe='/')}?corpus=docs" in page
    harmless(page)
    assert (
        page.partition("<svg")[2].partition("</svg>")[0]
        == (graphed.get(f"/graph/{CART}", corpus="docs").partition("<svg")[2].partition("</svg>")[0])
    ), "the same neighbours are always drawn alike"


def test_a_name_of_several_nodes_or_none_is_said(graphed: Visitor) -> None:
    graphed.get("/graph/nothing.at.all", 404, corpus="docs")
    graphed.get(f"/graph/{CART}", 404, corpus="default")


def test_a_graph_is_seen_with_a_key_of_its_corpus(graphed: Visitor, signed: Callable[..., Visitor]) -> None:
    agent = signed("agent", "docs")
    assert "<svg" in agent.get(f"/graph/{CART}", corpus="docs")
    other = signed("agent", "pets")
    other.get(f"/graph/{CART}", 403, corpus="docs")
    assert "No corpus has a graph" in other.get("/graph")
