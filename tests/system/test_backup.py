"""A whole instance is backed up while 32 agents ask and ingest, is destroyed, and comes back as it was."""

from __future__ import annotations

import json
import shutil
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from sluice.workers.backup import VERIFIED
from tests.support.backup_story import SECRET, audit, opened, park, texts
from tests.support.instance import Instance
from tests.support.memory.instance import PROJECT, claude_stream

pytestmark = pytest.mark.timeout(900)
AGENTS = 32
QUESTIONS = [f"Who keeps the keys of storehouse {n}?" for n in (1, 7, 13, 21)]


def added(instance: Instance, corpus: str, documents: dict[str, str]) -> None:
    told = [{"id": name, "text": one} for name, one in documents.items()]
    body = {"corpus": corpus, "create_corpus": True, "documents": told}
    response = instance.http.post("/v1/documents", json=body)
    assert response.status_code == 202, response.text
    assert instance.wait(response.json()["run_id"])["status"] == "finished"


def seen(instance: Instance) -> dict[str, Any]:
    """What has to be the same before and after: answers, documents, dead letters, keys, memory."""
    answers = {}
    for question in QUESTIONS:
        response = instance.http.post("/v1/query", json={"query": question, "corpus": "docs", "top_k": 5})
        assert response.status_code == 200, response.text
        answers[question] = [(one["chunk_id"], one["text"]) for one in response.json()["chunks"]]
    listed = {path: instance.http.get(path).json()["data"] for path in ("/v1/dead-letters", "/v1/keys")}
    hooks = [(one["id"], one["url"], one["types"]) for one in instance.http.get("/v1/webhooks").json()["data"]]
    documents = instance.http.get("/v1/documents", params={"corpus": "docs", "limit": 100}).json()["data"]
    auth = {"project": PROJECT, "feature": "auth"}
    learnings = instance.http.get("/v1/memory/learnings", params=auth).json()["learnings"]
    return {
        "answers": answers,
        "webhooks": hooks,
        **listed,
        "documents": [one["id"] for one in documents],
        "learnings": learnings,
    }


def as_operator(instance: Instance, key: str = "") -> str:
    """Give the instance's client an operator's key, a new one unless it is given."""
    if not key:
        made = instance.sluice("keys", "me", "--create", "--role", "operator", "--json")
        key = str(json.loads(made.stdout)["key"])
    instance.http.headers["Authorization"] = f"Bearer {key}"
    return key


def agent(instance: Instance, number: int, stop: threading.Event, failed: list[str]) -> None:
    """Ask and ingest until told to stop."""
    round_ = 0
    with httpx.Client(base_url=instance.url, timeout=60, headers=dict(instance.http.headers)) as http:
        while not stop.is_set():
            round_ += 1
            asked = http.post("/v1/query", json={"query": QUESTIONS[round_ % 4], "corpus": "docs", "top_k": 3})
            if asked.status_code not in (200, 429, 503):
                failed.append(asked.text)
            document = {
                "id": f"live-{number}-{round_}",
                "text": f"Agent {number} saw {round_} cranes in yard {number}.",
            }
            body = {"corpus": "live", "create_corpus": True, "documents": [document]}
            sent = http.post("/v1/documents", json=body)
            if sent.status_code not in (202, 429, 503):
                failed.append(sent.text)
            stop.wait(0.5)


def verified_at(instance: Instance) -> float:
    with closing(opened(instance.data_dir)) as context:
        return context.ledger.last_backup_at(VERIFIED)


def waits(until: Any, seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.5)


def traces(instance: Instance, document_id: str) -> list[Any]:
    proof = instance.http.post("/v1/forgotten/prove", json={"corpus": "manuals", "document_id": document_id})
    return [one for one in proof.json()["traces"] if one["found"]]


