"""Whole instances: one as it comes, and one that may reach a small real web on loopback."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.demo.web import DemoWeb
from tests.support.instance import Instance


@pytest.fixture(scope="session")
def web() -> Iterator[DemoWeb]:
    """A real web on loopback: the standard library's documentation behind a SearXNG endpoint."""
    with DemoWeb() as running:
        yield running


@pytest.fixture(scope="module")
def online(tmp_path_factory: pytest.TempPathFactory, web: DemoWeb) -> Iterator[Instance]:
    """An instance that may search and crawl that web, and nothing else."""
    with Instance(tmp_path_factory.mktemp("online"), **outside(web)) as instance:
        yield instance


@pytest.fixture(scope="module")
def offline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    """An instance as it comes: search and crawl are off."""
    with Instance(tmp_path_factory.mktemp("offline")) as instance:
        yield instance


def outside(web: DemoWeb) -> dict[str, str]:
    """Settings that open the way to `web` alone."""
    return {
        "SEARCH__ENABLED": "true",
        "SEARCH__PROVIDERS": '["searxng"]',
        "SEARCH__SEARXNG_URL": web.search_url,
        "CRAWL__ENABLED": "true",
        "CRAWL__REQUESTS_PER_SECOND_PER_HOST": "50",
        "CRAWL__MAX_PAGES": "4",
        "EGRESS__ALLOW": f'["search={web.host_and_port}", "crawl={web.host_and_port}"]',
    }
