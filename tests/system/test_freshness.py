"""`sluice up` asks again for its pages by itself: what a site changed is found, and what it took away is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.instance import Instance
from tests.support.site import Site
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(240)

CORPUS = "docs"
EVERY_HOURS = 0.001
"""3.6 seconds."""
HALF_LIFE_DAYS = 0.00001
"""A page is due a second after it was asked for."""
PATIENCE_SECONDS = 90.0


def test_a_page_that_changed_and_one_that_is_gone_are_seen_without_being_told(
    tmp_path: Path, make_site: Callable[[], Site]
) -> None:
    site = make_site()
    site.html("/kept", "<title>Kept</title><main><h1>Kept</h1><p>The weir is opened in the morning.</p></main>")
    site.html("/gone", "<title>Gone</title><main><h1>Gone</h1><p>The culvert is closed in winter.</p></main>")
    settings = {
        "CRAWL__ENABLED": "true",
        "CRAWL__RENDER": "never",
        "CRAWL__REQUESTS_PER_SECOND_PER_HOST": "50",
        "EGRESS__ALLOW": f'["crawl={site.address}"]',
        "FRESHNESS__EVERY_HOURS": str(EVERY_HOURS),
        "FRESHNESS__HALF_LIFE_DAYS": str(HALF_LIFE_DAYS),
    }
    with Instance(tmp_path, **settings) as instance:
        urls = [site.url("/kept"), site.url("/gone")]
        crawled = instance.sluice("crawl", *urls, "--corpus", CORPUS, "--depth", "0")
        assert crawled.returncode == 0, crawled.stderr
        until(lambda: found(instance, "weir culvert") == set(urls), PATIENCE_SECONDS)

        site.html("/kept", "<title>Kept</title><main><h1>Kept</h1><p>The sluice is opened at noon.</p></main>")
        site.put("/gone", b"", 410)

        until(lambda: found(instance, "sluice noon culvert weir") == {site.url("/kept")}, PATIENCE_SECONDS)
        until(lambda: "noon" in first_text(instance, "sluice noon"), PATIENCE_SECONDS)


def found(instance: Instance, question: str) -> set[str]:
    asked = {"query": question, "corpus": CORPUS, "strategy": "bm25", "top_k": 5}
    answer = instance.http.post("/v1/query", json=asked).json()
    return {str(chunk["url"]) for chunk in answer.get("chunks", [])}


def first_text(instance: Instance, question: str) -> str:
    asked = {"query": question, "corpus": CORPUS, "strategy": "bm25", "top_k": 1}
    chunks = instance.http.post("/v1/query", json=asked).json().get("chunks", [])
    return str(chunks[0]["text"]) if chunks else ""
