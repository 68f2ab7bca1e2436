"""Evidence and our copies of documents at the console: what a citation rests on, to whom it is shown, what is done."""

from __future__ import annotations

import html
import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import event
from starlette.testclient import TestClient

from sluice.contracts.api import DocumentsRequest
from sluice.contracts.document import Provenance
from sluice.contracts.event import Done, Event, Next, new_run_id
from sluice.contracts.gate import GateRequested
from sluice.contracts.index import AnswerReady, Citation, StaleCitation
from sluice.contracts.retrieval import RetrievedChunk
from sluice.contracts.trust import Finding, Inspection, TrustFactors, TrustScore, Verdict
from sluice.ledger.ledger import Claim, Ledger, NewRun
from sluice.workers.service.callers import ApiKeys
from tests.support.console import signed_in, token_in
from tests.support.held_passage import holds
from tests.support.in_process import Instance, MakeInstance
from tests.support.ledger_story import answer
from tests.support.parked import fails
from tests.support.retrieved import retrieved
from tests.support.valkey import Valkey

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TEXT = (
    "A lease is held by one worker. " * 20 + "The holder renews its lease every five seconds. " + "It ends later. " * 20
)
GROWING = re.compile(r"SCAN (?:events|runs|attempts|citations|operator_actions|passage_marks)\b")
"""Reads of a whole table that grows with the work."""
HOSTILE = (
    "<script>pwned=1</script>",
    '"><img src=x onerror=pwned=1>',
    "</title><svg onload=pwned=1>",
    "javascript:pwned=1",
    "{{ 7 * 7 }}{% raw %}",
)


def cites(ledger: Ledger, *chunks: RetrievedChunk, corpus: str = "docs", **changes: Any) -> str:
    """A run whose answer cites these chunks, in order."""
    run_id = new_run_id()
    asked = Event.of(GateRequested(query="how often is a lease renewed?"), run_id=run_id, corpus=corpus)
    ledger.create_run(NewRun(run_id, "gate", corpus, "0" * 64), [(asked, Next(asked.body))])
    claim = ledger.claim_next("query", "w1", 10.0)
    assert isinstance(claim, Claim)
    factors = TrustFactors(domain_trust=1.0, time_freshness=0.9)
    told = {
        "query": "how often is a lease renewed?",
        "corpus": corpus,
        "context": "\n\n".join(f"[{n}] {one.url}\n{one.text}" for n, one in enumerate(chunks, 1)),
        "chunks": chunks,
        "citations": tuple(
            Citation(
                number=number,
                chunk_id=one.chunk_id,
                source=one.url or one.document_id,
                url=one.url,
                link=one.url,
                title=one.title,
                match=0.9,
                trust=one.trust,
                confidence=one.confidence,
                author=one.provenance.author,
                licence="CC-BY-4.0",
            )
            for number, one in enumerate(chunks, 1)
        ),
        "trust_scores": tuple(
            TrustScore(chunk_id=one.chunk_id, score=one.trust, factors=factors, origin=one.provenance.origin)
            for one in chunks
        ),
        **changes,
    }
    ready = AnswerReady(answer=answer().answer.model_copy(update=told), duration_ms=1.0)
    ledger.settle(claim, Done((Next(ready),)))
    return run_id


def lease(chunk_id: str = "a", url: str = "https://leases.example.org/guide", **changes: Any) -> RetrievedChunk:
    return retrieved(chunk_id, TEXT, url=url, trust=0.9, confidence=0.8, start_line=12, end_line=30, **changes)


def ok(response: Any) -> str:
    assert response.status_code == 200, response.text
    return str(response.text)


def page_of(run_id: str, number: int = 1) -> str:
    return f"/console/runs/{run_id}/evidence/{number}"


def test_a_citation_is_shown_with_what_it_rests_on(browser: TestClient, ledger: Ledger) -> None:
    marked = Inspection(verdict=Verdict.WARNED, findings=(Finding(rule="override", start=0, end=7),))
    run_id = cites(
        ledger,
        lease(inspection=marked, provenance=Provenance(source="crawl", fetched_at=NOW, author="Ann <b>")),
        lease("b", "https://other.example.com/x"),
        lease("c", "https://www.example.org/same-site"),
    )
    ledger.tell_stale(
        run_id, [StaleCitation(citation=1, chunk_id="a", document_id="document of a", what="changed", changed_at=NOW)]
    )
    page = ok(browser.get(page_of(run_id)))
    told = browser.get(f"/v1/runs/{run_id}/evidence/1").json()
    snippet = re.sub(r"<[^>]+>", "", re.search(r'<blockquote id="snippet">(.*?)</blockquote>', page, re.DOTALL)[1])  # type: ignore[index]
    assert html.unescape(snippet) == told["snippet"]
    assert len(told["snippet"]) <= 200
    assert {"renews", "lease"} <= set(re.findall(r"<mark>(\w+)</mark>", page))
    assert "how often is a lease renewed?" in page
    assert told["sentence"].startswith("[1] https://leases.example.org/guide")
    assert "trusted .90" in page
    assert "<s>signature</s>" in page
    assert sum(part["adds"] or 0.0 for part in told["trust_parts"]) == pytest.approx(0.9)
    assert "+0.360" in page
    assert "80 %" in page
    assert "this corpus has 0 judged answers, and 20 are needed" in page
    assert "Ann &lt;b&gt;" in page
    assert "CC-BY-4.0" in page
    assert "Changed since" in page
    assert ">override</span>" in page
    assert "<q>A lease</q>" in page
    assert [(one["site"], one["number"]) for one in told["others"]] == [("example.com", 2)]
    live = page.index('href="https://leases.example.org/guide"')
    assert "The corpus has this document no more" in page[:live]
    assert 'rel="noopener noreferrer"' in page
    for missing in (page_of(run_id, 9), page_of("run_none")):
        assert browser.get(missing).status_code == 404


