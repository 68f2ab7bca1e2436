"""Whatever the egress proxy refuses is told with its run: in the ledger, in the log and in the trace."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from structlog.testing import capture_logs

from sluice.contracts.event import Event
from sluice.contracts.ingest import CrawlDirected, EgressRefused, SearchDirected
from sluice.otel.context import use_provider
from sluice.otel.spans import RUN_ID
from sluice.workers.page_handlers import MARK
from tests.support.in_process import Instance, MakeInstance
from tests.support.site import Site

INSIDE = "http://10.0.0.1"


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    use_provider(provider)
    yield exporter
    use_provider(None)


def marked(spans: InMemorySpanExporter) -> list[tuple[ReadableSpan, dict[str, object]]]:
    """The spans with a mark, and what it says."""
    return [
        (span, dict(one.attributes or {}))
        for span in spans.get_finished_spans()
        for one in span.events
        if one.name == MARK
    ]


def refusals(instance: Instance, run_id: str) -> list[Event]:
    return instance.context.ledger.events_of_kind(run_id, EgressRefused.kind)


def test_a_search_that_may_not_go_out_is_told_with_its_run(
    make_instance: MakeInstance, spans: InMemorySpanExporter
) -> None:
    search = {"enabled": True, "providers": ["searxng"], "searxng_url": INSIDE}
    instance = make_instance(search=search)
    with capture_logs() as lines:
        run_id = instance.begins(SearchDirected(query="what is a lease?", max_usd=1.0))
        instance.works("search")
    [event] = refusals(instance, run_id)
    told = event.body_as(EgressRefused)
    assert (told.purpose, told.host, told.port, told.rule) == ("search", "10.0.0.1", 80, "address")
    assert [gap.reason for gap in instance.gaps(run_id)] == ["search_failed"], "our own rules are no reason to retry"
    assert instance.context.ledger.run(run_id).dead_letters == 0
    assert [line["run_id"] for line in lines if line["event"] == "egress_refused"] == [run_id]
    [(span, mark)] = marked(spans)
    assert (span.name, (span.attributes or {})[RUN_ID]) == ("process search", run_id)
    assert (mark["host"], mark["rule"], mark["purpose"]) == ("10.0.0.1", "address", "search")


def test_each_search_is_told_of_its_own_refusals_alone(make_instance: MakeInstance) -> None:
    search = {"enabled": True, "providers": ["searxng"], "searxng_url": INSIDE}
    instance = make_instance(search=search)
    runs = [instance.begins(SearchDirected(query=query, max_usd=1.0)) for query in ("what?", "why?")]
    instance.works("search")
    assert [len(refusals(instance, run_id)) for run_id in runs] == [1, 1]


def test_a_search_that_one_provider_answers_tells_what_was_refused_to_another(
    make_instance: MakeInstance, site: Site
) -> None:
    row = '{"url": "https://a.example/", "title": "A", "content": "A lease."}'
    site.put("/search", f'{{"results": [{row}]}}', Content_Type="application/json")
    search = {
        "enabled": True,
        "providers": ["tavily", "searxng"],
        "tavily_api_key": "key",
        "searxng_url": site.url().rstrip("/"),
    }
    egress = {"policy": "listed", "allow": [f"search={site.address}"]}
    instance = make_instance(search=search, egress=egress)
    run_id = instance.begins(SearchDirected(query="what is a lease?", max_usd=1.0))
    instance.works("search")
    [event] = refusals(instance, run_id)
    assert event.body_as(EgressRefused).host == "api.tavily.com"
    assert instance.context.ledger.events_of_kind(run_id, "SearchCompleted")


def test_a_page_that_leads_inside_is_told_with_its_run(
    make_instance: MakeInstance, site: Site, spans: InMemorySpanExporter
) -> None:
    site.put("/away", status=302, Location=f"{INSIDE}/admin")
    settings = {"enabled": True, "render": "never", "requests_per_second_per_host": 50.0}
    instance = make_instance(crawl=settings, egress={"allow": [site.address]})
    with capture_logs() as lines:
        run_id = instance.begins(CrawlDirected(url=site.url("/away")))
        instance.works("crawl")
    assert [event.body_as(EgressRefused).purpose for event in refusals(instance, run_id)] == ["crawl"]
    assert [line["run_id"] for line in lines if line["event"] == "egress_refused"] == [run_id]
    [(span, mark)] = marked(spans)
    assert ((span.attributes or {})[RUN_ID], mark["host"]) == (run_id, "10.0.0.1")
