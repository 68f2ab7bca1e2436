"""The row of a gate run in `outcomes`: written by the transaction that records the underlying event.

1. The transaction that records `GateDecided` inserts it; a second decision replaces the first.
2. The one that ends the run completes it.
3. The one that settles a `FeedbackGiven` recomputes its feedback columns from all feedback on the run.

So it is never half written; and it follows from the run's events, from which `derive` rebuilds it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import and_, bindparam, case, func, or_, select

from sluice.contracts.budget import Spend
from sluice.contracts.document import document_id_for
from sluice.contracts.event import Event, decode
from sluice.contracts.gate import CoverageProbed, FeedbackGiven, GateDecided, ProbeHit
from sluice.contracts.index import AnswerReady, RunFinished
from sluice.contracts.ingest import CrawlDirected, PageCrawled, PageUnchanged, SearchDirected
from sluice.ledger.events.reservations import amounts_of
from sluice.ledger.schema.tables import AnyRow, api_keys, events, moment, outcomes, runs
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
    select(events.c.payload, events.c.created_at, events.c.dedupe_key)
    .where(_OF_RUN, events.c.kind == bindparam("of_kind"))
    .order_by(events.c.seq)
)
_FIRST_OF_KIND = _OF_KIND.limit(1)
_SAID = _OF_KIND.where(events.c.status == "settled")


def note_decided(connection: Transaction, run: AnyRow, decided: GateDecided, now: float) -> None:
    """Insert the row of a gate run at its decision, or write its second decision over the first."""
    row = _decided(run, decided, now, now)
    connection.put(outcomes, row, ("run_id",), tuple(row))


def note_finished(
    connection: Transaction, run: AnyRow, status: str, ready: AnswerReady | None, spend: Spend, now: float
) -> None:
    """Complete the row of a gate run that ends now, with this answer or none. An undecided run has no row."""
    connection.update(outcomes, {"run_id": run.run_id}, _ended(connection, run, status, ready, spend, now, now))


def note_feedback(connection: Transaction, run_id: str, now: float) -> None:
    """Update a run's row after feedback on it was settled, from all its feedback."""
    run = connection.select(runs, {"run_id": run_id}).first()
    said = _said(connection, run_id, run.owner if run else None)
    connection.update(outcomes, {"run_id": run_id}, {"changed_at": now, **said})


def drop_outcome(connection: Transaction, run_id: str) -> None:
    """Delete the outcome of a run."""
    connection.delete(outcomes, {"run_id": run_id})


def derive(connection: Transaction, run_id: str, now: float) -> bool:
    """Rebuild the row of a run from its events; False where the run was never decided and has none."""
    drop_outcome(connection, run_id)
    run = connection.select(runs, {"run_id": run_id}).first()
    decisions = connection.execute(_OF_KIND, {"of_run": run_id, "of_kind": GateDecided.kind}).all()
    if run is None or not decisions:
        return False
    row = _decided(run, decode(decisions[-1].payload).body_as(GateDecided), decisions[-1].created_at, now)
    finished = _first(connection, run_id, RunFinished.kind)
    if finished is None:
        row |= _said(connection, run_id, run.owner)
    else:
        end, answered = finished.body_as(RunFinished), _first(connection, run_id, AnswerReady.kind)
        ready = answered.body_as(AnswerReady) if answered else None
        row |= _ended(connection, run, end.status, ready, end.spend, run.finished_at, now)
    connection.insert(outcomes, row)
    return True