def test_backed_up_under_load_destroyed_and_restored(tmp_path: Path) -> None:
    there, secret = tmp_path / "there", tmp_path / "passphrase"
    secret.write_text("correct horse battery staple\n")
    there.mkdir()
    with Instance(tmp_path / "one", BACKUP__TO=str(there), EGRESS__POLICY="open", POOLS__CRAWL="0") as instance:
        key = as_operator(instance)
        added(instance, "docs", {f"doc-{n}": one for n, one in enumerate(texts(24))})
        added(
            instance,
            "manuals",
            {"m-1": "The boiler is heated to 80 degrees.", "gone-1": SECRET, "gone-2": SECRET + "!"},
        )
        body = {
            "project": PROJECT,
            "feature": "auth",
            "format": "claude-code",
            "data": claude_stream(output="ValueError: no"),
        }
        assert instance.http.post("/v1/memory/iterations", json=body).status_code == 202
        hook = {"url": "https://93.184.216.34/hook", "types": ["dead_letter.parked"]}
        assert instance.http.post("/v1/webhooks", json=hook).status_code == 201
        with closing(opened(instance.data_dir)) as context:
            park(context.ledger)
        assert instance.http.get("/v1/dead-letters").json()["data"]
        forgotten = instance.http.post("/v1/forget", json={"corpus": "manuals", "document_id": "gone-1"})
        assert forgotten.status_code == 202, forgotten.text
        assert instance.wait(forgotten.json()["run_id"])["status"] == "finished"
        waits(lambda: verified_at(instance))  # the nightly one, which was never taken before
        before, failed, stop = seen(instance), list[str](), threading.Event()
        agents = [threading.Thread(target=agent, args=(instance, n, stop, failed)) for n in range(AGENTS)]
        for one in agents:
            one.start()
        time.sleep(3)
        told = ("backup", str(tmp_path / "one.backup"), "--passphrase-file", str(secret), "--json")
        done = instance.sluice(*told, timeout=400)
        stop.set()
        for one in agents:
            one.join()
        assert failed == []
        assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
        with closing(opened(instance.data_dir)) as context:
            actions = [one for one in audit(context.ledger) if one[0] < json_moment(done.stdout)]
        later = instance.http.post("/v1/forget", json={"corpus": "manuals", "document_id": "gone-2"})
        assert instance.wait(later.json()["run_id"])["status"] == "finished"
        size = (instance.data_dir / "forgotten.jsonl").stat().st_size
        waits(lambda: (there / "forgotten.jsonl").stat().st_size == size)
        instance.kill()
    waits(lambda: shutil.rmtree(tmp_path / "one", ignore_errors=True) or not (tmp_path / "one").exists(), 60)
    shutil.move(tmp_path / "one.backup", there / "one.backup")
    after = Instance(tmp_path / "two")
    after.folder.mkdir()
    back = after.sluice("restore", str(there / "one.backup"), "--identity", str(secret), "--json", timeout=400)
    assert back.returncode == 0, back.stdout[-2_000:] + back.stderr[-2_000:]
    assert json.loads(back.stdout)["forgotten_again"] == 1
    with after as instance:
        as_operator(instance, key)
        assert seen(instance) == before
        manuals = instance.http.get("/v1/documents", params={"corpus": "manuals"}).json()["data"]
        assert [one["id"] for one in manuals] == ["m-1"]
        with closing(opened(instance.data_dir)) as context:
            assert audit(context.ledger)[: len(actions)] == actions
        for gone in ("gone-1", "gone-2"):  # the run that forgets again, and the graph after it, take their time
            waits(lambda gone=gone: traces(instance, gone) == [])
        added(instance, "docs", {"new-1": "Storehouse 99 is new, and has no keys yet."})
        refused = after.sluice("restore", str(there / "one.backup"), "--identity", str(secret))
        assert refused.returncode == 5
        assert "is not empty" in refused.stderr + refused.stdout


def json_moment(told: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(json.loads(told)["ledger_at"]).timestamp()
