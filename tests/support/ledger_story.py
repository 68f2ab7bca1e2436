"""The words that the ledger's tests are told in."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import text

from sluice.contracts.budget import Ceilings
from sluice.contracts.event import Body, Done, Event, Next, Outcome, Queue, new_run_id
from sluice.contracts.gate import GateRequested
from sluice.contracts.index import Answer, AnswerReady, Citation, StaleCitation
from sluice.contracts.ingest import CrawlDirected
from sluice.contracts.plan import Plan
from sluice.ledger.ledger import Claim, Ledger, NewRun, NotClaimed, Settled
from sluice.ledger.schema.migrate import schema_version
from sluice.ledger.schema.tables import versions
from tests.support.evaluation_samples import chunk
from tests.support.postgresql import empty_schema, empty_tables, new_database

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

    def claims(self, event: Event, worker: str = "w1") -> Claim:
        """A claim of this event, which is put first in line."""
        assert event.queue is not None
        with self.ledger.database.writing() as connection:
            connection.execute(text("UPDATE events SET priority = -1 WHERE id = :id"), {"id": event.id})
        claim = self.ledger.claim_next(event.queue, worker, 10.0)
        assert isinstance(claim, Claim), claim
        assert claim.event.id == event.id
        return claim

    def finds_nothing(self, queue: Queue = "crawl") -> str:
        """Why a claim gets nothing."""
        claim = self.ledger.claim_next(queue, "prober", 10.0)
        assert isinstance(claim, NotClaimed), claim
        return claim.reason

    def handles(self, event: Event, outcome: Outcome, **facts: int) -> Settled:
        """One claim and its settling."""
        return self.ledger.settle(self.claims(event), outcome, **facts)  # type: ignore[arg-type]

    def statuses(self, event: Event) -> str:
        """How the event stands."""
        return str(self.ledger.standing(event.id))


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


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def dialect(request: pytest.FixtureRequest) -> str:
    """Where the ledger of a test is kept: each test of the ledger runs in a SQLite file and on PostgreSQL."""
    return str(request.param)


@pytest.fixture
def ledger_url(request: pytest.FixtureRequest, dialect: str, tmp_path: Path) -> str:
    """The URL of an empty database."""
    if dialect == "sqlite":
        return f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    return empty_schema(request.getfixturevalue("postgresql_cluster"))


@pytest.fixture
def new_ledger_url(request: pytest.FixtureRequest, dialect: str, tmp_path: Path) -> str:
    """The URL of a new ledger, which is installed once for all tests: a copy of a file, or tables that are emptied."""
    if dialect == "sqlite":
        template = request.getfixturevalue("sqlite_template")
        return f"sqlite:///{shutil.copy(template, tmp_path / 'ledger.sqlite')}"
    url: str = request.getfixturevalue("postgresql_ledger")
    empty_tables(url, then=f"INSERT INTO {versions.name} (version) VALUES ({schema_version()})")
    return url


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new ledger in a file."""
    file = tmp_path_factory.mktemp("ledger") / "ledger.sqlite"
    Ledger(f"sqlite:///{file}").close()
    return file


@pytest.fixture(scope="session")
def postgresql_ledger(postgresql_cluster: str) -> str:
    """The URL of a ledger in a database of its own."""
    url = new_database(postgresql_cluster)
    Ledger(url).close()
    return url


@pytest.fixture
def story(new_ledger_url: str, clock: Clock) -> Iterator[Story]:
    with Ledger(new_ledger_url, clock=clock) as ledger:
        yield Story(ledger, clock, new_ledger_url)


STALE = StaleCitation(
    citation=1, chunk_id="a", document_id="doc", what="changed", changed_at=datetime(2031, 5, 6, tzinfo=UTC)
)


def answered(ledger: Ledger) -> str:
    """A finished run whose answer cites the chunk `a`."""
    run_id = new_run_id()
    event = Event.of(GateRequested(query="what is a lease?"), run_id=run_id, corpus="docs")
    ledger.create_run(NewRun(run_id, "gate", "docs", "0" * 64), [(event, Next(event.body))])
    claim = ledger.claim_next("query", "w1", 10.0)
    assert isinstance(claim, Claim)
    cited = Citation(number=1, chunk_id="a", source="doc:1-2", match=1.0)
    given = answer().answer.model_copy(update={"chunks": (chunk("a", "doc"),), "citations": (cited,)})
    ledger.settle(claim, Done((Next(AnswerReady(answer=given, duration_ms=1.0)),)))
    return run_id
