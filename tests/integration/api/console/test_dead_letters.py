"""Dead letters and bulk replays at the console: what is shown, to whom, and what a form does."""

from __future__ import annotations

import html
import json
import re
from typing import Any
from urllib.parse import parse_qs

import pytest
from starlette.testclient import TestClient

from sluice.contracts.event import Done
from sluice.ledger.audit import actions_on
from sluice.ledger.ledger import Claim, Ledger
from sluice.workers.service.callers import ApiKeys
from tests.support.console import signed_in, token_in
from tests.support.parked import fails

DEAD, REPLAYS = "/console/dead", "/console/replays"
HOSTILE = (
    "<script>pwned=1</script>",
    '"><img src=x onerror=pwned=1>',
    "' autofocus onfocus='pwned=1",
    "</title><svg onload=pwned=1>",
    "{{ 7 * 7 }}{% raw %}",
    "\u202egnp.exe " + "a" * 400,
)


def ok(response: Any) -> str:
    assert response.status_code == 200, response.text
    return str(response.text)


def fields_of(page: str, form_id: str) -> dict[str, str]:
    """What a browser sends of a form that nobody has filled in."""
    form = re.search(rf'<form[^>]*id="{form_id}".*?</form>', page, re.DOTALL)
    assert form, f"no form {form_id}"
    found = re.findall(r'<input[^>]*name="([^"]+)"[^>]*?value="([^"]*)"', form[0])
    found += re.findall(r'<input[^>]*name="([^"]+)" required[^>]*?value="([^"]*)"', form[0])
    return {name: html.unescape(value) for name, value in found if name != "force"}


def test_failures_are_shown_in_groups_and_one_by_one(browser: TestClient, ledger: Ledger) -> None:
    assert "No letter matches" in ok(browser.get(DEAD))
    first, second = fails(ledger), fails(ledger, "others", "https://example.org/2")
    ledger.dead_letters.park_raw(b"\xff", "embed", "malformed")
    groups = ok(browser.get(DEAD))
    assert groups.count('<tr id="group-') == 2
    assert "ValueError" in groups
    assert "2 in 24 h" in groups
    assert 'hx-sse:connect="/console/stream?page=dead"' in groups
    [fingerprint] = set(re.findall(r"dead\?fingerprint=(\w{16})", groups)) - {
        one.fingerprint for one in ledger.dead_letters.groups() if one.stage == "embed"
    }
    each = ok(browser.get(DEAD, params={"fingerprint": fingerprint}))
    assert first in each
    assert second in each
    narrowed = ok(browser.get(DEAD, params={"corpus": "others", "each": "1", "stage": "", "since": "2020-01-31T12:00"}))
    assert second in narrowed
    assert first not in narrowed
    wrong = browser.get(DEAD, params={"stage": "bake"})
    assert wrong.status_code == 422
    assert "stage" in wrong.text


