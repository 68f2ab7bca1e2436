"""Un-ingest over HTTP and on the command line: what it takes, who may ask, and what it refuses."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner, Result

from sluice.cli.main import app
from sluice.contracts.document import Document, DocumentBatch, Provenance
from sluice.contracts.ingest import ForgetDirected
from sluice.ledger.ledger import Ledger
from sluice.workers.runtime.blob_store import BlobStore
from sluice.workers.service.callers import ApiKeys
from tests.support.index_corpus import NOW
from tests.support.served import served
from tests.support.valkey import Valkey

DOCUMENTS, LIST = "/v1/documents", "/v1/forgotten"
PREFIX = "https://example.org/private/"


def ok(response: Any, status: int = 200) -> Any:
    """What is answered; of a list its items."""
    assert response.status_code == status, response.text
    told = response.json()
    return told["data"] if isinstance(told, dict) and "next_cursor" in told else told


def directed(ledger: Ledger, run_id: str) -> ForgetDirected:
    [event] = ledger.events_of_kind(run_id, ForgetDirected.kind)
    return event.body_as(ForgetDirected)


def test_a_request_in_the_body_or_in_the_query_directs_the_same(http: TestClient, ledger: Ledger) -> None:
    told = {"corpus": "docs", "url_prefix": PREFIX, "note": "asked for"}
    runs = [
        ok(http.request("DELETE", DOCUMENTS, json=told), 202)["run_id"],
        ok(http.delete(DOCUMENTS, params=told), 202)["run_id"],
    ]
    first, second = (directed(ledger, run_id) for run_id in runs)
    assert first == second
    assert (first.selection.url_prefix, first.operator, first.note) == (PREFIX, "local", "asked for")
    assert {ledger.run(run_id).kind for run_id in runs} == {"deletion"}
    [entry] = ok(http.get(LIST))
    assert (entry["kind"], entry["value"], entry["corpus"]) == ("url_prefix", PREFIX, "docs")


def test_a_url_is_kept_out_in_the_form_in_which_it_would_be_crawled(http: TestClient) -> None:
    ok(http.delete(DOCUMENTS, params={"url": "HTTPS://Example.org:443/a/../b#top"}), 202)
    [entry] = ok(http.get(LIST))
    assert entry["value"] == "https://example.org/b"


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"url": "https://example.org/", "run_id": "run_1"},
        {"url_prefix": "example.org"},
        {"url": "no url"},
        {"filters": {}},
    ],
)
def test_a_request_that_names_nothing_or_no_one_thing_is_refused(http: TestClient, told: dict[str, Any]) -> None:
    response = http.request("DELETE", DOCUMENTS, json=told)
    assert response.status_code == 422, response.text
    if "filters" not in told:
        assert http.delete(DOCUMENTS, params=told).status_code == 422
    assert ok(http.get(LIST)) == []


def test_only_an_operator_of_the_corpus_may_forget(http: TestClient, ledger: Ledger) -> None:
    keys = ApiKeys(ledger)
    (_, agent), (_, other) = keys.create("a", "agent", []), keys.create("b", "operator", ["other"])
    told = {"corpus": "docs", "document_id": "d1"}
    for key in (agent, other):
        headers = {"Authorization": f"Bearer {key}"}
        assert http.delete(DOCUMENTS, params=told, headers=headers).status_code == 403
        assert http.post(f"{LIST}/prove", json=told, headers=headers).status_code == 403


def test_an_entry_is_added_and_lifted_and_a_proof_is_given(http: TestClient) -> None:
    [entry] = ok(http.post(LIST, json={"kind": "submitted_by", "value": "key_1", "note": "spam"}))
    assert ok(http.delete(f"{LIST}/{entry['id']}"))["value"] == "key_1"
    assert ok(http.get(LIST)) == []
    assert http.delete(f"{LIST}/{entry['id']}").status_code == 404
    proof = ok(http.post(f"{LIST}/prove", json={"document_id": "d1"}))
    assert {trace["place"] for trace in proof["traces"]} >= {"known pages", "quarantine", "batches among the blobs"}
    assert not any(trace["found"] for trace in proof["traces"])


@pytest.fixture
def sluice(valkey: Valkey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Result]]:
    for name in [name for name in os.environ if name.startswith("SLUICE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLUICE_DATA_DIR", str(valkey.settings.data_dir))
    with served(valkey.settings):
        yield lambda *arguments: CliRunner().invoke(app, ["forget", *arguments], prog_name="sluice")


def test_the_command_counts_asks_forgets_lists_and_lifts(sluice: Callable[..., Result], valkey: Valkey) -> None:
    counted = json.loads(sluice("--url-prefix", PREFIX, "--dry-run", "--json").stdout)
    assert counted == {"corpus": "default", "documents": 0, "examples": []}
    assert sluice("--url-prefix", PREFIX).exit_code == 2, "there is nobody to ask"
    done = sluice("--url-prefix", PREFIX, "--yes", "--wait", "0", "--json", "--note", "asked for")
    with Ledger(valkey.settings.ledger_location) as ledger:
        assert directed(ledger, json.loads(done.stdout)["run_id"]).note == "asked for"
    listed = sluice("--list", "--json")
    assert listed.exception is None, listed.exception
    [entry] = json.loads(listed.stdout)
    assert entry["value"] == PREFIX
    assert sluice("--allow", entry["id"]).exit_code == 0
    assert sluice("--allow", entry["id"]).exit_code == 3
    assert "negative list: none" in sluice("--list").stdout


@pytest.mark.parametrize(
    "arguments", [(), ("--url", "https://example.org/", "--run", "run_1"), ("--filters", "no json"), ("--url", "x y")]
)
def test_the_command_refuses_what_names_nothing_or_no_one_thing(
    sluice: Callable[..., Result], arguments: tuple[str, ...]
) -> None:
    assert sluice(*arguments, "--yes").exit_code == 2


def test_the_proof_ends_with_one_where_something_is_left(sluice: Callable[..., Result], valkey: Valkey) -> None:
    assert sluice("--document", "d1", "--prove").exit_code == 0
    document = Document(
        id="d1", media_type="text/plain", text="x", provenance=Provenance(source="file", fetched_at=NOW)
    )
    BlobStore(valkey.settings.data_dir / "blobs").put(DocumentBatch(documents=(document,)).model_dump_json().encode())
    left = sluice("--document", "d1", "--prove", "--json")
    assert left.exit_code == 1
    assert not json.loads(left.stdout)["is_proven"]
