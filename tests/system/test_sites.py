"""A whole instance reads a page, lists and crawls a real site, and does so again when a schedule says so."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from bench.demo.web import DemoWeb
from sluice.ledger.ledger import Ledger
from sluice_client import SluiceClient
from tests.support.instance import Instance
from tests.support.online import outside, web

__all__ = ["web"]

PATIENCE_SECONDS = 60.0


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory, web: DemoWeb) -> Iterator[Instance]:
    settings = outside(web) | {"CRAWL__RENDER": "never"}
    with Instance(tmp_path_factory.mktemp("sites"), **settings) as running:
        yield running


@pytest.fixture
def client(instance: Instance) -> Iterator[SluiceClient]:
    with SluiceClient(instance.url) as opened:
        yield opened


def test_a_page_is_read_a_site_is_listed_and_a_part_of_it_is_crawled(
    instance: Instance, client: SluiceClient, web: DemoWeb
) -> None:
    mapped = client.map_site(web.url, search="json", include=["/j*.html", "/"])
    assert mapped.status == "finished"
    assert mapped.urls[:2] == [web.url, f"{web.url}json.html"]
    scraped = client.scrape(f"{web.url}json.html")
    assert scraped.page
    assert "JSON" in scraped.page.markdown
    assert scraped.page.links
    run = instance.wait(client.crawl(web.url, include=["/j*.html"], limit=6).run_id)
    assert (run["kind"], run["status"]) == ("crawl", "finished")
    assert {chunk.url for chunk in client.query("encode an object as JSON").chunks} <= {*mapped.urls}
    crawled = [one["body"]["url"] for one in instance.events(run["run_id"]) if one["kind"] == "PageCrawled"]
    assert 2 <= len(crawled) <= 6
    assert all(url == web.url or url.startswith(f"{web.url}j") for url in crawled)


def test_a_schedule_runs_when_its_time_comes(instance: Instance, client: SluiceClient, web: DemoWeb) -> None:
    made = client.create_schedule(name="json", scrape={"url": f"{web.url}json.html", "index": True}, every="PT1H")
    with Ledger(f"sqlite:///{instance.data_dir / 'ledger.sqlite'}") as ledger:
        ledger.schedules.change(made.id, {"due_at": time.time()})  # an hour has passed
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (now := client.schedule(made.id)).last_run_id is None:
        assert time.monotonic() < deadline, now
        time.sleep(0.2)
    assert instance.wait(now.last_run_id)["status"] == "finished"
    assert client.scraped(now.last_run_id).page
    assert now.next_at
    assert now.next_at.timestamp() > time.time() + 3_000
    client.delete_schedule(made.id)
    assert [one.id for one in client.schedules()] == []
