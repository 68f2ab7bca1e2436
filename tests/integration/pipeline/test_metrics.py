"""What the metrics and the log say of events that were handled: alerts and people act on it."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from sluice.contracts.api import GateRequest
from sluice.contracts.ingest import CrawlDirected, SearchDirected
from sluice.contracts.retrieval import Query
from sluice.otel import metrics
from tests.support.in_process import Instance, MakeInstance
from tests.support.searching import searched
from tests.support.site import Site

SEARXNG = "http://127.0.0.1:9"
"""Nothing listens there."""


def figure(name: str, **labels: str) -> float:
    return metrics.REGISTRY.get_sample_value(name, labels) or 0.0


def crawled(instance: Instance, url: str) -> None:
    instance.begins(CrawlDirected(url=url))
    instance.works("crawl")


def test_an_outage_of_the_only_search_provider_counts_every_failed_search(make_instance: MakeInstance) -> None:
    """Also while its circuit is open and it is not asked: the alert ExternalSearchErrorRate must not end with that."""
    search = {"enabled": True, "providers": ["searxng"], "searxng_url": SEARXNG}
    instance = make_instance(search=search, egress={"allow": [f"search={SEARXNG.removeprefix('http://')}"]})
    name = "sluice_search_calls_total"
    failed, ok = (figure(name, provider="searxng", outcome=outcome) for outcome in ("failed", "ok"))
    for _ in range(25):
        instance.begins(SearchDirected(query="what is a lease?", max_usd=1.0))
        instance.works("search")
    assert figure(name, provider="searxng", outcome="failed") == failed + 25
    assert figure(name, provider="searxng", outcome="ok") == ok


def test_a_refusal_by_a_rule_is_no_page_that_was_missed(make_instance: MakeInstance, site: Site) -> None:
    crawl = {"enabled": True, "render": "never", "requests_per_second_per_host": 50.0}
    instance = make_instance(crawl=crawl, egress={"allow": [site.address]})
    site.put("/robots.txt", "User-agent: *\nDisallow: /private")
    pages = {
        outcome: figure("sluice_crawl_pages_total", outcome=outcome, rendered="false")
        for outcome in ("refused", "missed")
    }
    rules = {rule: figure("sluice_crawl_refusals_total", rule=rule) for rule in ("robots", "egress", "not_found")}
    for url in (site.url("/private/page"), "http://10.0.0.1/", site.url("/nowhere")):
        crawled(instance, url)
    for outcome, more in (("refused", 2), ("missed", 1)):
        assert figure("sluice_crawl_pages_total", outcome=outcome, rendered="false") == pages[outcome] + more
    for rule, more in (("robots", 1), ("egress", 1), ("not_found", 0)):
        assert figure("sluice_crawl_refusals_total", rule=rule) == rules[rule] + more


@pytest.fixture
def filled(make_instance: MakeInstance) -> Instance:
    instance = make_instance()
    instance.adds("A lease is renewed by a heartbeat.", "A worker without its lease is fenced.")
    instance.works("chunk", "embed", "index")
    return instance


def test_the_age_of_documents_is_that_of_answers_and_not_of_direct_queries(filled: Instance) -> None:
    counted = figure("sluice_document_age_seconds_count", profile="default")
    found, _ = searched(Query(query="lease heartbeat", corpus="default"), filled.context)
    assert found.chunks
    assert figure("sluice_document_age_seconds_count", profile="default") == counted
    run_id = filled.service.ask(GateRequest(query="what renews a lease?")).run_id
    filled.works("query", "gate", "query")
    answer = filled.context.ledger.run(run_id).answer
    assert answer is not None
    documents = {chunk.document_id for chunk in answer.chunks}
    assert documents
    assert figure("sluice_document_age_seconds_count", profile="default") == counted + len(documents)


def test_each_handled_event_is_one_line_of_the_log(filled: Instance) -> None:
    with capture_logs() as lines:
        run_id = filled.service.ask(GateRequest(query="what renews a lease?")).run_id
        filled.works("query", "gate", "query")
    told: dict[str, dict[str, Any]] = {}
    for line in lines:
        if line["event"] == "event_handled":
            assert (line["log_level"], line["run_id"], line["outcome"]) == ("info", run_id, "Done")
            assert line["duration_seconds"] > 0
            assert line["kind"] not in told, "one line for each"
            told[str(line["kind"])] = dict(line)
    assert list(told) == ["GateRequested", "CoverageProbed", "AnswerDirected"]
    assert told["CoverageProbed"]["plan"] in {"skip", "retrieve"}
    assert isinstance(told["CoverageProbed"]["vetoes"], list)
    assert told["GateRequested"]["spend"].keys() <= {"tokens", "milliseconds", "usd"}
