"""The console's frame: headers, tokens, sessions, roles, and what an error becomes."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from starlette.testclient import TestClient

from sluice.api.console import frame
from sluice.contracts.errors import Unavailable
from sluice.ledger.ledger import Ledger
from sluice.ledger.schema.tables import operator_actions
from sluice.workers.service import callers
from sluice.workers.service.callers import ApiKeys
from tests.support.console import signed_in, token_in

TEMPLATES = Path(frame.__file__).with_name("templates")
PAUSE = "/console/stages/crawl/pause"
ALREADY_RENDERED = ("away.html", "away_figures.html")
"""The templates that show a page or a fragment again, as it was rendered before."""
BROWSER = {"Accept": "text/html,application/xhtml+xml"}


@pytest.fixture
def make_key(browser: TestClient) -> Callable[..., tuple[str, str]]:
    keys: ApiKeys = browser.app.state.instance.keys  # type: ignore[attr-defined]

    def made(role: str, *corpora: str, **more: Any) -> tuple[str, str]:
        return keys.create(f"{role} <Ana>", role, corpora, **more)  # type: ignore[arg-type]

    return made


@pytest.fixture
def clocked(browser: TestClient, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """A clock of the sessions that a test may set forward."""
    ahead = [0.0]
    table = browser.app.state.instance.context.ledger.console  # type: ignore[attr-defined]
    monkeypatch.setattr(table, "_clock", lambda: time.time() + ahead[0])
    return ahead


def test_every_page_is_protected_and_each_response_has_a_nonce_of_its_own(browser: TestClient) -> None:
    nonces = set()
    for path in ("/console", "/console", "/console/runs", "/console/nothing", "/console/session", PAUSE):
        shown = browser.get(path)
        policy = shown.headers["Content-Security-Policy"]
        [nonce] = re.findall(r"'nonce-([\w-]{20,})'", policy)
        nonces.add(nonce)
        assert policy == frame.POLICY.format(nonce=nonce)
        assert {shown.headers[name] for name in ("X-Content-Type-Options", "Referrer-Policy")} == {
            "nosniff",
            "same-origin",
        }
        assert shown.headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert shown.headers["Cache-Control"] == "no-store"
        if "<script" in shown.text:
            assert f'nonce="{nonce}"' in shown.text
    assert len(nonces) == 6


def test_files_are_named_by_their_content_and_kept_for_good(browser: TestClient) -> None:
    page = browser.get("/console").text
    for address in re.findall(r'(?:href|src)="(/console/static/[^"]+)"', page):
        served = browser.get(address)
        assert served.status_code == 200
        assert "immutable" in served.headers["Cache-Control"]
    assert browser.get("/console/static/0123456789abcdef/console.js").status_code == 404
    script = browser.get(re.search(r'src="([^"]+)"', page)[1]).text  # type: ignore[index]
    assert "htmx.org@4.0.1" in script
    assert "hx-csp" in script
    assert "data-copy" in script


def test_a_browser_is_led_to_the_console_and_a_program_finds_what_it_found(browser: TestClient) -> None:
    led = browser.get("/", headers=BROWSER, follow_redirects=False)
    assert (led.status_code, led.headers["Location"]) == (303, "/console")
    found = browser.get("/")
    assert (found.status_code, found.json()["code"]) == (404, "not_found")


def test_no_route_is_in_the_description(browser: TestClient) -> None:
    assert not [path for path in browser.get("/openapi.json").json()["paths"] if path == "/" or "console" in path]


@pytest.mark.parametrize("file", sorted(TEMPLATES.glob("*.html")), ids=lambda file: file.name)
def test_a_template_has_no_style_no_code_and_no_address_from_outside(file: Path) -> None:
    text = file.read_text()
    assert not re.search(r"\sstyle=|hx-on|hx-live|javascript:|hx-vals|<style", text)
    assert bool(re.search(r"\|\s*safe\b", text)) == (file.name in ALREADY_RENDERED)
    assert not re.search(r"\son\w+=", text)
    assert not re.search(r'(?<![-\w])hx-trigger="[^"]*\[', text)
    if file.name != "ui.html":
        own = r"\{\{ (console|asset\([^)]*\)|url|visit\.here\w*(\([^)]*\))?) \}\}"
        assert not [one for one in re.findall(r'(?:href|src|action)="(\{\{[^"]*)"', text) if not re.match(own, one)]
    for form in re.findall(r"<[^>]*\shx-(?:post|get|sse)[^>]*>", text):
        assert "hx-nonce=" in form


def test_a_link_from_outside_is_one_only_by_http(browser: TestClient) -> None:
    template = frame.environment().from_string('{% import "ui.html" as ui with context %}{{ ui.link(url) }}')
    context = {"visit": None, "refused": None, "token": "", "nonce": ""}
    safe = template.render(url='https://example.org/?a=1&b="2', **context)
    assert safe.strip() == (
        '<a class="out" href="https://example.org/?a=1&amp;b=&#34;2" rel="noopener noreferrer">'
        "https://example.org/?a=1&amp;b=&#34;2</a>"
    )
    for bad in ("javascript:alert(1)", "data:text/html,x", "//evil.example", "http:/x", "HTTPS\t://x", "", None):
        assert "<a" not in template.render(url=bad, **context)


def test_a_form_needs_the_token_of_its_session(browser: TestClient, ledger: Ledger) -> None:
    token = token_in(browser.get("/console").text)
    for sent in ({}, {"token": ""}, {"token": "0" * 64}):
        refused = browser.post(PAUSE, data={"why": "because", **sent})
        assert refused.status_code == 403
        assert "another session" in refused.text
    foreign = browser.post(PAUSE, data={"why": "because", "token": token}, headers={"Origin": "https://evil.example"})
    assert foreign.status_code == 403
    multipart = browser.post(PAUSE, data={"why": "x", "token": token}, files={"a": b""})
    assert multipart.status_code == 415
    assert all(one.paused_because is None for one in ledger.stages())
    done = browser.post(PAUSE, data={"why": "because", "token": token, "back": "/console?x=1"}, follow_redirects=False)
    assert (done.status_code, done.headers["Location"]) == (303, "/console?x=1")
    assert browser.get(PAUSE).status_code == 404  # reading changes nothing


@pytest.mark.parametrize(
    "back",
    ["https://evil.example/console", "//evil.example", "/\\evil.example", "/v1/runs", "/console/../v1", "http://["],
)
def test_an_action_leads_to_the_console_alone(browser: TestClient, back: str) -> None:
    token = token_in(browser.get("/console").text)
    done = browser.post(PAUSE, data={"why": "because", "token": token, "back": back}, follow_redirects=False)
    assert done.headers["Location"].startswith("/console")


def test_the_result_is_said_once(browser: TestClient) -> None:
    token = token_in(browser.get("/console").text)
    said = browser.post(PAUSE, data={"why": "<b>&", "token": token, "back": "/console"})
    assert 'class="said">crawl is paused' in said.text
    assert "&lt;b&gt;&amp;" in said.text
    assert "<b>&" not in said.text
    assert 'class="said"' not in browser.get("/console").text


def test_a_wrong_form_is_shown_again_with_what_was_typed(browser: TestClient) -> None:
    page = browser.get("/console").text
    sent = {"token": token_in(page), "back": "/console", "form_id": "pause-crawl", "why": "é" * 1_001}
    again = browser.post(PAUSE, data=sent)
    assert again.status_code == 422
    assert 'id="pause-crawl-wrong" role="alert">why: say why' in again.text
    assert f'value="{"é" * 1_001}"' in again.text
    assert again.text.count('aria-invalid="true"') == 1
    [nonce] = re.findall(r"'nonce-([\w-]+)'", again.headers["Content-Security-Policy"])
    assert set(re.findall(r'nonce="([^"]+)"', again.text)) == {nonce}


def test_signing_in_needs_a_key_in_force_and_the_cookie_is_for_this_site_alone(
    browser: TestClient, make_key: Callable[..., tuple[str, str]]
) -> None:
    _key_id, key = make_key("operator")
    wanted = browser.get("/console/runs?kind=gate")
    assert wanted.status_code == 401
    assert 'name="to" value="/console/runs?kind=gate"' in wanted.text
    assert browser.post("/console/session", data={"key": "slk_wrong"}).status_code == 401
    begun = browser.post("/console/session", data={"key": key, "to": "/console/runs?kind=gate"}, follow_redirects=False)
    assert begun.headers["Set-Cookie"].startswith("__Host-sluice=")
    for mark in ("HttpOnly", "Secure", "SameSite=strict", "Path=/"):
        assert mark in begun.headers["Set-Cookie"]
    assert key not in str(begun.headers)
    gone_on = browser.get(begun.headers["Location"])
    assert str(gone_on.url).endswith("/console/runs?kind=gate")
    assert "operator &lt;Ana&gt;" in gone_on.text
    assert "operator of all corpora" in gone_on.text
    assert browser.get("/v1/runs").status_code == 401  # the cookie is the console's


def test_a_session_ends_by_signing_out_by_revoking_and_by_time(
    browser: TestClient, ledger: Ledger, make_key: Callable[..., tuple[str, str]], clocked: list[float]
) -> None:
    key_id, key = make_key("operator")
    token = token_in(signed_in(browser, key).get("/console").text)
    held = browser.cookies["__Host-sluice"]
    assert browser.post("/console/session/end", data={"token": token}).status_code == 401
    browser.cookies.set("__Host-sluice", held)
    assert browser.get("/console").status_code == 401  # the row is gone, not only the cookie

    assert signed_in(browser, key).get("/console").status_code == 200
    clocked[0] += callers.IDLE_SECONDS - 100
    assert browser.get("/console").status_code == 200
    clocked[0] += callers.IDLE_SECONDS - 100
    assert browser.get("/console").status_code == 200  # used meanwhile
    clocked[0] += callers.IDLE_SECONDS + 1
    assert browser.get("/console").status_code == 401

    assert signed_in(browser, key).get("/console").status_code == 200
    for _ in range(14):
        clocked[0] += callers.IDLE_SECONDS - 100
        last = browser.get("/console").status_code
    assert last == 401  # twelve hours in all

    assert signed_in(browser, key).get("/console").status_code == 200
    ledger.keys.revoke(key_id, "another process")
    assert browser.get("/console").status_code == 401  # at once


def test_the_token_of_one_session_is_none_of_another(
    browser: TestClient, make_key: Callable[..., tuple[str, str]]
) -> None:
    first = token_in(signed_in(browser, make_key("operator")[1]).get("/console").text)
    second = token_in(signed_in(browser, make_key("operator")[1]).get("/console").text)
    assert first != second
    assert browser.post(PAUSE, data={"why": "x", "token": first}).status_code == 403
    assert browser.post(PAUSE, data={"why": "x", "token": second, "back": "/console"}).status_code == 200


def test_several_processes_agree_on_a_session(
    browser: TestClient, serve: Callable[..., TestClient], make_key: Callable[..., tuple[str, str]]
) -> None:
    token = token_in(signed_in(browser, make_key("operator")[1]).get("/console").text)
    other = serve()
    other.base_url, other.cookies = browser.base_url, browser.cookies
    assert token_in(other.get("/console").text) == token
    assert other.post("/console/session/end", data={"token": token}).status_code == 401
    browser.cookies.set("__Host-sluice", "gone")
    assert browser.get("/console").status_code == 401


def test_who_paused_a_stage_is_told_by_the_keys_name(
    browser: TestClient, make_key: Callable[..., tuple[str, str]]
) -> None:
    token = token_in(signed_in(browser, make_key("operator")[1]).get("/console").text)
    shown = browser.post(PAUSE, data={"why": "upgrade", "token": token})
    assert "by operator &lt;Ana&gt;" in shown.text


def test_failed_sign_ins_are_limited(browser: TestClient, make_key: Callable[..., tuple[str, str]]) -> None:
    make_key("operator")
    answers = [browser.post("/console/session", data={"key": "slk_no"}).status_code for _ in range(22)]
    assert answers[:10] == [401] * 10
    assert answers[-1] == 429


def test_roles_see_what_their_keys_cover(browser: TestClient, make_key: Callable[..., tuple[str, str]]) -> None:
    for role, corpora in (("agent", ()), ("agent", ("docs",)), ("operator", ("docs",))):
        signed_in(browser, make_key(role, *corpora)[1])
        shown = browser.get("/console")
        assert str(shown.url).endswith("/console/runs")
        token = token_in(shown.text)
        refused = browser.post(PAUSE, data={"why": "x", "token": token})
        assert refused.status_code == 403
        assert "operator" in refused.text
        assert f"{role} of {'docs' if corpora else 'all corpora'}" in refused.text
        assert browser.get("/console/stream?page=overview").status_code == 403


def test_actions_and_looks_are_recorded_under_the_key(
    browser: TestClient, ledger: Ledger, make_key: Callable[..., tuple[str, str]]
) -> None:
    key_id, key = make_key("operator")
    token = token_in(signed_in(browser, key).get("/console").text)
    browser.post(PAUSE, data={"why": "upgrade", "token": token})
    visitor = browser.app.state.instance.console.find(browser.cookies["__Host-sluice"])  # type: ignore[attr-defined]
    browser.app.state.instance.console.record(visitor, "payload_read", ["letter:dead_1"])  # type: ignore[attr-defined]
    rows = ledger.database.read(select(operator_actions).where(operator_actions.c.operator == key_id)).all()
    assert [(row.action, row.subject) for row in rows] == [
        ("signed_in", f"key:{key_id}"),
        ("pause", "stage:crawl"),
        ("payload_read", "letter:dead_1"),
    ]


def test_while_the_ledger_is_away_the_last_figures_are_shown_and_nothing_can_be_done(
    browser: TestClient, make_key: Callable[..., tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    signed_in(browser, make_key("operator")[1])
    assert 'id="stage-crawl"' in browser.get("/console").text

    def away(*_: object, **__: object) -> None:
        raise Unavailable("the database does not answer")

    database = browser.app.state.instance.context.ledger.database  # type: ignore[attr-defined]
    for kind in ("reading", "writing", "holding"):
        monkeypatch.setattr(database, kind, away)
    shown = browser.get("/console")
    assert shown.status_code == 503
    assert "The ledger does not answer" in shown.text
    assert 'id="stage-crawl"' in shown.text
    assert '<fieldset class="stale" disabled>' in shown.text
    assert "hx-" not in shown.text.partition("<fieldset")[2].partition("</fieldset>")[0]
    assert browser.get("/console/runs").status_code == 503  # never seen: nothing to show


def test_an_error_of_ours_is_a_page_that_tells_nothing(browser: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("secret <b>")

    monkeypatch.setattr(browser.app.state.instance.runs, "recent", broken)  # type: ignore[attr-defined]
    shown = browser.get("/console/runs")
    assert shown.status_code == 500
    assert "secret" not in shown.text
    assert "<h1>Error</h1>" in shown.text


def test_a_link_on_another_site_brings_no_cookie_so_the_page_loads_itself_again(
    browser: TestClient, make_key: Callable[..., tuple[str, str]]
) -> None:
    make_key("operator")
    assert 'http-equiv="refresh"' in browser.get("/console", headers={"Sec-Fetch-Site": "cross-site"}).text
    assert 'http-equiv="refresh"' not in browser.get("/console", headers={"Sec-Fetch-Site": "same-origin"}).text


def test_another_machines_name_is_refused(browser: TestClient) -> None:
    assert browser.get("/console", headers={"Host": "evil.example"}).status_code == 403
