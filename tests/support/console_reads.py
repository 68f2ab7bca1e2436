"""The reads of the pages that people look at: each is asked for its plan by a test, and timed by a bench."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from sluice.contracts.operations.actions import ActionPage
from sluice.contracts.operations.dead_letters import DeadLetterPage
from sluice.contracts.operations.quarantine import QuarantinePage
from sluice.ledger.ledger import Ledger
from tests.support.ledger_story import NOON

OF_OPEN_WORK = ("events_due", "events_open", "events_ready", "events_in_lane", "runs_retrying")
"""Partial indices that hold only work in hand: reading one whole costs what there is to do."""
GROWS = ("attempts", "audit", "dead_letters", "events", "operator_actions", "outcomes", "quarantine", "runs")
"""Tables that grow with what was done; the others hold as many rows as people made."""


def some_run(ledger: Ledger) -> str:
    return ledger.runs(limit=1)[0].run_id


def _minute(ledger: Ledger) -> int:
    return int(ledger.clock() // 60)


RUN, EVENT = "run_0199c0ffee00aaaaaaaaaaaaaaaa", "evt_0199c0ffee00aaaaaaaaaaaaaaaa"
NOW = datetime.fromtimestamp(NOON, UTC)
READS: dict[str, Callable[[Ledger], object]] = {
    "runs": lambda ledger: ledger.runs(),
    "runs, a later page": lambda ledger: ledger.runs(before=RUN),
    "open runs": lambda ledger: ledger.runs(unfinished=True, before=RUN),
    "open runs of a caller with three corpora": lambda ledger: ledger.runs(unfinished=True, corpora={"a", "b", "c"}),
    "runs by status": lambda ledger: ledger.runs(status="failed"),
    "runs by owner": lambda ledger: ledger.runs(owner="key_1", before=RUN),
    "runs by corpus": lambda ledger: ledger.runs(corpus="docs"),
    "runs by owner and status": lambda ledger: ledger.runs(owner="key_1", status="failed"),
    "runs of a kind": lambda ledger: ledger.runs(kind="crawl"),
    "runs that retry": lambda ledger: ledger.runs(retrying=True, before=RUN),
    "runs of a day": lambda ledger: ledger.runs(since=NOW, until=NOW),
    "runs with words": lambda ledger: ledger.runs(text="lease ends", before=RUN),
    "failed runs with words": lambda ledger: ledger.runs(text="lease is", status="failed", owner="a", corpora={"docs"}),
    "a run by its id": lambda ledger: ledger.runs(text=RUN[:12]),
    "the run of an event": lambda ledger: ledger.runs(text=EVENT),
    "one run": lambda ledger: ledger.run(some_run(ledger)),
    "a run's events": lambda ledger: ledger.events_after(RUN),
    "a run's events by kind": lambda ledger: ledger.count_kinds(RUN),
    "a run's attempts": lambda ledger: ledger.attempts(RUN),
    "a run's timeline": lambda ledger: ledger.run_record(some_run(ledger)),
    "a run's open work": lambda ledger: ledger.open_by_queue(RUN),
    "a run's letters": lambda ledger: ledger.dead_letters.list(DeadLetterPage(run_id=RUN)),
    "stages": lambda ledger: ledger.stages(),
    "pauses": lambda ledger: ledger.paused(),
    "overview": lambda ledger: ledger.glances.look(),
    "wanted pools": lambda ledger: ledger.pool_sizes.all(),
    "stages of an hour, by the minute": lambda ledger: ledger.stage_minutes.figures(_minute(ledger) - 60, 1),
    "stages of a week, by the hour": lambda ledger: ledger.stage_minutes.figures(_minute(ledger) - 7 * 1_440, 60),
    "spend of today": lambda ledger: ledger.used_today(),
    "groups of letters": lambda ledger: ledger.dead_letters.groups(),
    "letters": lambda ledger: ledger.dead_letters.list(),
    "letters alike": lambda ledger: ledger.dead_letters.list(DeadLetterPage(fingerprint="f" * 16)),
    "letters of a corpus": lambda ledger: ledger.dead_letters.list(DeadLetterPage(corpora=("docs",))),
    "one letter": lambda ledger: ledger.dead_letters.show(ledger.dead_letters.list()[0].id),
    "replays": lambda ledger: ledger.replays.latest(),
    "who did what": lambda ledger: ledger.console.actions(ActionPage()),
    "what one did": lambda ledger: ledger.console.actions(ActionPage(operator="key_1")),
    "what one did, a later part": lambda ledger: ledger.console.actions(ActionPage(operator="key_1", cursor="9")),
    "what was done of a kind": lambda ledger: ledger.console.actions(ActionPage(action="flag_off")),
    "what was done to one": lambda ledger: ledger.console.actions(ActionPage(subject="flag:crawl")),
    "plans by the hour": lambda ledger: ledger.outcomes.plans_by_hour(0.0),
    "held chunks of a corpus": lambda ledger: ledger.quarantine.list(QuarantinePage(corpora=("docs",))),
    "held chunks of a corpus, counted": lambda ledger: ledger.quarantine.count(QuarantinePage(corpora=("docs",)), 9),
    "held chunks": lambda ledger: ledger.quarantine.list(QuarantinePage()),
    "backlog of a tenant": lambda ledger: ledger.tenant_backlog("crawl", 1, "key:a"),
}
