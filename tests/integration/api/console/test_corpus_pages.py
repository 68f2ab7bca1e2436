"""The pages of corpora: what one holds, its generations, its documents in parts, and what operators do there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sluice.api.console import corpora as corpus_pages
from sluice.contracts.api import DocumentsRequest
from sluice.contracts.operations.actions import ActionPage
from sluice.index.folder import CorpusLayout
from sluice.ledger.ledger import Ledger
from sluice.workers.service.callers import OWN_MACHINE
from tests.support.console import token_in
from tests.support.console_visitor import HOSTILE, Visitor, harmless, said
from tests.support.in_process import Instance, MakeInstance

STAGES = ("chunk", "embed", "index", "graph")


@pytest.fixture
def instance(make_instance: MakeInstance, visitor: Visitor) -> Instance:
    """A corpus `docs` of two generations and seven documents, one of a hostile title."""
    made = make_instance()
    titles = ["Box", *HOSTILE]
    for part in (titles[:4], titles[4:]):
        documents = [
            {"id": f"notes/{titles.index(one)}", "title": one, "text": f"Ferrets sleep in box {titles.index(one)}."}
            for one in part
        ]
        made.service.add_documents(DocumentsRequest.model_validate({"corpus": "docs", "documents": documents}))
        for _ in range(2):
            made.works(*STAGES)  # type: ignore[arg-type]
    return made


def test_a_corpus_is_shown_with_its_generations_ages_and_documents(visitor: Visitor, instance: Instance) -> None:
    assert 'href="/console/corpora/docs"' in visitor.get("/corpora")
    page = visitor.get("/corpora/docs")
    harmless(page)
    assert "within a day" in page
    assert "100.0 %" in page
    state = visitor.http.get("/v1/corpora/docs/state").json()
    assert len(state["generations"]) == 2
    assert state["generations"][0]["is_current"]
    assert state["generations"][0]["sha256"][:16] in page
    assert (state["journal_lag"], state["held"], state["looked_at"]) == (0, 0, 7)
    assert sum(one["documents"] for one in state["ages"]) == 7


def test_documents_come_in_parts_and_filters_look_through_so_many_at_once(
    visitor: Visitor, instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus_pages, "DOCUMENTS", 3)
    first = visitor.get("/corpora/docs")
    assert [f"notes/{one}" in first for one in range(7)] == [True] * 3 + [False] * 4
    assert "before=notes%2F2" in first
    last = visitor.get("/corpora/docs", before="notes/5")
    assert "notes/6" in last
    assert "Next part" not in last
    assert "notes/6" in visitor.get("/corpora/docs", q="evil")
    monkeypatch.setattr(corpus_pages, "MOST_READ", 2)
    assert "None among the 2 documents" in visitor.get("/corpora/docs", q="evil")
    assert "No document meets this" in visitor.get("/corpora/docs", q="evil", before="notes/6")
    assert "at character" in visitor.get("/corpora/docs", where="trust >>")


def test_a_generation_is_verified_and_an_earlier_one_served(
    visitor: Visitor, instance: Instance, ledger: Ledger
) -> None:
    newest, before = [one["name"] for one in visitor.http.get("/v1/corpora/docs/state").json()["generations"]]
    page = visitor.send("/corpora/docs", "/corpora/docs/verify", generation=newest)
    assert said(page) == f"{newest} is as it was published: every file was read and compared."
    page = visitor.send("/corpora/docs", "/corpora/docs/serve", generation=before, note="to see")
    assert f"{before} is served" in said(page)
    assert visitor.http.get("/v1/corpora/docs").json()["generation"] == before
    done = ledger.console.actions(ActionPage(subject="corpus:docs", operator="local"))
    assert [one.action for one in done][:2] == ["roll_back", "verify"]
    assert visitor.http.post(f"/v1/corpora/docs/generations/{newest}/serve").json()["is_current"]
    assert visitor.http.post("/v1/corpora/docs/generations/../x/verify").status_code == 404
    visitor.send("/corpora/docs", "/corpora/docs/verify", 404, generation="../../x")


def test_a_damaged_generation_is_named_and_not_served(visitor: Visitor, instance: Instance) -> None:
    newest, before = [one["name"] for one in visitor.http.get("/v1/corpora/docs/state").json()["generations"]]
    folder = CorpusLayout(instance.context.settings.index_root, "docs").generations / before
    damaged = next(path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "manifest.json")
    raw = bytearray(damaged.read_bytes())
    raw[0] ^= 1
    damaged.unlink()
    damaged.write_bytes(raw)
    page = visitor.send("/corpora/docs", "/corpora/docs/verify", generation=before)
    assert f"{before} is NOT as it was published" in said(page)
    visitor.send("/corpora/docs", "/corpora/docs/serve", 500, generation=before)
    assert visitor.http.get("/v1/corpora/docs").json()["generation"] == newest


def test_no_page_is_due_of_a_corpus_without_pages(visitor: Visitor, instance: Instance) -> None:
    assert "no page of corpus" in visitor.send("/corpora/docs", "/corpora/docs/recheck", 404)


def test_an_agent_sees_its_corpora_without_actions(signed: Callable[..., Visitor], instance: Instance) -> None:
    agent = signed("agent", "docs")
    assert "Verify" not in agent.get("/corpora/docs")
    assert 'href="/console/corpora/default"' not in agent.get("/corpora")
    agent.get("/corpora/default", 403)
    agent.get("/corpora/nowhere", 403)
    token = token_in(agent.get("/corpora/docs"))
    assert "role operator" in agent.post("/corpora/docs/verify", token=token, generation="g").text


def test_an_operator_of_some_corpora_acts_there_alone(signed: Callable[..., Visitor], instance: Instance) -> None:
    operator = signed("operator", "docs")
    [name, *_] = [one["name"] for one in instance_state(operator)]
    assert "as it was published" in said(operator.send("/corpora/docs", "/corpora/docs/verify", generation=name))
    operator.get("/corpora/default", 403)


def instance_state(visitor: Visitor) -> list[dict[str, str]]:
    desk = visitor.http.app.state.instance.corpora  # type: ignore[attr-defined]
    return [one.model_dump() for one in desk.state("docs", OWN_MACHINE).generations]
