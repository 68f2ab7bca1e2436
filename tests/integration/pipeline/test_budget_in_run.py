"""A run that comes to a ceiling on its way goes on with what there is, and names what it does without."""

from __future__ import annotations

import threading

import pytest

from sluice.contracts.errors import Unavailable
from sluice.contracts.gate import Limits
from sluice.contracts.ingest import CrawlDirected, SearchDirected
from sluice.workers.runtime.claims import Heartbeat
from sluice.workers.task import StageWorker, use_wake_up
from tests.support.in_process import MakeInstance
from tests.support.site import Site

SENTENCE = "A lease is renewed by a heartbeat. "
TEXT = SENTENCE * 10
TOKENS = 92
"""What the local model reads for a document of it: nine words and marks, ten times, and two of its own."""


def test_documents_beyond_the_token_budget_are_named_and_the_others_embedded(make_instance: MakeInstance) -> None:
    instance = make_instance()
    run_id = instance.adds(TEXT + "one", TEXT + "two", TEXT + "three", max_tokens=2 * TOKENS + 10)
    instance.works("chunk")
    (gap,) = instance.gaps(run_id)
    assert (gap.stage, gap.subject, gap.reason) == ("embed", "doc-2", "budget_exhausted")
    assert gap.detail.startswith("run_tokens: ")
    assert "limits.max_tokens" in gap.lifted_by
    held = instance.context.ledger.budget_left(run_id).run.tokens
    assert held is not None
    instance.works("embed", "index")
    run = instance.context.ledger.run(run_id)
    assert (run.status, run.dead_letters) == ("finished", 0)
    assert 0 < run.spend.tokens <= 2 * TOKENS + 10
    assert instance.context.ledger.budget_left(run_id).run.tokens == 2 * TOKENS + 10 - run.spend.tokens == held


def test_what_the_cache_holds_costs_nothing_in_the_end(make_instance: MakeInstance) -> None:
    instance = make_instance()
    for _ in range(2):
        run_id = instance.adds(TEXT, max_tokens=TOKENS)
        instance.works("chunk", "embed", "index")
    assert instance.context.ledger.run(run_id).spend.tokens == 0
    assert instance.context.ledger.budget_left(run_id).run.tokens == TOKENS