def test_the_sentence_is_that_of_what_the_agent_wrote(browser: TestClient, ledger: Ledger) -> None:
    run_id = cites(ledger, lease())
    response = "Leases exist. They are renewed every five seconds. [1] Nothing else is known."
    browser.post("/v1/feedback", json={"run_id": run_id, "outcome": "success", "response": response})
    told = browser.get(f"/v1/runs/{run_id}/evidence/1").json()
    assert (told["sentence"], told["sentence_of"]) == ("They are renewed every five seconds. [1]", "response")
    assert "The agent wrote" in ok(browser.get(page_of(run_id)))


def test_bad_evidence_is_said_once_and_lowers_the_passage(browser: TestClient, ledger: Ledger) -> None:
    run_id = cites(ledger, lease(), lease("b", "https://other.example.com/x"))
    sent = {"token": token_in(ok(browser.get(page_of(run_id)))), "back": page_of(run_id), "form_id": "bad"}
    refused = browser.post(page_of(run_id) + "/bad", data={**sent, "reason": "ugly"})
    assert refused.status_code == 422
    assert "say why" in refused.text
    done = ok(browser.post(page_of(run_id) + "/bad", data={**sent, "reason": "off topic", "note": "about canals"}))
    assert "You said it is off topic" in done
    assert "loses a share" in done
    [mark] = ledger.marks.of_corpus("docs")
    assert (mark.chunk_id, mark.reason, mark.owner) == ("a", "off_topic", "local")
    assert 'action="/console/runs/' + run_id + '/evidence/1/bad"' not in done, "it is said once"
    assert browser.post(page_of(run_id) + "/bad", data={**sent, "reason": "wrong"}).status_code == 409
    for reason in ("attack", "duplicate"):
        other = cites(ledger, lease())
        ok(browser.post(page_of(other) + "/bad", data={**sent, "back": page_of(other), "reason": reason}))
        assert ledger.marks.of_passage(other, "a")[0].reason == reason


def test_a_source_is_kept_out_and_a_document_forgotten(browser: TestClient, ledger: Ledger) -> None:
    run_id = cites(ledger, lease())
    sent = {"token": token_in(ok(browser.get(page_of(run_id)))), "back": page_of(run_id), "note": "it lies"}
    assert (
        "https://leases.example.org/ is on the negative list"
        in browser.post(page_of(run_id) + "/distrust", data=sent).text
    )
    [entry] = ledger.forgotten.list(None)
    assert (entry.kind, entry.value, entry.note) == ("url_prefix", "https://leases.example.org/", "it lies")
    assert browser.post(page_of(run_id) + "/forget", data={**sent, "typed": "yes"}).status_code == 422
    forgotten = browser.post(page_of(run_id) + "/forget", data={**sent, "typed": "forget"}, follow_redirects=False)
    assert forgotten.status_code == 303
    assert ledger.run(forgotten.headers["Location"].rpartition("/")[2]).kind == "deletion"
    own = cites(ledger, lease("f", provenance=Provenance(source="file", fetched_at=NOW)))
    assert browser.post(page_of(own) + "/distrust", data=sent).status_code == 409


def test_what_the_guard_holds_by_now_is_not_shown(browser: TestClient, ledger: Ledger, valkey: Valkey) -> None:
    holds(ledger, valkey.settings.data_dir, text=TEXT)
    run_id = cites(ledger, lease("c1", document_id="d1"))
    page = ok(browser.get(page_of(run_id)))
    assert "held back .90" in page
    assert "renews" not in page
    told = browser.get(f"/v1/runs/{run_id}/evidence/1").json()
    assert (told["standing"], told["snippet"], told["withheld"]) == ("held back", "", "the guard holds it back")


