"""Gate runs that are asked, decided, crawl, answer and hear what became of them, on a ledger under test."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from sluice.contracts.budget import Spend
from sluice.contracts.document import Provenance, document_id_for
from sluice.contracts.event import Done, Event, Next
from sluice.contracts.gate import BudgetState, CoverageProbed, FeedbackGiven, GateDecided, PolicyState, ProbeHit
from sluice.contracts.index import AnswerDirected, AnswerReady
from sluice.contracts.ingest import CrawlDirected
from sluice.contracts.learning.control import Control
from sluice.contracts.plan import Plan
from tests.support.ledger_story import Story, answer
from tests.support.retrieved import retrieved

CONFIG = "c" * 64


def moment(story: Story) -> datetime:
    return datetime.fromtimestamp(story.clock.now, UTC)


def hit(url: str, seen_at: datetime) -> ProbeHit:
    return ProbeHit(chunk_id=f"{url}-1", document_id=document_id_for(url), url=url, fetched_at=seen_at)


def decided(story: Story, plan: Plan = Plan.FULL_LOOP, control: Control | None = None) -> GateDecided:
    return GateDecided(
        plan=plan,
        scored_plan=plan,
        score=0.5,
        threshold_search=0.3,
        threshold_full_loop=0.6,
        contributions=(),
        intent="fact",
        profile="default",
        profile_version=1,
        config_hash=CONFIG,
        policy=PolicyState(search_allowed=True, crawl_allowed=True),
        budget=BudgetState(),
        control=control,
        decided_at=moment(story),
    )


def asks_and_decides(
    story: Story,
    plan: Plan = Plan.RETRIEVE,
    *,
    hits: Sequence[ProbeHit] = (),
    crawls: Sequence[str] = (),
    control: Control | None = None,
    asked: Event | None = None,
) -> tuple[Event, ...]:
    """A run (a new one, or that of `asked`) that was decided so; what that transaction emitted, the decision first."""
    asked = asked or story.asks()
    probe = CoverageProbed(generation="g1", model_fingerprint="m", hits=tuple(hits), probed_at=moment(story))
    probed = story.handles(asked, Done((Next(probe),))).emitted[0]
    directed = [Next(CrawlDirected(url=url)) for url in crawls]
    return story.handles(probed, Done((Next(decided(story, plan, control)), *directed))).emitted


def cites(urls: dict[str, float], own: Sequence[str] = (), run_id: str = "run_0", **changes: object) -> AnswerReady:
    """An answer that cites these pages, of these ages in seconds; `own` were brought by the run itself."""
    chunks = tuple(
        retrieved(
            f"{url}-1",
            document_id=document_id_for(url),
            url=url,
            token_estimate=100,
            provenance=Provenance(
                source="crawl",
                fetched_at=datetime(2026, 1, 1, tzinfo=UTC),
                run_id=run_id if url in own else "run_before",
            ),
        )
        for url in urls
    )
    given = answer().answer.model_copy(update={"chunks": chunks})
    return AnswerReady(answer=given, duration_ms=1.0, unseen_seconds=tuple(urls.values()), **changes)  # type: ignore[arg-type]


def answers(story: Story, closing: Event, ready: AnswerReady, spend: Spend | None = None) -> None:
    """The run's `AnswerDirected` is handled with this answer."""
    assert isinstance(closing.body, AnswerDirected)
    story.handles(closing, Done((Next(ready),), spend=spend or Spend()))


def says(story: Story, run_id: str, owner: str = "agent", **fields: object) -> Event:
    """Feedback is recorded, not yet settled."""
    body = FeedbackGiven.model_validate(fields)
    event = Event.of(body, run_id=run_id, corpus="docs")
    key = f"feedback-of:{owner}" + ("" if body.signal == "task_satisfaction" else f":{body.signal}")
    assert story.ledger.add_event(event, dedupe_key=key)
    return event


def days(count: float) -> timedelta:
    return timedelta(days=count)
