"""Pages that are shown, addresses of sites and crawls over HTTP; a thread beside does the stages' work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from sluice.contracts.event import Queue
from sluice.ingest.settings import CrawlSettings, EgressSettings
from sluice.workers.context import Context
from sluice.workers.runtime.claims import Heartbeat
from sluice.workers.task import StageWorker, use_wake_up
from tests.support.api_keys import bearer
from tests.support.egress import site
from tests.support.repository import MODELS
from tests.support.site import Site

__all__ = ["site"]

PAGE = "<title>Locks</title><main><h1>Locks</h1><p>A canal lock raises boats between stretches of water.</p></main>"
STAGES: tuple[Queue, ...] = ("crawl", "chunk", "embed", "index")


@pytest.fixture
def http(serve: Callable[..., TestClient], site: Site) -> TestClient:
    crawl = CrawlSettings(enabled=True, render="never", requests_per_second_per_host=200.0)
    return serve(crawl=crawl, egress=EgressSettings(allow=(site.address,)))


@pytest.fixture
def at_work(http: TestClient) -> Iterator[None]:
    """Does what is ready in each stage, until the test ends."""
    settings = http.app.state.instance.settings  # type: ignore[attr-defined]
    embed = settings.embed.model_copy(update={"model_dir": MODELS})
    context, stopping = Context(settings.model_copy(update={"embed": embed})), threading.Event()
    heartbeat = Heartbeat(context.ledger, 30.0)
    workers = [StageWorker(stage, f"{stage}-1", context, heartbeat) for stage in STAGES]

    def work() -> None:
        while not stopping.wait(0.02):
            for worker in workers:
                for wake_up in context.ledger.next_ready(worker.stage, 10):
                    use_wake_up(wake_up.event_id, worker)

    thread = threading.Thread(target=work)
    thread.start()
    yield
    stopping.set()
    thread.join()
    heartbeat.close()
    context.close()


@pytest.mark.usefixtures("at_work")
def test_a_page_comes_with_the_response_and_can_be_had_again(http: TestClient, site: Site) -> None:
    site.html("/lock", PAGE)
    told = http.post("/v1/scrape", json={"url": site.url("/lock")})
    assert told.status_code == 200, told.text
    found = told.json()
    assert (found["status"], found["page"]["title"], found["missing"]) == ("finished", "Locks", [])
    assert told.headers["Sluice-Run-Id"] == found["run_id"]
    assert http.get(f"/v1/scrape/{found['run_id']}").json() == found
    [run] = http.get("/v1/runs", params={"kind": "scrape"}).json()["data"]
    assert (run["run_id"], run["query"]) == (found["run_id"], site.url("/lock"))


@pytest.mark.usefixtures("at_work")
def test_addresses_come_with_the_response_and_more_of_them_later(http: TestClient, site: Site) -> None:
    site.html("/", PAGE.replace("</p>", "<a href='/a'>a</a> <a href='/b'>b</a></p>"))
    found = http.post("/v1/map", json={"url": site.url("/"), "limit": 1}).json()
    assert (found["urls"], found["url_count"], found["url"]) == ([site.url("/")], 3, site.url("/"))
    rest = http.get(f"/v1/map/{found['run_id']}", params={"after": 1}).json()
    assert rest["urls"] == [site.url("/a"), site.url("/b")]


def test_a_crawl_is_a_run_and_the_same_key_makes_no_second_one(http: TestClient, site: Site) -> None:
    body = {"url": site.url("/"), "include": ["/docs/*"], "limit": 40}
    first, again = (http.post("/v1/crawl", json=body, headers={"Idempotency-Key": "once"}) for _ in range(2))
    assert (first.status_code, first.json()["run_id"]) == (202, again.json()["run_id"])
    run = http.get(f"/v1/runs/{first.json()['run_id']}").json()
    assert (run["kind"], run["status"], run["open_events"]) == ("crawl", "open", 1)
    assert http.delete(f"/v1/runs/{run['run_id']}").json()["status"] == "cancelled"


@pytest.mark.parametrize(
    ("path", "fields", "pointer"),
    [
        ("crawl", {"include": ["docs/*"]}, "/include/0"),
        ("crawl", {"exclude": ["/x"] * 33}, "/exclude"),
        ("crawl", {"max_depth": 6}, "/max_depth"),
        ("crawl", {"url": "ftp://example.org/"}, "/url"),
        ("map", {"limit": 0}, "/limit"),
        ("scrape", {"url": "http://user:secret@example.org/"}, "/url"),
    ],
)
def test_what_is_wrong_is_named(http: TestClient, path: str, fields: dict[str, object], pointer: str) -> None:
    refused = http.post(f"/v1/{path}", json={"url": "https://example.org/", **fields})
    assert refused.status_code == 422
    assert [one["pointer"] for one in refused.json()["errors"]] == [pointer]
    assert http.get("/v1/runs").json()["data"] == []


def test_a_key_of_other_corpora_may_neither_begin_nor_see_one(http: TestClient, site: Site) -> None:
    run_id = http.post("/v1/scrape", json={"url": site.url("/"), "wait": False}).json()["run_id"]
    key = bearer(http, "agent", "other")
    for path in ("scrape", "map", "crawl"):
        assert http.post(f"/v1/{path}", json={"url": site.url("/")}, headers=key).status_code == 403
    assert http.get(f"/v1/scrape/{run_id}", headers=key).status_code == 404
    assert http.get(f"/v1/map/{run_id}", headers=key).status_code == 404


def test_nothing_is_fetched_while_crawling_is_off(serve: Callable[..., TestClient]) -> None:
    refused = serve().post("/v1/scrape", json={"url": "https://example.org/"})
    assert (refused.status_code, refused.json()["remedy"]) == (403, "crawl.enabled = true in sluice.toml")


def scheduled(http: TestClient, headers: dict[str, str] | None = None, **fields: object) -> dict[str, Any]:
    body = {"crawl": {"url": "https://example.org/"}, "every": "PT6H", **fields}
    made = http.post("/v1/schedules", json=body, headers=headers)
    assert made.status_code == 201, made.text
    found: dict[str, Any] = made.json()
    assert made.headers["Location"] == f"/v1/schedules/{found['id']}"
    return found


def test_a_schedule_is_made_listed_changed_run_and_removed(http: TestClient) -> None:
    made = scheduled(http, name="nightly")
    path = f"/v1/schedules/{made['id']}"
    assert (made["name"], made["corpus"], made["every"], made["cron"]) == ("nightly", "default", "PT6H", None)
    assert made["crawl"]["url"] == "https://example.org/"
    assert "map" not in made
    other = scheduled(http, every=None, cron="0 6 * * MON-FRI", time_zone="Europe/Berlin")
    first = http.get("/v1/schedules", params={"limit": 1}).json()
    assert [one["id"] for one in first["data"]] == [made["id"]]
    rest = http.get("/v1/schedules", params={"limit": 1, "cursor": first["next_cursor"]}).json()
    assert ([one["id"] for one in rest["data"]], rest["next_cursor"]) == ([other["id"]], None)
    changed = http.patch(path, json={"map": {"url": "https://example.org/", "corpus": "other"}}).json()
    assert (changed["map"]["url"], changed["corpus"], "crawl" in changed) == ("https://example.org/", "other", False)
    assert http.get(path).json() == changed
    assert http.patch(path, json={"enabled": False}).json()["next_at"] is None
    begun = [http.post(f"{path}/run", headers={"Idempotency-Key": "once"}) for _ in range(2)]
    assert [one.status_code for one in begun] == [202, 202]
    assert begun[0].json()["run_id"] == begun[1].json()["run_id"] == begun[0].headers["Sluice-Run-Id"]
    assert http.get(f"/v1/runs/{begun[0].json()['run_id']}").json()["kind"] == "map"
    assert http.get(path).json()["last_run_id"] == begun[0].json()["run_id"]
    assert http.delete(path).status_code == 204
    assert http.get(path).status_code == 404


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"every": 59}, "/every"),
        ({"every": "P400D"}, "/every"),
        ({"every": None}, ""),
        ({"cron": "0 6 * * *"}, ""),
        ({"every": None, "cron": "61 6 * * *"}, "/cron"),
        ({"every": None, "cron": "0 6 * * *", "time_zone": "Mars"}, "/time_zone"),
        ({"map": {"url": "https://example.org/"}}, ""),
        ({"crawl": {"url": "https://example.org/", "include": ["docs"]}}, "/crawl/include/0"),
        ({"crawl": None, "documents": {"documents": [{"id": "a", "text": "b"}]}}, "/documents/documents"),
    ],
)
def test_what_is_wrong_with_a_schedule_is_named(http: TestClient, fields: dict[str, object], pointer: str) -> None:
    refused = http.post("/v1/schedules", json={"crawl": {"url": "https://example.org/"}, "every": "PT6H", **fields})
    assert refused.status_code == 422, refused.text
    assert [one["pointer"] for one in refused.json()["errors"]] == [pointer]
    assert refused.json()["errors"][0]["detail"]


def test_a_key_sees_its_own_schedules_and_an_operator_those_of_its_corpora(http: TestClient) -> None:
    own, other = bearer(http, "agent", "docs"), bearer(http, "agent", "docs")
    of_docs, of_all = bearer(http, "operator", "docs"), bearer(http, "operator")
    made = scheduled(http, own, crawl={"url": "https://example.org/", "corpus": "docs"})
    elsewhere = scheduled(http, of_all)
    path = f"/v1/schedules/{made['id']}"

    def seen(headers: dict[str, str]) -> list[str]:
        return [one["id"] for one in http.get("/v1/schedules", headers=headers).json()["data"]]

    assert [seen(one) for one in (own, other, of_docs)] == [[made["id"]], [], [made["id"]]]
    assert seen(of_all) == [made["id"], elsewhere["id"]]
    for method, headers in (("GET", other), ("PATCH", other), ("DELETE", other)):
        assert http.request(method, path, headers=headers, json={}).status_code == 404
    foreign = {"crawl": {"url": "https://example.org/"}, "every": "PT6H"}
    assert http.post("/v1/schedules", json=foreign, headers=own).status_code == 403
    assert http.patch(path, json={"crawl": foreign["crawl"]}, headers=own).status_code == 403
