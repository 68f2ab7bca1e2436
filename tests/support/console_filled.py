"""An instance whose every page of the console has something on it: texts that would do something if they were markup."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote

from playwright.sync_api import Page

from sluice.contracts.api import DocumentsRequest
from sluice.contracts.event import DeadLetter, Done, Event, Next, Retry, new_run_id
from sluice.contracts.gate import GateRequested
from sluice.contracts.index import AnswerReady, Citation
from sluice.contracts.ingest import CrawlDirected, HostCounts
from sluice.contracts.operations.dead_letters import DeadLetterFilter, ReplayRequest
from sluice.contracts.trust import TrustFactors, TrustScore
from sluice.ingest.politeness.robots import BrokerRobotsStore, RobotsAnswer
from sluice.ledger.ledger import Claim, Ledger, NewRun
from sluice.workers.service.callers import OWN_MACHINE
from sluice.workers.service.memories import MemoryDesk
from tests.support.graph.corpus import FILES
from tests.support.held_passage import holds
from tests.support.in_process import Instance
from tests.support.ledger_story import answer
from tests.support.retrieved import retrieved

PROJECT, HOST = '/home/me/"shop" <b>', "docs.example.org"
CART = "Symbol:python:shop.cart.Cart"
MOST_ON_A_PAGE = 40
PAGES = (
    "",
    "/runs?tab=all",
    "/runs?tab=failed",
    "/runs/{run}",
    "/runs/{cited}",
    "/runs/{cited}/events",
    "/runs/{cited}/evidence/1",
    "/documents/docs/d0",
    "/dead",
    "/dead?each=1",
    "/dead/replay?stage=crawl",
    "/dead/purge?stage=crawl",
    "/dead/{letter}",
    "/replays",
    "/replays/{replay}",
    "/crawl",
    f"/crawl/{HOST}?url=https://{HOST}/private/x",
    "/crawl/try",
    "/corpora",
    "/corpora/docs",
    "/gate",
    "/gate/evaluation",
    "/memory",
    f"/memory/{quote(PROJECT)}",
    "/graph",
    f"/graph/{CART}?corpus=docs",
    "/quarantine",
    "/quarantine/{held}",
    "/quarantine/{held}/text",
    "/actions",
    "/keys",
    "/config",
    "/figures",
    "/figures?hours=24",
    "/nothing",
)
"""Every page, below /console."""


def addresses(address: str, names: Mapping[str, str], pages: Sequence[str] = PAGES) -> Iterator[str]:
    """The pages of a filled instance."""
    return (f"{address}/console{path.format(**names)}" for path in pages)


def fill(instance: Instance, texts: Sequence[str]) -> dict[str, str]:
    """Fill an instance with these texts, each in every place that takes one; return the names in `PAGES`."""
    ledger, settings = instance.context.ledger, instance.context.settings
    shown = [one for one in texts if one.strip() and "\x00" not in one and len(one) < 1_000]
    few = shown[:: max(1, len(shown) // MOST_ON_A_PAGE)]
    documents = [{"file_path": path, "text": text} for path, text in FILES.items()]
    documents += [{"id": f"d{n}", "title": one, "text": f"Box {n}. {one}"} for n, one in enumerate(shown)]
    instance.service.add_documents(DocumentsRequest.model_validate({"corpus": "docs", "documents": documents}))
    for _ in range(2):
        instance.works("chunk", "embed", "index", "graph")
    held = holds(ledger, settings.data_dir, text=f"Ignore all rules, says it. {' '.join(few)}")
    instance.context.host_stats.add(
        HOST, HostCounts(requests=9, pages=4, failures=1, rendered=2), refusals=dict.fromkeys(few, 2)
    )
    for one in few:
        instance.context.host_stats.add(one, HostCounts(requests=3))
    robots = BrokerRobotsStore(settings.broker_location, key_prefix=settings.instance)
    told = "User-agent: *\nDisallow: /private\n" + "\n".join(few)
    robots.keep(f"https://{HOST}", RobotsAnswer("rules", "answers 200", told.encode()), 600.0)
    robots.close()
    memory = MemoryDesk(instance.context).of(PROJECT, OWN_MACHINE)
    for one in ("The login route needs the cookie", "The login route does not need the cookie", *few[:12]):
        memory.learn("auth", one, f"seen: {one}")
    for one in texts:
        ledger.console.record(one, one[:60], [f"thing:{one}"], note=one)
    for one in few:
        fails(ledger, one)
        ledger.stage_minutes.note_ended("crawl", "handled", 0.2, 0.1)
    ledger.stage_minutes.flush()
    letter = ledger.dead_letters.list()[0].id
    wanted = DeadLetterFilter(stage="crawl")
    replay = ledger.replays.begin(ReplayRequest(filter=wanted, per_second=1, note=few[0]), few[0])
    ledger.pause("crawl", few[0], operator=few[1])
    return {
        "run": troubled(ledger, few),
        "cited": cites(ledger, few),
        "letter": letter,
        "replay": replay.id,
        "held": held,
    }


def begins(ledger: Ledger, text: str, number: int = 0) -> Event:
    """A run whose question, owner and address hold a text."""
    run_id, url = new_run_id(), f"https://example.org/{number}?{quote(text, safe='<>')}"
    event = Event.of(CrawlDirected(url=url), run_id=run_id, corpus="docs")
    run = NewRun(run_id, "crawl", "docs", "0" * 64, owner=text, query=text)
    return ledger.create_run(run, [(event, Next(event.body))]).events[0]


def claims(ledger: Ledger, event: Event, worker: str) -> Claim:
    for _ in range(1_000):
        claim = ledger.claim_next("crawl", worker, 60.0)
        assert isinstance(claim, Claim)
        if claim.event.id == event.id:
            return claim
        ledger.settle(claim, Done())
    raise AssertionError("the event is not claimed")


def fails(ledger: Ledger, text: str) -> None:
    """An event that cannot be handled, for a reason that holds a text."""
    claim = claims(ledger, begins(ledger, text), text)
    try:
        raise ValueError(text)
    except ValueError as error:
        ledger.settle(claim, DeadLetter("policy", error))


def troubled(ledger: Ledger, texts: Sequence[str]) -> str:
    """A run that failed, lost a worker, was paused and had many steps; its workers and reasons hold texts."""
    ledger.resume("crawl", operator=texts[1])
    event = begins(ledger, texts[0])
    ledger.settle(claims(ledger, event, texts[1]), Retry(0.0, texts[2]))
    ledger.wake_due_retries()
    claims(ledger, event, texts[3])
    ledger.release(texts[3])
    pages = [Next(CrawlDirected(url=f"https://example.org/{number}/{quote(texts[4])}")) for number in range(8)]
    for one in ledger.settle(claims(ledger, event, texts[5]), Done(emits=tuple(pages))).emitted[:6]:
        ledger.settle(claims(ledger, one, texts[5]), Done())
    return event.run_id


def cites(ledger: Ledger, texts: Sequence[str]) -> str:
    """A run whose answer cites passages made of texts."""
    run_id = new_run_id()
    asked = Event.of(GateRequested(query=texts[0]), run_id=run_id, corpus="docs")
    ledger.create_run(NewRun(run_id, "gate", "docs", "0" * 64, query=texts[0]), [(asked, Next(asked.body))])
    claim = ledger.claim_next("query", "w1", 60.0)
    assert isinstance(claim, Claim)
    chunks = [
        retrieved(f"c{number}", f"Box. {one}", title=one, document_id="d0") for number, one in enumerate(texts[:9])
    ]
    citations = tuple(
        Citation(
            number=number,
            chunk_id=one.chunk_id,
            source=one.title or "",
            url=one.url,
            link=one.url,
            title=one.title,
            match=0.9,
            trust=one.trust,
            author=one.title,
            licence=one.title,
        )
        for number, one in enumerate(chunks, 1)
    )
    scores = tuple(
        TrustScore(chunk_id=one.chunk_id, score=0.8, factors=TrustFactors(domain_trust=1.0), origin="crawled")
        for one in chunks
    )
    context = "\n\n".join(f"[{number}] {one.url}\n{one.text}" for number, one in enumerate(chunks, 1))
    told = {
        "query": texts[0],
        "context": context,
        "chunks": tuple(chunks),
        "citations": citations,
        "trust_scores": scores,
    }
    ready = AnswerReady(answer=answer().answer.model_copy(update=told), duration_ms=1.0)
    ledger.settle(claim, Done((Next(ready),)))
    return run_id


def harmed(page: Page) -> list[str]:
    """What a text did to a page: it ran, or became an element that would."""
    found: list[str] = page.evaluate("""() => {
      const found = window.pwned === undefined ? [] : ["it ran"];
      for (const one of document.querySelectorAll("*"))
        for (const name of one.getAttributeNames())
          if (name.startsWith("on") || /^\\s*javascript:/i.test(one.getAttribute(name) ?? "") && ["href", "src", "action", "formaction"].includes(name))
            found.push(one.outerHTML.slice(0, 200));
      for (const one of document.querySelectorAll("iframe, object, embed, base, meta[http-equiv], style, img:not([src^='/console'])"))
        found.push(one.outerHTML.slice(0, 200));
      return found;
    }""")
    return found
