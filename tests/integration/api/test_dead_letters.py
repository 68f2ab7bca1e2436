"""Dead letters over HTTP: what an operator sees and does, and what a key of one corpus cannot."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from sluice.contracts.event import DeadLetter, Done, Event, Next, encode, new_run_id
from sluice.contracts.ingest import CrawlDirected
from sluice.ledger.audit import actions_on
from sluice.ledger.ledger import Claim, Ledger, NewRun
from sluice.workers.service.callers import ApiKeys

LETTERS, REPLAYS = "/v1/dead-letters", "/v1/replays"


def parked(ledger: Ledger, corpus: str = "docs") -> tuple[Event, str]:
    """An event of that corpus that could not be handled, and its letter."""
    run_id = new_run_id()
    event = Event.of(CrawlDirected(url="https://example.org/1"), run_id=run_id, corpus=corpus)
    run = NewRun(run_id=run_id, kind="crawl", corpus=corpus, request_sha256="0" * 64)
    ledger.create_run(run, [(event, Next(event.body))])
    claim = ledger.claim_next("crawl", "w1", 10.0)
    assert isinstance(claim, Claim)
    ledger.settle(claim, DeadLetter("policy", ValueError("the site is gone")))
    return event, ledger.dead_letters.list()[0].id


def ok(response: Any, status: int = 200) -> Any:
    """What is answered; of a list its items."""
    assert response.status_code == status, response.text
    told = response.json()
    return told["data"] if isinstance(told, dict) and "next_cursor" in told else told


def problem(response: Any, status: int, field: str | None = None) -> str:
    """The message of a refusal."""
    assert response.status_code == status, response.text
    assert response.json().get("field") == field, response.text
    return str(response.json()["message"])


def test_letters_are_grouped_listed_and_shown_whole(http: TestClient, ledger: Ledger) -> None:
    event, letter_id = parked(ledger)
    ledger.dead_letters.park_raw(b"\xff", "embed", "malformed")
    raw, crawl = ok(http.get(f"{LETTERS}/groups"))
    assert (raw["count"], crawl["count"], crawl["example_id"]) == (1, 1, letter_id)
    [listed] = ok(http.get(LETTERS, params={"stage": "crawl", "corpora": ["docs", "other"]}))
    assert (listed["id"], listed["run_id"], "stack" in listed) == (letter_id, event.run_id, False)
    first = http.get(LETTERS, params={"limit": 1}).json()
    assert [x["id"] for x in ok(http.get(LETTERS, params={"limit": 1, "cursor": first["next_cursor"]}))] == [letter_id]
    whole = ok(http.get(f"{LETTERS}/{letter_id}"))
    assert whole["payload"] == {"encoding": "utf-8", "text": encode(event).decode()}
    assert "ValueError" in whole["stack"]
    assert ok(http.get(LETTERS, params={"status": "any", "since": "2200-01-01T00:00:00Z"})) == []


@pytest.mark.parametrize(
    ("parameters", "field"),
    [({"stage": "bake"}, "stage"), ({"surprise": 1}, "surprise"), ({"cursor": "x"}, "cursor"), ({"limit": 0}, "limit")],
)
def test_a_filter_that_is_none_is_refused(http: TestClient, parameters: dict[str, Any], field: str) -> None:
    problem(http.get(LETTERS, params=parameters), 422, field)


def test_a_letter_is_edited_replayed_and_purged(http: TestClient, ledger: Ledger) -> None:
    event, letter_id = parked(ledger)
    payload = encode(event).replace(b"/1", b"/2")
    assert "JSON" in problem(http.put(f"{LETTERS}/{letter_id}/payload", content=b"{"), 422, "event")
    edited = ok(http.put(f"{LETTERS}/{letter_id}/payload", content=payload, params={"note": "moved"}))
    assert edited["payload"]["text"].encode() == payload
    assert edited["payload_history"][0]["payload"]["text"].encode() == encode(event)
    replayed = ok(http.post(f"{LETTERS}/{letter_id}/replay"), 202)
    assert replayed["event_id"] != event.id
    assert ledger.standing(replayed["event_id"]) == "ready"
    assert http.app.state.instance.context.transport.queued("crawl") == 1  # type: ignore[attr-defined]
    assert "not parked" in problem(http.post(f"{LETTERS}/{letter_id}/replay"), 409)
    assert ok(http.delete(f"{LETTERS}/{letter_id}", params={"note": "done"}))["purged"] == 1
    whole = ok(http.get(f"{LETTERS}/{letter_id}"))
    assert [(x["operator"], x["action"], x["note"]) for x in whole["actions"]] == [
        ("local", "edit", "moved"),
        ("local", "replay", ""),
        ("local", "purge", "done"),
    ]
    problem(http.delete(f"{LETTERS}/{letter_id}"), 409)
    problem(http.get(f"{LETTERS}/dead_none"), 404)


def test_many_are_purged_after_a_dry_run_whose_count_is_confirmed(http: TestClient, ledger: Ledger) -> None:
    for _ in range(3):
        ledger.dead_letters.park_raw(b"?", "crawl", "malformed")
    body = {"filter": {"reason": "malformed"}}
    counted = ok(http.post(f"{LETTERS}/purge", json={**body, "dry_run": True}))
    assert (counted["matching"], counted["purged"]) == (3, 0)
    ledger.dead_letters.park_raw(b"?", "crawl", "malformed")
    younger = {"filter": {**body["filter"], "up_to": counted["up_to"]}, "dry_run": True}
    assert ok(http.post(f"{LETTERS}/purge", json=younger))["matching"] == 3, "the mark leaves out what is younger"
    assert len(ok(http.get(LETTERS, params=younger["filter"]))) == 3
    problem(http.post(f"{LETTERS}/purge", json=body), 422, "confirm")
    assert "4 dead letters match" in problem(http.post(f"{LETTERS}/purge", json={**body, "confirm": 3}), 409)
    assert ok(http.post(f"{LETTERS}/purge", json={**body, "confirm": 4})) == {"matching": 4, "purged": 4}
    problem(http.post(f"{LETTERS}/purge", json={"confirm": 0}), 422, "filter")


def test_a_bulk_replay_is_tried_dry_begun_paused_resumed_and_aborted(http: TestClient, ledger: Ledger) -> None:
    event, _ = parked(ledger)
    ledger.dead_letters.park_raw(b"?", "crawl", "malformed")
    body = {"filter": {"stage": "crawl"}, "per_second": 5, "note": "mended"}
    plan = ok(http.post(REPLAYS, json={**body, "dry_run": True}))
    assert (plan["total"], plan["replayable"], plan["skips"]) == (2, 1, {"not_an_event": 1})
    assert ok(http.get(REPLAYS)) == []
    begun = ok(http.post(REPLAYS, json=body), 202)
    one = f"{REPLAYS}/{begun['id']}"
    assert (begun["status"], begun["total"], begun["filter"]["stage"]) == ("running", 2, "crawl")
    assert ok(http.post(f"{one}/pause"))["status"] == "paused"
    assert ok(http.post(f"{one}/resume"))["status"] == "running"
    assert [wake_up.event_id for wake_up in ledger.replays.advance(ledger.clock() + 10.0)] == [event.id]
    assert (ok(http.get(one))["replayed"], ok(http.get(one))["open"]) == (1, 1)
    assert [view["id"] for view in ok(http.get(REPLAYS))] == [begun["id"]]
    problem(http.post(f"{one}/abort"), 409)
    assert [x["action"] for x in ok(http.get(f"{one}/actions"))] == ["replay many", "pause", "resume"]
    problem(http.get(f"{REPLAYS}/replay_none"), 404)
    problem(http.post(REPLAYS, json={**body, "per_second": 1e9}), 422, "per_second")
    problem(http.post(REPLAYS, json={"filter": {"status": "purged"}}), 422, "filter.status")


def test_a_bulk_replay_that_confirms_a_count_is_refused_once_it_is_wrong(http: TestClient, ledger: Ledger) -> None:
    for _ in range(3):
        parked(ledger)
    counted = ok(http.post(REPLAYS, json={"filter": {}, "dry_run": True}))
    _, younger = parked(ledger)
    assert "4 dead letters match" in problem(http.post(REPLAYS, json={"filter": {}, "confirm": 3}), 409)
    marked = {"filter": {"up_to": counted["up_to"]}, "confirm": 3}
    ledger.dead_letters.purge(ledger.dead_letters.list()[-1].id, "ann")
    assert "2 dead letters match" in problem(http.post(REPLAYS, json=marked), 409)
    begun = ok(http.post(REPLAYS, json={**marked, "confirm": 2}), 202)
    assert (begun["total"], begun["abort_above"], begun["judged_from"]) == (2, 0.2, 20)
    ledger.replays.advance(ledger.clock() + 10.0)
    [left] = ok(http.get(LETTERS))
    assert left["id"] == younger
    assert len(ok(http.get(LETTERS, params={"replay_id": begun["id"], "status": "replayed"}))) == 2
    problem(http.get(LETTERS, params={"up_to": "yesterday"}), 422, "up_to")


def test_a_letter_tells_its_attempts_and_the_like_that_passed_and_records_who_looked(
    http: TestClient, ledger: Ledger
) -> None:
    passed, letter_id = parked(ledger), parked(ledger)[1]
    ledger.dead_letters.replay(passed[1], "ann")
    claim = ledger.claim_next("crawl", "w2", 10.0)
    assert isinstance(claim, Claim)
    ledger.settle(claim, Done())
    whole = ok(http.get(f"{LETTERS}/{letter_id}"))
    assert [(x["epoch"], x["worker"], x["ending"]) for x in whole["tries"]] == [(1, "w1", "parked")]
    assert (whole["passed"]["event_id"], whole["passed"]["run_id"]) == (passed[0].id, passed[0].run_id)
    with ledger.database.reading() as connection:
        assert [(x.operator, x.action) for x in actions_on(connection, f"letter:{letter_id}")] == [
            ("local", "payload_read")
        ]
    [group] = ok(http.get(f"{LETTERS}/groups"))
    assert (sum(group["by_hour"]), len(group["by_hour"]), len(group["code_versions"])) == (1, 24, 1)


def test_a_key_of_one_corpus_sees_and_touches_only_its_letters(http: TestClient, ledger: Ledger) -> None:
    _, key = ApiKeys(ledger).create("mine", "operator", ["mine"])
    _, whole = ApiKeys(ledger).create("whole", "operator", [])
    http.app.state.instance.keys = ApiKeys(ledger)  # type: ignore[attr-defined] # forgets that there was none
    _, theirs = parked(ledger, "theirs")
    raw = ledger.dead_letters.park_raw(b"?", "crawl", "malformed")
    _, mine = parked(ledger, "mine")
    some, every = ({"Authorization": f"Bearer {one}"} for one in (key, whole))
    assert [x["id"] for x in ok(http.get(LETTERS, headers=some))] == [mine]
    assert len(ok(http.get(LETTERS, headers=every))) == 3
    assert [x["example_id"] for x in ok(http.get(f"{LETTERS}/groups", headers=some))] == [mine]
    assert ok(http.get(f"{LETTERS}/{mine}", headers=some))["corpus"] == "mine"
    for other in (theirs, raw):
        problem(http.get(f"{LETTERS}/{other}", headers=some), 404)
        problem(http.post(f"{LETTERS}/{other}/replay", headers=some), 404)
        problem(http.put(f"{LETTERS}/{other}/payload", content=b"{}", headers=some), 404)
        problem(http.delete(f"{LETTERS}/{other}", headers=some), 404)
    problem(http.get(LETTERS, params={"corpora": "theirs"}, headers=some), 403)
    dry = {"filter": {}, "dry_run": True}
    assert ok(http.post(f"{LETTERS}/purge", json=dry, headers=some))["matching"] == 1
    assert ok(http.post(REPLAYS, json=dry, headers=some))["total"] == 1
    of_all = ok(http.post(REPLAYS, json={"filter": {}}, headers=every), 202)["id"]
    own = ok(http.post(REPLAYS, json={"filter": {}}, headers=some), 202)["id"]
    assert [view["id"] for view in ok(http.get(REPLAYS, headers=some))] == [own]
    problem(http.get(f"{REPLAYS}/{of_all}", headers=some), 404)
    problem(http.post(f"{REPLAYS}/{of_all}/abort", headers=some), 404)
    assert ok(http.post(f"{REPLAYS}/{own}/abort", headers=some))["status"] == "aborted"
