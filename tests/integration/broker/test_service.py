"""What the service accepts and refuses, and that a refusal leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sluice.contracts.api import DocumentsRequest, GateRequest, SubmittedDocument
from sluice.contracts.budget import LEAST_PAGE_BYTES, Ceiling, Spend
from sluice.contracts.errors import BudgetExhausted, InvalidInput, NotFound, Overloaded, PolicyRefused
from sluice.contracts.event import Queue
from sluice.contracts.gate import Limits, Message
from sluice.contracts.ingest import CrawlDirected
from sluice.ledger.events.claims import Claim
from sluice.workers.context import Context
from sluice.workers.service.documents import document_of
from sluice.workers.service.service import Service
from sluice.workers.settings import Settings
from tests.support.valkey import Valkey

NOW = datetime(2026, 5, 6, tzinfo=UTC)


@pytest.fixture
def context(tmp_path: Path) -> Iterator[Context]:
    context = Context(Settings(data_dir=tmp_path))
    yield context
    context.close()


def submission(**document: object) -> DocumentsRequest:
    return DocumentsRequest.model_validate({"documents": [document]})


@pytest.mark.parametrize("document", [{"id": "a", "text": ""}, {"url": "https://example.com/", "text": ""}])
def test_an_empty_text_is_an_empty_document_and_no_page_to_crawl(context: Context, document: dict[str, str]) -> None:
    with pytest.raises(InvalidInput, match="every document is empty"):
        Service(context).add_documents(submission(**document))


def test_half_a_surrogate_pair_is_refused_by_name(context: Context) -> None:
    with pytest.raises(InvalidInput) as refused:
        Service(context).add_documents(submission(id="a", text="x \ud800 y"))
    assert refused.value.field == "documents"


def test_a_corpus_that_was_only_asked_about_does_not_exist(context: Context) -> None:
    context.readers.reader("ghost")
    with pytest.raises(NotFound):
        context.readers.existing("ghost")


MakeParts = Callable[..., Context]


@pytest.fixture
def make_parts(valkey: Valkey) -> Iterator[MakeParts]:
    """Parts of an instance with a broker and no workers, set as a test says."""
    with ExitStack() as opened:

        def make(**sections: Any) -> Context:
            settings = Settings.model_validate({"data_dir": valkey.settings.data_dir, **sections})
            context = Context(settings)
            opened.callback(context.close)
            return context

        yield make


@pytest.mark.parametrize(
    ("documents", "is_small"),
    [
        ([{"id": "a", "text": "one line"}], True),
        ([{"id": str(number), "text": "one line"} for number in range(9)], False),
        ([{"id": "a", "text": "a long book " * 2_000}], False),
        ([{"url": "https://example.com/"}], True),
    ],
)
def test_what_is_embedded_within_a_second_goes_before_bulk(
    make_parts: MakeParts, documents: list[dict[str, str]], is_small: bool
) -> None:
    context = make_parts(crawl={"enabled": True})
    bulk = [document_of(n, SubmittedDocument(id=f"b{n}", text="of a large folder"), NOW) for n in range(20)]
    Service(context).ingest("default", bulk)
    added = Service(context).add_documents(DocumentsRequest.model_validate({"documents": documents}))
    stage: Queue = "crawl" if "url" in documents[0] else "chunk"
    first = context.ledger.claim_next(stage, "w", 10.0)
    assert isinstance(first, Claim)
    assert (first.event.run_id == added.run_id) == is_small


CRAWLING = {"enabled": True, "max_pages": 4, "max_page_bytes": 10 * LEAST_PAGE_BYTES}


def urls(count: int) -> list[str]:
    return [f"https://example.com/{number}" for number in range(count)]


def directed(context: Context, run_id: str) -> list[CrawlDirected]:
    return [event.body_as(CrawlDirected) for event in context.ledger.events_of_kind(run_id, "CrawlDirected")]


@pytest.mark.parametrize("unit", ["pages", "bytes", "tokens", "milliseconds", "usd"])
def test_a_run_begins_with_its_own_ceilings_in_every_unit(make_parts: MakeParts, unit: str) -> None:
    context = make_parts(budget={"run_tokens": 10**9, "run_milliseconds": 10**9})
    plenty = context.ledger.budget_left(Service(context).ask(GateRequest(query="q")).run_id)
    limited = GateRequest.model_validate({"query": "q", "limits": {f"max_{unit}": 0.0 if unit == "usd" else 1}})
    left = context.ledger.budget_left(Service(context).ask(limited).run_id)
    changed = {name for name in Ceiling.model_fields if getattr(left.run, name) != getattr(plenty.run, name)}
    assert changed == {unit}
    assert left.day == plenty.day


def test_whoever_names_pages_gets_those_with_their_share_of_bytes(make_parts: MakeParts) -> None:
    context = make_parts(crawl=CRAWLING)
    run_id = Service(context).crawl("docs", urls(12)).run_id
    assert [page.url for page in directed(context, run_id)] == urls(12)
    assert {page.byte_allowance for page in directed(context, run_id)} == {10 * LEAST_PAGE_BYTES}
    left = context.ledger.budget_left(run_id)
    assert (left.run.pages, left.run.bytes) == (0, 0)


def test_a_single_page_has_the_whole_runs_allowance_for_its_links(make_parts: MakeParts) -> None:
    context = make_parts(crawl=CRAWLING, budget={"run_milliseconds": 60_000})
    (page,) = directed(context, Service(context).crawl("docs", urls(1)).run_id)
    assert page.allowance.reserve == Spend(pages=4, bytes=40 * LEAST_PAGE_BYTES, milliseconds=60_000)


@pytest.mark.parametrize(
    ("limits", "budget", "lift"),
    [
        (Limits(max_pages=3), {}, "limits.max_pages"),
        (Limits(max_bytes=3 * LEAST_PAGE_BYTES), {}, "limits.max_bytes"),
        (Limits(), {"run_milliseconds": 7_000}, "limits.max_milliseconds"),
        (Limits(), {"day_pages": 3}, "budget.day_pages"),
    ],
)
def test_pages_that_do_not_fit_are_named_and_the_others_are_crawled(
    make_parts: MakeParts, limits: Limits, budget: dict[str, Any], lift: str
) -> None:
    context = make_parts(crawl=CRAWLING, budget=budget)
    run_id = Service(context).crawl("docs", urls(5), limits).run_id
    assert [page.url for page in directed(context, run_id)] == urls(3)
    missing = context.ledger.run(run_id).missing
    assert [(gap.subject, gap.reason) for gap in missing] == [(url, "budget_exhausted") for url in urls(5)[3:]]
    assert lift in missing[0].lifted_by


def test_a_crawl_without_room_for_a_page_is_refused_whole(make_parts: MakeParts) -> None:
    context = make_parts(crawl=CRAWLING, budget={"day_pages": 4})
    with pytest.raises(BudgetExhausted, match=r"limits\.max_pages"):
        Service(context).crawl("docs", urls(2), Limits(max_pages=0))
    Service(context).crawl("docs", urls(3))
    with pytest.raises(BudgetExhausted, match="day"):
        Service(context).crawl("docs", urls(2))
    assert len(context.ledger.runs()) == 1


def test_urls_are_refused_while_crawling_is_off(make_parts: MakeParts) -> None:
    context = make_parts()
    with pytest.raises(PolicyRefused):
        Service(context).add_documents(submission(url="https://example.com/"))
    assert context.ledger.runs() == []


def test_what_there_is_no_room_for_leaves_neither_run_nor_blob(make_parts: MakeParts) -> None:
    context = make_parts(crawl=CRAWLING, delivery={"max_ready_events": 1})
    service = Service(context)
    service.add_documents(submission(id="a", text="The first is taken."))
    blobs = sorted(context.settings.data_dir.rglob("blobs/**/*"))
    with pytest.raises(Overloaded) as refused:
        service.add_documents(submission(id="b", text="The second is not."))
    assert refused.value.retry_after_seconds >= 1
    for refuse in (lambda: service.crawl("docs", urls(1)), lambda: service.ingest("docs", iter(()))):
        with pytest.raises(Overloaded):
            refuse()
    service.ask(GateRequest(query="an agent passes by another way"))
    assert [run.kind for run in context.ledger.runs()] == ["gate", "documents"]
    assert sorted(context.settings.data_dir.rglob("blobs/**/*")) == blobs


def test_a_feeder_larger_than_the_limit_is_taken_when_nothing_waits(make_parts: MakeParts) -> None:
    context = make_parts(delivery={"max_ready_events": 2})
    documents = [document_of(n, SubmittedDocument(id=str(n), text="word"), NOW) for n in range(300)]
    run_id = Service(context).ingest("docs", iter(documents)).run_id
    assert len(context.ledger.events_of_kind(run_id, "DocumentsSubmitted")) == 5


def test_a_session_is_paid_before_it_is_read_and_a_question_is_never_refused(make_parts: MakeParts) -> None:
    paid = {"provider": "openai", "openai_usd_per_million_tokens": 1_000.0}
    context = make_parts(embed=paid, budget={"run_usd": 0.05})
    service = Service(context)
    session = (Message(role="user", content="thirty bytes make ten tokens."),)
    run_id = service.ask(GateRequest(query="q", session=session)).run_id
    assert context.ledger.budget_left(run_id).run.usd == pytest.approx(0.05 - 10 * 0.001)
    with pytest.raises(BudgetExhausted, match="usd"):
        service.ask(GateRequest(query="q", session=session * 6))
    service.ask(GateRequest(query="q", limits=Limits(max_usd=0)))


def test_the_local_model_reserves_tokens_only_where_they_are_counted(make_parts: MakeParts) -> None:
    session = (Message(role="user", content="a word"),)
    counting = make_parts(budget={"run_tokens": 100})
    run_id = Service(counting).ask(GateRequest(query="q", session=session)).run_id
    assert counting.ledger.budget_left(run_id).run.tokens == 100 - 4
    heedless = make_parts()
    assert heedless.embedding.reserve(["a word"], "default", heedless.ledger.budget_left(run_id)) == Spend(tokens=4)
    run_id = Service(heedless).ask(GateRequest(query="q", session=session)).run_id
    assert heedless.embedding.reserve(["a word"], "default", heedless.ledger.budget_left(run_id)) == Spend()


def test_a_cancelled_run_holds_nothing_and_is_cancelled_once(make_parts: MakeParts) -> None:
    context = make_parts(crawl=CRAWLING)
    service = Service(context)
    run_id = service.crawl("docs", urls(4)).run_id
    context.ledger.claim_next("crawl", "w1", 10.0)
    assert service.cancel(run_id)
    view, left = context.ledger.run(run_id), context.ledger.budget_left(run_id)
    assert (view.status, view.open_events, left.run.pages, left.run.bytes) == ("cancelled", 0, 4, 8_000_000)
    assert not service.cancel(run_id)
    with pytest.raises(NotFound):
        service.cancel("run_unknown")


@pytest.mark.own_broker
def test_a_run_can_be_cancelled_while_no_broker_is_there(make_parts: MakeParts, valkey: Valkey) -> None:
    context = make_parts(crawl=CRAWLING)
    run_id = Service(context).crawl("docs", urls(1)).run_id
    valkey.kill()
    assert Service(context).cancel(run_id)
    (context.settings.data_dir / "broker.url").unlink()
    alone = make_parts(crawl=CRAWLING)
    run_id = Service(context).crawl("docs", urls(1)).run_id
    assert Service(alone).cancel(run_id)
    assert context.ledger.run(run_id).status == "cancelled"