def _decided(run: AnyRow, decided: GateDecided, decided_at: float, now: float) -> dict[str, Any]:
    """Return the decision's columns. `decided_at` is when it was recorded, so rows arrive in about that order."""
    control = decided.control
    model = control.model if control else None
    return {
        "run_id": run.run_id,
        "corpus": run.corpus,
        "owner": run.owner,
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
    """Return the columns known at the end of a run."""
    recorded: Mapping[str, int]
    recorded, done = defaultdict(int), defaultdict(int)
    for row in connection.execute(_COUNT, {"of_run": run.run_id, "moment": finished_at}):
        recorded[row.kind], done[row.kind] = int(row.recorded), int(row.done)
    asked = done[CrawlDirected.kind]
    ages = _ages(connection, run.run_id, ready, recorded[PageUnchanged.kind], finished_at)
    said = _said(connection, run.run_id, run.owner) if recorded[FeedbackGiven.kind] else _NOTHING_SAID
    chunks, checks = (ready.answer.chunks, ready.answer.checks) if ready else ((), ())
    evidence = ready.evidence if ready else None
    return {
        "finished_at": finished_at,
        "status": status,
        "spent_nanousd": amounts_of(spend)["nanousd"],
        "tokens": spend.tokens + sum(chunk.token_estimate for chunk in chunks),
        "milliseconds": max(0.0, finished_at - run.created_at) * 1e3,
        "external_calls": done[SearchDirected.kind] + asked,
        "pages_asked": asked,
        "pages_read": recorded[PageCrawled.kind] + recorded[PageUnchanged.kind],
        "cited": len(chunks),
        "failed_checks": sum(check.severity == "P0" and not check.passed for check in checks),
        "confidence": ready.answer.confidence if ready and evidence is None else evidence,
        "cited_age_seconds": ages.with_crawl,
        "cited_age_without_crawl_seconds": ages.without_crawl,
        "changed_at": now,
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
    own = _own_documents(ready, run_id, unchanged)
    probed = _first(connection, run_id, CoverageProbed.kind) if own else None
    hits = probed.body_as(CoverageProbed).hits if probed else ()
    return _cited_ages(ready, own, hits, moment(finished_at))


class CitedAges(NamedTuple):
    """Mean ages, in seconds, of the text that an answer cites; None where it cites no web document.
    `with_crawl` averages, over the cited web documents, the time from when each was last read or seen unchanged to the
    answer. `without_crawl` is the same mean without the run's own crawl: a document that the run itself read, or
    found unchanged, is replaced by the version in the gate's probe, if the probe found it; else by the probe's best
    hit that replaces none yet. When the probe has no more hits, the document is left out.
    If the run's own crawl contributed nothing, both are equal: a gain of zero.
    """

    with_crawl: float | None = None
    without_crawl: float | None = None


def _own_documents(ready: AnswerReady, run_id: str, unchanged: Collection[str]) -> frozenset[str]:
    """Return the cited documents that the run itself read or found `unchanged` (ids of documents)."""
    return frozenset(
        chunk.document_id
        for chunk in ready.answer.chunks
        if chunk.provenance.run_id == run_id or chunk.document_id in unchanged
    )


def _cited_ages(
    ready: AnswerReady, own: Collection[str], probed: Sequence[ProbeHit], answered_at: datetime
) -> CitedAges:
    """Return an answer's ages; `own` are the documents of `_own_documents`, `probed` the probe's hits, best first."""
    ages = _unseen(ready)
    if not ages:
        return CitedAges()
    before = {hit.document_id: (answered_at - hit.fetched_at).total_seconds() for hit in reversed(probed) if hit.url}
    spare = [document_id for document_id in dict.fromkeys(hit.document_id for hit in probed) if document_id in before]
    free = iter([document_id for document_id in spare if document_id not in ages])
    without = []
    for document_id, age in ages.items():
        if document_id not in own:
            without.append(age)
        elif (stand_in := document_id if document_id in before else next(free, None)) is not None:
            without.append(max(0.0, before[stand_in]))
    return CitedAges(_mean(list(ages.values())), _mean(without))


def _unseen(ready: AnswerReady) -> dict[str, float]:
    """Return the age of each cited web document, as the answer records it; empty for older answers, which do not."""
    documents = dict.fromkeys(
        chunk.document_id for chunk in ready.answer.chunks if chunk.provenance.source in ("crawl", "search")
    )
    if len(documents) != len(ready.unseen_seconds):
        return {}
    return dict(zip(documents, ready.unseen_seconds, strict=True))


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


_NOTHING_SAID: dict[str, Any] = {"signals": "{}", "used": None, "judged_at": None, "judged_by": None}


def _said(connection: Transaction, run_id: str, owner: str | None) -> dict[str, Any]:
    """Aggregate what counts of a run's feedback: the mean of each signal, the chunks used, the time of the first.

    The word of the key that asked and of operators counts. An agent's key that did not ask counts only where they are
    silent, the first of such keys alone, and as `judged_by`: nobody speaks for another's answers.
    """
    said = connection.execute(_SAID, {"of_run": run_id, "of_kind": FeedbackGiven.kind}).all()
    givers = [_giver(row.dedupe_key) for row in said]
    strangers = _strangers(connection, {one for one in givers if one not in (owner, None)})
    judged_by = next(iter(givers), None) if strangers.issuperset(givers) else None
    counted = {judged_by} if judged_by else {*givers} - strangers
    values: dict[str, list[float]] = defaultdict(list)
    used: set[str] = set()
    judged_at: float | None = None
    for row, giver in zip(said, givers, strict=True):
        feedback = decode(row.payload).body_as(FeedbackGiven)
        if giver not in counted:
            continue
        used.update(feedback.chunk_ids_used)
        if feedback.value is not None:
            values[feedback.signal].append(feedback.value)
            judged_at = row.created_at if judged_at is None else min(judged_at, row.created_at)
    means = {signal: sum(values[signal]) / len(values[signal]) for signal in sorted(values)}
    return {"signals": json.dumps(means), "used": len(used) or None, "judged_at": judged_at, "judged_by": judged_by}


def _giver(dedupe_key: str | None) -> str | None:
    """Return who gave feedback, by the key under which `Service.give_feedback` records it."""
    return dedupe_key.split(":")[1] if dedupe_key and ":" in dedupe_key else None


def _strangers(connection: Transaction, givers: Collection[str]) -> frozenset[str]:
    """Return those of the givers that are keys of agents."""
    asked = ({"id": one} for one in givers)
    found = [connection.select(api_keys, one).first() for one in asked]
    return frozenset(row.id for row in found if row is not None and row.role == "agent")


def _first(connection: Transaction, run_id: str, kind: str) -> Event | None:
    row = connection.execute(_FIRST_OF_KIND, {"of_run": run_id, "of_kind": kind}).first()
    return None if row is None else decode(row.payload)
