"""The row of a gate run in `outcomes`: written by the transaction that records what it says.

1. The transaction that records `GateDecided` inserts it.
2. The one that ends the run completes it.
3. The one that settles a `FeedbackGiven` puts in what was said, all that was said of the run anew.

So it is never half written; and it follows from the run's events, from which `derive` makes it again.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Executable, and_, bindparam, case, delete, func, insert, or_, select, update

from sluice.contracts.budget import Spend
from sluice.contracts.document import document_id_for
from sluice.contracts.event import Event, decode
from sluice.contracts.gate import CoverageProbed, FeedbackGiven, GateDecided
from sluice.contracts.index import AnswerReady, RunFinished
from sluice.contracts.ingest import CrawlDirected, PageCrawled, PageUnchanged, SearchDirected
from sluice.ledger.events.reservations import amounts_of
from sluice.ledger.learning.cited_ages import CitedAges, cited_ages, own_documents
from sluice.ledger.schema.learning_tables import outcomes
from sluice.ledger.schema.tables import AnyRow, events, runs
from sluice.ledger.schema.upsert import insert_once
from sluice.ledger.transaction import Transaction

_COUNTED = (SearchDirected.kind, CrawlDirected.kind, PageCrawled.kind, PageUnchanged.kind, FeedbackGiven.kind)
_OF_RUN = events.c.run_id == bindparam("of_run")
_IS_DONE = or_(
    and_(events.c.status == "settled", events.c.settled_at <= bindparam("moment")), events.c.status == "dead"
)
_COUNT = (
    select(events.c.kind, func.count().label("recorded"), func.sum(case((_IS_DONE, 1), else_=0)).label("done"))
    .where(_OF_RUN, events.c.kind.in_(_COUNTED), events.c.created_at <= bindparam("moment"))
    .group_by(events.c.kind)
)
_OF_KIND = (
    select(events.c.payload, events.c.created_at)
    .where(_OF_RUN, events.c.kind == bindparam("of_kind"))
    .order_by(events.c.seq)
)
_FIRST_OF_KIND = _OF_KIND.limit(1)
_SAID = _OF_KIND.where(events.c.status == "settled")
_RUN = select(runs).where(runs.c.run_id == bindparam("of_run"))
_DROP = delete(outcomes).where(outcomes.c.run_id == bindparam("of_run"))
_INSERT = insert(outcomes)


def note_decided(connection: Transaction, run: AnyRow, decided: GateDecided, now: float) -> None:
    """A gate run was decided. A second time changes nothing."""
    insert_once(connection, outcomes, _decided(run, decided, now, now))


def note_finished(
    connection: Transaction, run: AnyRow, status: str, ready: AnswerReady | None, spend: Spend, now: float
) -> None:
    """A gate run ends now, with this answer or none. One that was never decided has no row."""
    connection.execute(_UPDATE_ENDED, {"of_run": run.run_id, **_ended(connection, run, status, ready, spend, now, now)})


def note_feedback(connection: Transaction, run_id: str, now: float) -> None:
    """Feedback on a run was settled: its row says all of what was said."""
    connection.execute(_UPDATE_SAID, {"of_run": run_id, "new_changed_at": now, **_said(connection, run_id)})


def drop_outcome(connection: Transaction, run_id: str) -> None:
    """Forget what became of a run."""
    connection.execute(_DROP, {"of_run": run_id})


def derive(connection: Transaction, run_id: str, now: float) -> bool:
    """Make the row of a run again from its events; False where the run has none, since it was not decided."""
    drop_outcome(connection, run_id)
    run = connection.execute(_RUN, {"of_run": run_id}).first()
    decided = connection.execute(_FIRST_OF_KIND, {"of_run": run_id, "of_kind": GateDecided.kind}).first()
    if run is None or decided is None:
        return False
    row = _decided(run, decode(decided.payload).body_as(GateDecided), decided.created_at, now)
    finished = _first(connection, run_id, RunFinished.kind)
    if finished is None:
        said = _said(connection, run_id)
        row |= {name.removeprefix("new_"): value for name, value in said.items()}
    else:
        end, answered = finished.body_as(RunFinished), _first(connection, run_id, AnswerReady.kind)
        ready = answered.body_as(AnswerReady) if answered else None
        ended = _ended(connection, run, end.status, ready, end.spend, run.finished_at, now)
        row |= {name.removeprefix("new_"): value for name, value in ended.items()}
    connection.insert(_INSERT, row)
    return True


def _decided(run: AnyRow, decided: GateDecided, decided_at: float, now: float) -> dict[str, Any]:
    """`decided_at` is when the decision was recorded: so rows come in about the order of that column."""
    control = decided.control
    model = control.model if control else None
    return {
        "run_id": run.run_id,
        "corpus": run.corpus,
        "profile": decided.profile,
        "plan": decided.plan.value,
        "config_hash": decided.config_hash,
        "model_version": model.version if model else None,
        "arm": model.arm if model else None,
        "propensity": model.propensity if model else 1.0,
        "bucket": model.bucket if model else None,
        "flags": ",".join(sorted(control.flags_off)) if control else "",
        "is_trickle": int(control.is_trickle) if control else 0,
        "is_stepped_back": int(bool(control.defences) and not control.is_trickle) if control else 0,
        "decided_at": decided_at,
        "changed_at": now,
    }


def _ended(
    connection: Transaction,
    run: AnyRow,
    status: str,
    ready: AnswerReady | None,
    spend: Spend,
    finished_at: float,
    now: float,
) -> dict[str, Any]:
    """What is known at the end of a run, by the names of the update's parameters."""
    recorded: Mapping[str, int]
    recorded, done = defaultdict(int), defaultdict(int)
    for row in connection.execute(_COUNT, {"of_run": run.run_id, "moment": finished_at}):
        recorded[row.kind], done[row.kind] = int(row.recorded), int(row.done)
    asked = done[CrawlDirected.kind]
    ages = _ages(connection, run.run_id, ready, recorded[PageUnchanged.kind], finished_at)
    said = _said(connection, run.run_id) if recorded[FeedbackGiven.kind] else _NOTHING_SAID
    chunks, checks = (ready.answer.chunks, ready.answer.checks) if ready else ((), ())
    return {
        "new_finished_at": finished_at,
        "new_status": status,
        "new_spent_nanousd": amounts_of(spend)["nanousd"],
        "new_tokens": spend.tokens + sum(chunk.token_estimate for chunk in chunks),
        "new_milliseconds": max(0.0, finished_at - run.created_at) * 1e3,
        "new_external_calls": done[SearchDirected.kind] + asked,
        "new_pages_asked": asked,
        "new_pages_read": recorded[PageCrawled.kind] + recorded[PageUnchanged.kind],
        "new_cited": len(chunks),
        "new_failed_checks": sum(check.severity == "P0" and not check.passed for check in checks),
        "new_cited_age_seconds": ages.with_crawl,
        "new_cited_age_without_crawl_seconds": ages.without_crawl,
        "new_changed_at": now,
        **said,
    }


