"""The pages of the crawl: its hosts, one host with its robots.txt and rests, and one page tried."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from starlette.testclient import TestClient

from sluice.contracts.errors import Overloaded
from sluice.contracts.ingest import HostCounts
from sluice.contracts.operations.actions import ActionPage
from sluice.ingest.politeness.hosts import HostMemory
from sluice.ingest.politeness.rate_limit import HostRateLimit, RateLimitStore
from sluice.ingest.politeness.robots import BrokerRobotsStore, RobotsAnswer
from sluice.ledger.ledger import Ledger
from tests.support.console import token_in
from tests.support.console_visitor import HOSTILE, Visitor, harmless, said
from tests.support.in_process import MakeInstance
from tests.support.site import Site
from tests.support.valkey import Valkey

HOST = "docs.example.org"
ROBOTS = "User-agent: *\nDisallow: /private # ours\nAllow: /\n" + "\n".join(f"# {one}" for one in HOSTILE)


@pytest.fixture
def crawled(visitor: Visitor) -> Visitor:
    """A host that was asked for pages, and one of a hostile name."""
    stats = visitor.http.app.state.instance.context.host_stats  # type: ignore[attr-defined]
    counts = HostCounts(requests=8, pages=4, failures=2, robots_refusals=1, received_bytes=12_345, rendered=1)
    stats.add(HOST, counts, interval_seconds=0.52, refusals={"robots": 1, HOSTILE[0]: 3})
    stats.add(HOSTILE[1], HostCounts(requests=3))
    return visitor


def test_hosts_are_listed_and_one_is_shown_with_its_refusals(crawled: Visitor) -> None:
    page = crawled.get("/crawl")
    assert f'href="/console/crawl/{HOST}"' in page
    assert "75 %" in page, "of eight requests two failed"
    harmless(page)
    led = crawled.http.get("/console/crawl", params={"host": HOST}, follow_redirects=False)
    assert (led.status_code, led.headers["location"]) == (303, f"/console/crawl/{HOST}")
    one = crawled.get(f"/crawl/{HOST}")
    assert "12,345" in one
    assert "It was not read within a day" in one
    assert "&lt;script&gt;" in one
    harmless(one)
    found = crawled.http.get(f"/v1/hosts/{HOST}").json()
    assert (found["requests"], found["refusals"]["robots"], found["robots"]) == (8, 1, [])
    assert "is no host" in crawled.get("/crawl/two words", 422)


def test_the_line_of_robots_txt_that_decides_is_marked(crawled: Visitor, valkey: Valkey) -> None:
    settings = valkey.settings
    store = BrokerRobotsStore(settings.broker_location, key_prefix=settings.instance)
    store.keep(f"https://{HOST}", RobotsAnswer("rules", "answers 200", ROBOTS.encode()), 60.0)
    store.close()
    page = crawled.get(f"/crawl/{HOST}", url=f"https://{HOST}/private/x")
    assert "<mark>Disallow: /private # ours</mark>" in page
    assert "refused" in page
    harmless(page)
    assert "<mark>Allow: /</mark>" in crawled.get(f"/crawl/{HOST}", url=f"https://{HOST}/else")
    assert "is not of" in crawled.get(f"/crawl/{HOST}", 422, url="https://elsewhere.example/")


def test_a_host_that_rests_gets_no_request_until_the_rest_is_ended(
    crawled: Visitor, ledger: Ledger, valkey: Valkey
) -> None:
    page = crawled.send(f"/crawl/{HOST}", f"/crawl/{HOST}/rest", minutes="30", why="it is <b>ill</b>")
    assert "begins for 30 minutes" in said(page)
    assert "rests" in page
    assert "it is &lt;b&gt;ill" in page
    store = RateLimitStore(valkey.settings.broker_location, valkey.settings.instance)
    turns = HostRateLimit(1_000.0, store)
    with pytest.raises(Overloaded) as refused:
        turns.wait_turn(HOST)
    assert 1_700 < refused.value.retry_after_seconds <= 1_800
    turns.wait_turn("other.example")
    crawled.send(f"/crawl/{HOST}", f"/crawl/{HOST}/wake", why="")
    began = time.monotonic()
    turns.wait_turn(HOST)
    assert time.monotonic() - began < 5
    store.close()
    done = ledger.console.actions(ActionPage(subject=f"host:{HOST}"))
    assert [(one.action, one.operator) for one in done] == [("wake_host", "local"), ("rest_host", "local")]
    assert done[1].note == "1800 seconds: it is <b>ill</b>"


@pytest.mark.parametrize(
    ("minutes", "why", "field"), [("0", "x", "minutes"), ("soon", "x", "minutes"), ("5", " ", "why")]
)
def test_a_rest_without_length_or_reason_is_refused(crawled: Visitor, minutes: str, why: str, field: str) -> None:
    page = crawled.send(f"/crawl/{HOST}", f"/crawl/{HOST}/rest", 422, minutes=minutes, why=why)
    assert f'id="rest-wrong" role="alert">{field}: ' in page
    assert f'value="{minutes}"' in page, "what was written is kept"


def test_a_rest_over_http_is_ended_by_no_seconds(crawled: Visitor) -> None:
    rested = crawled.http.post(f"/v1/hosts/{HOST}/rest", params={"seconds": 60, "note": "x"}).json()
    assert rested["closed_until"] is not None
    assert crawled.http.post(f"/v1/hosts/{HOST}/rest", params={"seconds": 0}).json()["closed_until"] is None
    assert crawled.http.post(f"/v1/hosts/{HOST}/rest", params={"seconds": 1e9}).status_code == 422


def test_a_breaker_that_opened_in_a_worker_is_told(crawled: Visitor, valkey: Valkey) -> None:
    hosts = HostMemory(valkey.settings.broker_location, key_prefix=valkey.settings.instance)
    hosts.circuit_opened(HOST, datetime.now(UTC))
    hosts.close()
    assert "most of the latest requests of a worker failed" in crawled.get(f"/crawl/{HOST}")


def test_a_worker_records_the_host_whose_breaker_opens(make_instance: MakeInstance, crawled: Visitor) -> None:
    worker = make_instance(crawl={"enabled": True, "render": "never"})
    breakers = worker.context.crawler._context.breakers  # noqa: SLF001 - it takes half a minute of failures else
    for _ in range(20):
        breakers.record(f"https://{HOST}", failed=True)
    found = crawled.http.get(f"/v1/hosts/{HOST}").json()
    assert found["circuit_opened_at"] is not None
    assert crawled.http.get("/v1/hosts/other.example").json()["circuit_opened_at"] is None


def test_one_page_is_tried_and_that_is_recorded(visitor: Visitor, ledger: Ledger) -> None:
    page = visitor.send("/crawl/try", "/crawl/try", 403, url="https://example.org/", corpus="default")
    assert "crawling is switched off" in page
    assert visitor.http.post("/v1/crawl/explain", params={"url": "https://example.org/"}).status_code == 403


def test_each_decision_about_a_page_is_shown(
    serve: Callable[..., TestClient], valkey: Valkey, site: Site, ledger: Ledger
) -> None:
    site.put("/robots.txt", "User-agent: *\nAllow: /page\nDisallow: /closed")
    site.html("/page", f"<title>{HOSTILE[0]}</title><main><p>A lock raises boats.</p><a href='/x?{HOSTILE[1]}'>x</a>")
    crawl = valkey.settings.crawl.model_copy(update={"enabled": True, "requests_per_second_per_host": 50.0})
    http = serve(crawl=crawl, egress=valkey.settings.egress.model_copy(update={"allow": (site.address,)}))
    http.base_url = "https://127.0.0.1"  # type: ignore[assignment]
    visitor = Visitor(http)
    page = visitor.send("/crawl/try", "/crawl/try", url=site.url("/page"))
    assert "Allow: /page" in page
    assert "crawled" in page
    harmless(page)
    refused = visitor.send("/crawl/try", "/crawl/try", url=site.url("/closed"))
    assert "policy refused" in refused
    assert 'role="alert">url: ' in visitor.send("/crawl/try", "/crawl/try", 422, url="two words")
    assert not ledger.runs()
    tried = ledger.console.actions(ActionPage(action="try_page"))
    assert [one.note for one in tried] == [site.url("/closed"), site.url("/page")]
    told = http.get("/v1/hosts/127.0.0.1", params={"url": site.url("/closed")}).json()
    assert told["refusals"]["robots"] == 1
    assert [(one["allowed"], one["line"]) for one in told["robots"]] == [(False, "Disallow: /closed")]


@pytest.mark.parametrize(("role", "corpora"), [("agent", ()), ("operator", ("docs",))])
def test_only_an_operator_of_all_corpora_sees_hosts(
    signed: Callable[..., Visitor], role: str, corpora: tuple[str, ...]
) -> None:
    other = signed(role, *corpora)
    for path in ("/crawl", f"/crawl/{HOST}", "/crawl/try"):
        assert role in other.get(path, 403)
    token = token_in(other.get("/runs"))
    assert other.post(f"/crawl/{HOST}/rest", token=token, minutes="5", why="x").status_code == 403
