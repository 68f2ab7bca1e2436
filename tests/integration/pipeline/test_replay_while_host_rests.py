"""A dead letter that is replayed while nobody may be asked is not done by that: it waits, and is parked again at worst."""

from __future__ import annotations

import time

import pytest

from sluice.contracts.errors import Unavailable
from sluice.contracts.event import Body, DeadLetter, Queue
from sluice.contracts.ingest import CrawlDirected, SearchDirected
from sluice.contracts.operations.dead_letters import DeadLetterFilter, ReplayRequest
from tests.support.in_process import Instance, MakeInstance
from tests.support.site import Site

REST_SECONDS = 0.3
TEXT = "<p>" + "A lease is renewed by a heartbeat, and a worker that lost it is fenced. " * 10 + "</p>"


@pytest.fixture
def instance(make_instance: MakeInstance, site: Site) -> Instance:
    """Politeness aside, as it is: a host that kept failing rests for a moment."""
    crawl = {
        "enabled": True,
        "render": "never",
        "requests_per_second_per_host": 50.0,
        "breaker_reset_seconds": REST_SECONDS,
    }
    return make_instance(
        crawl=crawl,
        egress={"allow": [site.address]},
        search={"enabled": True, "providers": ["brave"], "brave_api_key": "key", "quota_per_day": 0},
        delivery={"retry_base_seconds": 0.01, "retry_max_seconds": 1.0},
    )


def parked(instance: Instance, body: Body, stage: Queue) -> tuple[str, str]:
    """A run whose one event is a dead letter: the run, and the event."""
    run_id = instance.begins(body)
    claim = instance.context.ledger.claim_next(stage, "w1", 30.0)
    instance.context.ledger.settle(claim, DeadLetter("exhausted", Unavailable("down")), traceparent=None)
    return run_id, claim.event.id


def let_the_host_rest(instance: Instance, site: Site) -> None:
    site.put("/broken", b"oh", 500)
    for _ in range(10):
        with pytest.raises(Unavailable):
            instance.context.crawler.crawl(CrawlDirected(url=site.url("/broken")))


def test_it_waits_until_the_host_may_be_asked_again_and_is_then_handled(instance: Instance, site: Site) -> None:
    ledger = instance.context.ledger
    run_id, event_id = parked(instance, CrawlDirected(url=site.url("/page")), "crawl")
    let_the_host_rest(instance, site)
    site.html("/page", TEXT)
    replay = ledger.replays.begin(ReplayRequest(filter=DeadLetterFilter(), per_second=250), "someone")
    ledger.replays.advance(time.time() + 1)
    instance.works("crawl")
    assert ledger.standing(event_id) == "waiting"
    progress = ledger.replays.show(replay.id)
    assert (progress.open, progress.succeeded) == (1, 0)
    assert "/page" not in site.paths()

    time.sleep(REST_SECONDS)
    ledger.wake_due_retries()
    instance.works("crawl")
    assert ledger.standing(event_id) == "settled"
    assert ledger.replays.show(replay.id).succeeded == 1
    assert [event.kind for _, event in ledger.events_after(run_id)].count("PageCrawled") == 1


def test_it_is_parked_again_where_the_host_stays_away(instance: Instance, site: Site) -> None:
    ledger = instance.context.ledger
    _, event_id = parked(instance, CrawlDirected(url=site.url("/broken")), "crawl")
    let_the_host_rest(instance, site)
    [letter] = ledger.dead_letters.list()
    ledger.dead_letters.replay(letter.id, "someone")
    ends_at = time.monotonic() + 30
    while ledger.standing(event_id) != "dead" and time.monotonic() < ends_at:
        instance.works("crawl")
        time.sleep(0.05)
        ledger.wake_due_retries()
    assert ledger.standing(event_id) == "dead"
    assert ledger.dead_letters.show(letter.id).status == "parked"


def test_an_edited_one_waits_too(instance: Instance, site: Site) -> None:
    ledger = instance.context.ledger
    _, failed_id = parked(instance, CrawlDirected(url=site.url("/page")), "crawl")
    let_the_host_rest(instance, site)
    [letter] = ledger.dead_letters.list()
    payload = ledger.event(failed_id).model_copy(update={"body": CrawlDirected(url=site.url("/other"))})
    ledger.dead_letters.edit(letter.id, payload.model_dump_json().encode(), "someone")
    replayed = ledger.dead_letters.replay(letter.id, "someone")
    instance.works("crawl")
    assert replayed.id != failed_id
    assert ledger.standing(replayed.id) == "waiting"


def test_a_search_waits_while_its_provider_may_not_be_asked(instance: Instance) -> None:
    ledger = instance.context.ledger
    run_id, event_id = parked(instance, SearchDirected(query="what is a lease?", max_usd=1.0), "search")
    gaps = len(instance.gaps(run_id))
    [letter] = ledger.dead_letters.list()
    ledger.dead_letters.replay(letter.id, "someone")
    instance.works("search")
    assert ledger.standing(event_id) == "waiting"
    assert len(instance.gaps(run_id)) == gaps


@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nyes",
        b"X: a\r\n Folded: b\r\n\r\n",
    ],
)
def test_a_site_that_sends_malformed_http_makes_a_gap_and_no_dead_letter(
    instance: Instance, site: Site, framing: bytes
) -> None:
    site.call("/page", lambda handler: handler.wfile.write(b"HTTP/1.1 200 OK\r\n" + framing))
    run_id = instance.begins(CrawlDirected(url=site.url("/page")))
    instance.works("crawl")
    (gap,) = instance.gaps(run_id)
    assert (gap.stage, gap.subject, gap.reason) == ("crawl", site.url("/page"), "malformed_response")
    assert instance.context.ledger.run(run_id).dead_letters == 0
