"""`sluice crawl URL --explain` tells every decision about a page, and records and follows nothing."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.cli.agent.crawl_explain import explain
from sluice.contracts.ingest import CrawlDirected
from tests.support.in_process import Instance, MakeInstance
from tests.support.site import Site

PAGE = """<title>Locks</title><main><h1>Locks</h1>
<p>A canal lock raises boats between stretches of water at different levels, by means of a chamber with gates.</p>
<a href=/next>The next page of the same site</a></main>"""


@pytest.fixture
def instance(make_instance: MakeInstance, site: Site) -> Instance:
    settings = {"enabled": True, "render": "never", "requests_per_second_per_host": 50.0}
    return make_instance(crawl=settings, egress={"allow": [site.address]})


def explained(instance: Instance, url: str) -> tuple[dict[str, Any], int]:
    """What is printed as JSON, and the exit code."""
    shown = explain(instance.context, "docs", url, None, screenshot=False)
    return shown.value, shown.exit_code


def test_each_decision_is_told_and_nothing_is_recorded(instance: Instance, site: Site) -> None:
    site.put("/robots.txt", "User-agent: *\nAllow: /page")
    site.html("/page", PAGE)
    told, code = explained(instance, site.url("/page"))
    decisions = {row["about"]: row["what"] for row in told["decisions"]}
    assert (code, told["ended"]) == (0, "crawled")
    assert "Allow: /page" in decisions["robots"]
    assert decisions["answer"].startswith("200 text/html")
    assert decisions["link"] == site.url("/next")
    assert "Locks" in decisions["page"]
    assert "2 requests to 127.0.0.1" in decisions["egress"]
    assert site.paths() == ["/robots.txt", "/page"], "its links are listed and not followed"
    assert not instance.context.ledger.runs()
    assert instance.context.page_memory.recall("docs", site.url("/page")) is None


def test_a_page_that_cannot_be_had_says_why(instance: Instance, site: Site) -> None:
    site.put("/robots.txt", "User-agent: *\nDisallow: /closed")
    site.put("/away", status=302, Location="http://169.254.169.254/latest")
    told, code = explained(instance, site.url("/closed"))
    assert (code, told["ended"]) == (1, "policy_refused")
    assert "Disallow: /closed" in str(told["decisions"])
    told, _ = explained(instance, site.url("/away"))
    assert "169.254.169.254:80 refused by rule address" in str(told["decisions"])


def test_a_page_that_was_withdrawn_says_when_and_why(instance: Instance, site: Site) -> None:
    site.html("/page", PAGE)
    for body, status in ((PAGE, 200), ("", 410)):
        site.put("/page", body, status, Content_Type="text/html")
        instance.begins(CrawlDirected(url=site.url("/page")))
        instance.works("crawl", "chunk", "embed", "index")
    told, code = explained(instance, site.url("/page"))
    assert (code, told["ended"]) == (1, "not_found")
    [memory] = [row["what"] for row in told["decisions"] if row["about"] == "memory"]
    assert memory.endswith("UTC: gone")


def test_people_read_a_line_for_each(instance: Instance, site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    links = "".join(f"<a href='/topic/{word}'>{word} of a lock</a> " for word in "abcdefghijklmnopqrstuvwxyz")
    site.html("/page", PAGE + links)
    explain(instance.context, "docs", site.url("/page"), None, screenshot=False).draw()
    out = capsys.readouterr().out
    assert "waited" in out
    assert "more: link" in out
