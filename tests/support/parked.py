"""An event that was parked."""

from __future__ import annotations

from sluice.contracts.event import DeadLetter, Event, Next, new_run_id
from sluice.contracts.ingest import CrawlDirected
from sluice.ledger.ledger import Claim, Ledger, NewRun


def fails(ledger: Ledger, corpus: str = "docs", url: str = "https://example.org/1", why: str = "it is gone") -> str:
    """The id of the letter of an event that was parked."""
    run_id = new_run_id()
    event = Event.of(CrawlDirected(url=url), run_id=run_id, corpus=corpus)
    ledger.create_run(
        NewRun(run_id=run_id, kind="crawl", corpus=corpus, request_sha256="0" * 64), [(event, Next(event.body))]
    )
    claim = ledger.claim_next("crawl", "w1", 10.0)
    assert isinstance(claim, Claim)
    try:
        raise ValueError(why)
    except ValueError as error:
        ledger.settle(claim, DeadLetter("policy", error))
    return ledger.dead_letters.list()[0].id