def test_runs_that_race_for_the_days_last_tokens_embed_what_fits_and_name_the_rest(make_instance: MakeInstance) -> None:
    instance = make_instance(budget={"day_tokens": 3 * (TOKENS + 3)})
    runs = [instance.adds(f"{TEXT} {number}") for number in range(8)]
    heartbeat = Heartbeat(instance.context.ledger, 30.0)
    together = threading.Barrier(4)

    def work(name: str) -> None:
        worker = StageWorker("chunk", name, instance.context, heartbeat)
        together.wait()
        for _ in range(2):
            use_wake_up("evt_any", worker)

    threads = [threading.Thread(target=work, args=(f"chunk-{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    heartbeat.close()
    instance.works("chunk", "embed", "index")
    left_out = [run_id for run_id in runs if instance.gaps(run_id)]
    spent = sum(instance.context.ledger.run(run_id).spend.tokens for run_id in runs)
    assert len(left_out) == 5
    assert spent <= 3 * (TOKENS + 3)
    assert {gap.reason for run_id in left_out for gap in instance.gaps(run_id)} == {"budget_exhausted"}


def test_an_endpoints_price_is_reserved_before_it_is_asked(make_instance: MakeInstance) -> None:
    paid = {"provider": "openai", "openai_usd_per_million_tokens": 100.0, "openai_base_url": "http://127.0.0.1:9/v1"}
    instance = make_instance(embed=paid)
    run_id = instance.adds(TEXT + "one", TEXT + "two", max_usd=0.015)
    instance.works("chunk")
    (gap,) = instance.gaps(run_id)
    assert gap.detail.startswith("run_usd: ")
    left = instance.context.ledger.budget_left(run_id).run.usd
    assert left == pytest.approx(0.015 - (len(TEXT + "one") // 3 + 1) * 100e-6)


def test_a_page_beyond_its_bytes_or_its_time_is_a_gap_and_what_it_took_is_booked(
    make_instance: MakeInstance, site: Site
) -> None:
    site.put("/large", b"x" * 5_000, Content_Type="text/plain")
    site.call("/slow", lambda _handler: threading.Event().wait(3))
    instance = make_instance(crawl={"enabled": True, "render": "never"}, egress={"allow": [site.address]})
    large = instance.begins(CrawlDirected(url=site.url("/large"), byte_allowance=1_000))
    slow = instance.begins(CrawlDirected(url=site.url("/slow"), millisecond_allowance=300.0))
    instance.works("crawl")
    for run_id, words in ((large, "1000 bytes that are left"), (slow, "300 milliseconds that are left")):
        (gap,) = instance.gaps(run_id)
        assert gap.reason == "budget_exhausted"
        assert words in gap.detail
        assert instance.context.ledger.run(run_id).dead_letters == 0
    assert instance.context.ledger.run(large).spend.bytes == 1_000
    assert instance.context.ledger.run(slow).spend.milliseconds == pytest.approx(300)


def test_links_are_followed_with_what_their_page_left(make_instance: MakeInstance, site: Site) -> None:
    links = "".join(f"<a href='/{number}'>n</a>" for number in range(6))
    site.html("/", f"<p>{TEXT}</p>{links}")
    for number in range(6):
        site.html(f"/{number}", f"<p>{TEXT} {number}</p>")
    settings = {"enabled": True, "render": "never", "requests_per_second_per_host": 50.0}
    instance = make_instance(crawl=settings, egress={"allow": [site.address]}, budget={"run_milliseconds": 9_000})
    run_id = instance.service.crawl("docs", [site.url()], Limits(max_pages=8, max_bytes=900_000)).run_id
    instance.works("crawl")
    run, left = instance.context.ledger.run(run_id), instance.context.ledger.budget_left(run_id)
    assert run.spend.pages == 1 + 3, "the bytes are enough for four pages of text"
    assert left.run.bytes == 900_000 - run.spend.bytes
    assert left.run.milliseconds == pytest.approx(9_000 - run.spend.milliseconds)


def test_a_search_that_costs_more_than_it_may_is_a_gap_and_no_dead_letter(make_instance: MakeInstance) -> None:
    search = {"enabled": True, "providers": ["brave"], "brave_api_key": "key"}
    instance = make_instance(search=search)
    run_id = instance.begins(SearchDirected(query="what is a lease?", max_usd=0.001))
    instance.works("search")
    (gap,) = instance.gaps(run_id)
    assert (gap.stage, gap.subject, gap.reason) == ("search", "what is a lease?", "budget_exhausted")
    assert "brave" in gap.detail
    assert instance.context.ledger.run(run_id).dead_letters == 0


def test_a_search_that_nobody_may_be_asked_for_is_a_gap_at_once(make_instance: MakeInstance) -> None:
    search = {"enabled": True, "providers": ["brave"], "brave_api_key": "key", "quota_per_day": 0}
    instance = make_instance(search=search)
    run_id = instance.begins(SearchDirected(query="what is a lease?", max_usd=1.0))
    instance.works("search")
    (gap,) = instance.gaps(run_id)
    assert (gap.reason, gap.detail) == ("search_failed", "search failed: brave: its 0 calls of the day are used up")


def test_a_page_of_a_host_that_keeps_failing_is_a_gap_at_once(make_instance: MakeInstance, site: Site) -> None:
    site.put("/broken", b"oh", 500)
    settings = {"enabled": True, "render": "never", "requests_per_second_per_host": 50.0}
    instance = make_instance(crawl=settings, egress={"allow": [site.address]})
    for _ in range(10):
        with pytest.raises(Unavailable):
            instance.context.crawler.crawl(CrawlDirected(url=site.url("/broken")))
    asked = len(site.asked)
    run_id = instance.begins(CrawlDirected(url=site.url("/well")))
    instance.works("crawl")
    (gap,) = instance.gaps(run_id)
    assert (gap.stage, gap.subject, gap.reason) == ("crawl", site.url("/well"), "host_unavailable")
    assert len(site.asked) == asked
    assert instance.context.ledger.run(run_id).dead_letters == 0
