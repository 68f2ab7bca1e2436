"""The words that the ledger's tests are told in."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from contracts.budget import Ceilings
from contracts.event import Body, Event
from contracts.gate import GateRequested, Plan
from contracts.ids import new_run_id
from contracts.index import Answer, AnswerReady
from contracts.ingest import CrawlDirected
from contracts.outcome import Next, Outcome
from workers.ledger import Claim, Ledger, NewRun, Settled

NOON = datetime(2031, 5, 6, 12, tzinfo=UTC).timestamp()


@dataclass
class Clock:
    """Time that passes when a test says so."""

    now: float = NOON

    def __call__(self) -> float:
        return self.now

    def passes(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class Story:
    """A ledger under test, and the sentences that tests are told in."""

    ledger: Ledger
    clock: Clock
    url: str
    published: list[Event] = field(default_factory=list)

    def begins(
        self, *bodies: Body | Next, kind: str = "crawl", ceilings: Ceilings | None = None, **facts: object
    ) -> tuple[Event, ...]:
        """A new run with these first events."""
        run_id = new_run_id()
        first = [body if isinstance(body, Next) else Next(body) for body in bodies]
        events = [(Event.of(n.body, run_id=run_id, corpus="docs"), n) for n in first]
        facts = {"request_sha256": "0" * 64, **facts}
        run = NewRun(run_id=run_id, kind=kind, corpus="docs", ceilings=ceilings or Ceilings(), **facts)  # type: ignore[arg-type]
        return self.ledger.create_run(run, events).events

    def asks(self, query: str = "what is a lease?", **facts: object) -> Event:
        """A gate run with its first event."""
        return self.begins(GateRequested(query=query), kind="gate", query=query, **facts)[0]

    def claims(self, event: Event, worker: str = "w1", max_deliveries: int = 3) -> Claim:
        """A claim that must succeed."""
        claim = self.ledger.claim(event.id, worker, 10.0, max_deliveries)
        assert isinstance(claim, Claim), claim
        return claim

    def handles(self, event: Event, outcome: Outcome, **facts: int) -> Settled:
        """One claim and its settling."""
        return self.ledger.settle(self.claims(event), outcome, **facts)  # type: ignore[arg-type]

    def statuses(self, event: Event) -> str:
        """What a further claim would hear."""
        return getattr(self.ledger.claim(event.id, "prober", 10.0, 3), "reason", "claimed")


def page(number: int = 1) -> CrawlDirected:
    return CrawlDirected(url=f"https://example.org/{number}")


def answer(query: str = "what is a lease?") -> AnswerReady:
    given = Answer(
        query=query,
        corpus="docs",
        plan=Plan.RETRIEVE,
        generation="g1",
        journal_offset=0,
        context="A lease ends. [1]",
        citations=(),
        chunks=(),
    )
    return AnswerReady(answer=given, duration_ms=1.0)