def test_an_agent_looks_at_its_corpora_and_changes_nothing(browser: TestClient, ledger: Ledger) -> None:
    mine, theirs = cites(ledger, lease(), corpus="mine"), cites(ledger, lease(), corpus="theirs")
    keys: ApiKeys = browser.app.state.instance.keys  # type: ignore[attr-defined]
    agent = keys.create("agent", "agent", ["mine"])[1]
    page = ok(signed_in(browser, agent).get(page_of(mine)))
    assert "Bad evidence" not in page
    assert browser.get(page_of(theirs)).status_code == 404
    sent = {"token": token_in(page), "reason": "wrong", "typed": "forget"}
    for action in ("bad", "distrust", "forget"):
        assert browser.post(f"{page_of(mine)}/{action}", data=sent).status_code == 403
    assert not ledger.marks.of_corpus("mine")
    assert browser.get("/console/documents/theirs/x").status_code == 403
    signed_in(browser, keys.create("some", "operator", ["mine"])[1])
    sent["token"] = token_in(ok(browser.get(page_of(mine))))
    for action in ("bad", "distrust", "forget"):
        assert browser.post(f"{page_of(theirs)}/{action}", data=sent).status_code == 404


@pytest.mark.parametrize("text", HOSTILE)
def test_what_was_made_to_harm_is_shown_as_text(browser: TestClient, ledger: Ledger, text: str) -> None:
    provenance = Provenance(source="crawl", fetched_at=NOW, author=text)
    found = Inspection(verdict=Verdict.WARNED, findings=(Finding(rule=text, start=0, end=len(text)),))
    chunk = retrieved("a", f"{text} lease", url=text, title=text, provenance=provenance, inspection=found)
    page = ok(browser.get(page_of(cites(ledger, chunk))))
    assert "<img" not in page
    assert "<script>" not in page
    assert "<svg onload" not in page
    assert 'href="javascript' not in page


@pytest.fixture
def kept(make_instance: MakeInstance, browser: TestClient) -> Instance:
    """An instance that has indexed a document of 300 lines, of which one holds a secret."""
    workers = make_instance()
    lines = [f"Line {number} of the guide says that box {number} holds a ferret." for number in range(1, 301)]
    lines[19] = "The mail of the keeper is ann@example.org, she says."
    document = {"id": "notes/<b>", "text": "\n".join(lines), "title": "Boxes <i>"}
    request = {"corpus": "pets", "create_corpus": True, "documents": [document]}
    workers.service.add_documents(DocumentsRequest.model_validate(request))
    for _ in range(3):
        workers.works("chunk", "embed", "index")
    return workers


def test_our_copy_has_numbered_lines_with_the_cited_ones_marked(browser: TestClient, kept: Instance) -> None:
    address = f"/console/documents/pets/{quote('notes/<b>', safe='')}"
    page = ok(browser.get(f"{address}?lines=120-122"))
    assert re.findall(r"<mark>Line (\d+) of", page) == ["120", "121", "122"]
    assert 'id="L120-L122">120</th>' in page
    assert '<tr id="L60">' in page
    assert "Boxes &lt;i&gt;" in page
    assert page.count("<h2>Passages</h2>") == 1
    whole = ok(browser.get(address))
    assert "<mark>" not in whole
    assert '<tr id="L300">' in whole
    assert 'id="L1"' in ok(browser.get(f"{address}?lines=9000-9001")), "the document is shorter by now"
    assert browser.get(f"{address}?lines=x").status_code == 422
    assert browser.get("/console/documents/pets/none").status_code == 404
    assert browser.get("/console/documents/none/none").status_code == 404


def test_evidence_leads_to_our_copy(browser: TestClient, ledger: Ledger, kept: Instance) -> None:
    run_id = cites(ledger, lease(document_id="notes/<b>"), corpus="pets")
    page = ok(browser.get(page_of(run_id)))
    [copy] = re.findall(r'href="(/console/documents/[^"]+)"', page)
    assert copy == "/console/documents/pets/notes%2F%3Cb%3E?lines=12-30#L12-L30"
    assert page.index(copy) < page.index('href="https://leases.example.org/guide"'), "our copy comes first"
    assert 'id="L12-L30"' in ok(browser.get(copy))


def test_pages_of_letters_and_evidence_are_read_by_indices(browser: TestClient, ledger: Ledger) -> None:
    """No page scans a table that grows with the work: each of its reads is explained by the database."""
    letter_id, run_id = fails(ledger), cites(ledger, lease())
    asked: list[str] = []
    pages = ["dead", "dead?each=1", "dead?stage=crawl", "dead/replay", "dead/purge", "replays"]
    pages += [f"dead/{letter_id}?payload=1", f"runs/{run_id}/evidence/1"]

    def note(connection: Any, *_: Any) -> None:
        connection.set_trace_callback(asked.append)

    event.listen(ledger.database.engine, "checkout", note)
    for path in pages:
        ok(browser.get(f"/console/{path}"))
    event.remove(ledger.database.engine, "checkout", note)
    reads = [one for one in asked if one.startswith(("SELECT", "WITH"))]
    assert len(reads) > 20
    with closing(sqlite3.connect(str(ledger.database.url.database))) as connection:
        for read in reads:
            plan = [str(row[-1]) for row in connection.execute(f"EXPLAIN QUERY PLAN {read}")]
            assert not [step for step in plan if GROWING.match(step)], read