def test_a_list_goes_on_where_it_ended(browser: TestClient, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.api.console.dead.PART", 2)
    made = [fails(ledger) for _ in range(5)]
    seen, address = [], f"{DEAD}?each=1"
    while address:
        page = ok(browser.get(address))
        seen += re.findall(r'<tr id="(dead_\w+)"', page)
        more = re.search(r'rel="next" href="([^"]+)"', page)
        address = html.unescape(more[1]) if more else ""
    assert seen == made[::-1]


def test_many_are_replayed_after_their_count_is_typed(browser: TestClient, ledger: Ledger) -> None:
    for _ in range(3):
        fails(ledger)
    ledger.dead_letters.park_raw(b"?", "crawl", "malformed")
    plan = ok(browser.get(f"{DEAD}/replay?stage=crawl"))
    assert "Replay 4 letters?" in plan
    assert "not an event" in plan
    assert not ledger.replays.latest()
    sent = fields_of(plan, "replay-many")
    assert (sent["stage"], sent["counted"]) == ("crawl", "4")
    counted = max(one.id for one in ledger.dead_letters.list())
    assert sent["up_to"].endswith(counted)
    refused = browser.post(f"{DEAD}/replay", data={**sent, "typed": "3"})
    assert refused.status_code == 422
    assert "type the count" in refused.text
    younger = fails(ledger)
    begun = browser.post(f"{DEAD}/replay", data={**sent, "typed": "4", "note": "the site is back"})
    assert begun.status_code == 200
    [view] = ledger.replays.latest()
    assert begun.url.path == f"{REPLAYS}/{view.id}"
    assert (view.total, view.operator, view.note) == (4, "local", "the site is back")
    assert "brings back 4 letters" in begun.text
    ledger.replays.advance(ledger.clock() + 10.0)
    ledger.replays.advance(ledger.clock() + 20.0)
    assert [one.id for one in ledger.dead_letters.list() if one.event_id] == [younger], "it is younger than the count"


def test_a_count_that_changed_meanwhile_is_refused(browser: TestClient, ledger: Ledger) -> None:
    made = [fails(ledger) for _ in range(5)]
    sent = {name: fields_of(ok(browser.get(f"{DEAD}/{name}")), f"{name}-many") for name in ("replay", "purge")}
    ledger.dead_letters.purge(made[0], "ann")
    for name, fields in sent.items():
        refused = browser.post(f"{DEAD}/{name}", data={**fields, "typed": "5"})
        assert refused.status_code == 422
        assert "4 dead letters match now, not 5" in refused.text
        assert fields_of(refused.text, f"{name}-many")["counted"] == "4", "the form has the new count"
    assert not ledger.replays.latest()
    assert len(ledger.dead_letters.list()) == 4
    again = fields_of(ok(browser.get(f"{DEAD}/purge")), "purge-many")
    assert "4 letters are emptied" in browser.post(f"{DEAD}/purge", data={**again, "typed": "4"}).text


def test_a_letter_is_looked_into_edited_replayed_and_purged(browser: TestClient, ledger: Ledger) -> None:
    passed, letter_id = fails(ledger, url="https://example.org/fine"), fails(ledger)
    ledger.dead_letters.replay(passed, "ann")
    claim = ledger.claim_next("crawl", "w2", 10.0)
    assert isinstance(claim, Claim)
    ledger.settle(claim, Done())
    payload = ledger.dead_letters.show(letter_id).payload.text

    def looks() -> list[tuple[str, str]]:
        with ledger.database.reading() as connection:
            return [(one.operator, one.action) for one in actions_on(connection, f"letter:{letter_id}")]

    page = ok(browser.get(f"{DEAD}/{letter_id}"))
    assert "https://example.org/1" not in page
    assert "Show the payload" in page
    assert "<td>w1</td>" in page
    assert "ValueError: it is gone" in page
    assert looks() == []
    shown = ok(browser.get(f"{DEAD}/{letter_id}?payload=1"))
    assert looks() == [("local", "payload_read")]
    assert "<mark>&#34;https://example.org/1&#34;</mark>" in shown
    assert "&#34;https://example.org/fine&#34;" in shown
    sent = fields_of(shown, "edit")
    for text, told in (("{", "is not JSON"), ("{}", "kind: "), (payload.replace('"url"', '"uri"'), "body.url")):
        refused = browser.post(f"{DEAD}/{letter_id}/edit", data={**sent, "payload": text})
        assert refused.status_code == 422
        assert told in html.unescape(refused.text)
    assert ledger.dead_letters.show(letter_id).payload.text == payload
    mended = json.dumps(json.loads(payload.replace("/1", "/2")), indent=2)
    edited = ok(browser.post(f"{DEAD}/{letter_id}/edit", data={**sent, "payload": mended.replace("\n", "\r\n")}))
    assert "body.url <span" in edited
    assert ledger.dead_letters.show(letter_id).payload.text == mended
    replayed = ok(browser.post(f"{DEAD}/{letter_id}/replay", data=fields_of(edited, "replay")))
    assert "is ready again" in replayed
    assert browser.app.state.instance.context.transport.queued("crawl") == 1  # type: ignore[attr-defined]
    again = browser.post(f"{DEAD}/{letter_id}/replay", data=fields_of(edited, "replay"))
    assert again.status_code == 409
    assert "Payload and stack are gone" in ok(
        browser.post(f"{DEAD}/{letter_id}/purge", data=fields_of(replayed, "purge"))
    )
    assert browser.get(f"{DEAD}/dead_none").status_code == 404


def test_a_replay_is_paused_resumed_and_aborted(browser: TestClient, ledger: Ledger) -> None:
    assert "No bulk replay" in ok(browser.get(REPLAYS))
    fails(ledger)
    sent = fields_of(ok(browser.get(f"{DEAD}/replay")), "replay-many")
    page = browser.post(f"{DEAD}/replay", data={**sent, "typed": "1"})
    address = page.url.path
    for action, status in (("pause", "paused"), ("resume", "running"), ("abort", "aborted")):
        page = browser.post(f"{address}/{action}", data={**fields_of(page.text, action), "note": "because"})
        assert f" is {status}: 0 of 1" in ok(page)
    assert "Above 20 %, the line" in page.text
    assert browser.post(f"{address}/pause", data={**sent}).status_code == 409
    assert browser.post(f"{address}/explode", data={**sent}).status_code == 422
    assert "aborted" in ok(browser.get(REPLAYS))
    assert browser.get(f"{REPLAYS}/replay_none").status_code == 404


def test_each_role_sees_its_own(browser: TestClient, ledger: Ledger) -> None:
    mine, theirs = fails(ledger, "mine"), fails(ledger, "theirs")
    keys: ApiKeys = browser.app.state.instance.keys  # type: ignore[attr-defined]
    agent, some = (keys.create(role, role, ["mine"])[1] for role in ("agent", "operator"))  # type: ignore[arg-type]
    signed_in(browser, agent)
    for path in (DEAD, f"{DEAD}/{mine}", f"{DEAD}/replay", f"{DEAD}/purge", REPLAYS):
        assert browser.get(path).status_code == 403, path
    assert browser.get("/console/stream?page=dead").status_code == 403
    signed_in(browser, some)
    page = ok(browser.get(DEAD, params={"each": "1"}))
    assert mine in page
    assert theirs not in page
    assert browser.get(f"{DEAD}/{theirs}?payload=1").status_code == 404
    assert browser.get(DEAD, params={"corpus": "theirs"}).status_code == 403
    token = token_in(page)
    for action in ("replay", "purge", "edit"):
        sent = {"token": token, "payload": encode_of(ledger, theirs)}
        assert browser.post(f"{DEAD}/{theirs}/{action}", data=sent).status_code == 404
    assert "Replay 1 letters?" in ok(browser.get(f"{DEAD}/replay"))
    with ledger.database.reading() as connection:
        assert actions_on(connection, f"letter:{theirs}") == (), "nothing was looked at"


def encode_of(ledger: Ledger, letter_id: str) -> str:
    return ledger.dead_letters.show(letter_id).payload.text


@pytest.mark.parametrize("text", HOSTILE)
def test_what_was_made_to_harm_is_shown_as_text(browser: TestClient, ledger: Ledger, text: str) -> None:
    letter_id = fails(ledger, url="https://example.org/" + text, why=text)
    raw = ledger.dead_letters.park_raw(text.encode(), "embed", "malformed", ValueError(text), worker=text)
    pages = [DEAD, f"{DEAD}?each=1", f"{DEAD}/replay", f"{DEAD}/purge"]
    pages += [f"{DEAD}/{one}?payload=1" for one in (letter_id, raw)]
    for path in pages:
        page = ok(browser.get(path))
        assert "<img" not in page
        assert "<script>" not in page
        assert "onfocus='" not in page
        assert "<svg onload" not in page
        assert "49" not in re.findall(r"<td class=\"words\">[^<]*", page)
    assert browser.get(DEAD, params={"kind": text}).status_code == 200


def test_the_parameters_of_the_stream_are_those_of_the_address(browser: TestClient, ledger: Ledger) -> None:
    fails(ledger)
    page = ok(browser.get(DEAD, params={"stage": "crawl", "kind": "a&b=c", "each": "1"}))
    [address] = re.findall(r'hx-sse:connect="/console/stream\?([^"]+)"', page)
    assert parse_qs(html.unescape(address)) == {"page": ["dead"], "stage": ["crawl"], "kind": ["a&b=c"], "each": ["1"]}