def _ages(
    connection: Transaction, run_id: str, ready: AnswerReady | None, unchanged_count: int, finished_at: float
) -> CitedAges:
    if ready is None or not ready.unseen_seconds:
        return CitedAges()
    unchanged: set[str] = set()
    if unchanged_count:
        pages = connection.execute(_OF_KIND, {"of_run": run_id, "of_kind": PageUnchanged.kind})
        unchanged = {document_id_for(decode(row.payload).body_as(PageUnchanged).final_url) for row in pages}
    own = own_documents(ready, run_id, unchanged)
    probed = _first(connection, run_id, CoverageProbed.kind) if own else None
    hits = probed.body_as(CoverageProbed).hits if probed else ()
    return cited_ages(ready, own, hits, datetime.fromtimestamp(finished_at, UTC))


_NOTHING_SAID: dict[str, Any] = {"new_signals": "{}", "new_used": None, "new_judged_at": None}


def _said(connection: Transaction, run_id: str) -> dict[str, Any]:
    """All feedback of a run: the mean of each signal, how many chunks were used, when the first of it came."""
    values: dict[str, list[float]] = defaultdict(list)
    used: set[str] = set()
    judged_at: float | None = None
    for row in connection.execute(_SAID, {"of_run": run_id, "of_kind": FeedbackGiven.kind}):
        feedback = decode(row.payload).body_as(FeedbackGiven)
        used.update(feedback.chunk_ids_used)
        if feedback.value is not None:
            values[feedback.signal].append(feedback.value)
            judged_at = row.created_at if judged_at is None else min(judged_at, row.created_at)
    means = {signal: sum(values[signal]) / len(values[signal]) for signal in sorted(values)}
    return {"new_signals": json.dumps(means), "new_used": len(used) or None, "new_judged_at": judged_at}


def _first(connection: Transaction, run_id: str, kind: str) -> Event | None:
    row = connection.execute(_FIRST_OF_KIND, {"of_run": run_id, "of_kind": kind}).first()
    return None if row is None else decode(row.payload)


def _update(*names: str) -> Executable:
    changes: dict[str, Any] = {name: bindparam(f"new_{name}") for name in names}
    return update(outcomes).where(outcomes.c.run_id == bindparam("of_run")).values(**changes)


_UPDATE_SAID = _update("signals", "used", "judged_at", "changed_at")
_UPDATE_ENDED = _update(
    "finished_at",
    "status",
    "spent_nanousd",
    "tokens",
    "milliseconds",
    "external_calls",
    "pages_asked",
    "pages_read",
    "cited",
    "cited_age_seconds",
    "cited_age_without_crawl_seconds",
    "failed_checks",
    "changed_at",
    "signals",
    "used",
    "judged_at",
)
