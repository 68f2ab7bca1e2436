"""Records on a run that citations of its answer are stale, as `AnswerStale`.

Promises: each citation is recorded as stale once. The transaction that records the event deletes the citation's rows;
a second caller, or one that was killed and tries again, finds none and records nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from sluice.contracts.errors import NotFound
from sluice.contracts.event import Event
from sluice.contracts.index import AnswerStale, StaleCitation
from sluice.ledger.events.outbox import Entry, own_event, write
from sluice.ledger.runs import take
from sluice.ledger.schema.tables import citations
from sluice.ledger.transaction import Transaction
from sluice.ledger.trust.citations import drop_citations


def tell_run(connection: Transaction, run_id: str, stale: Sequence[StaleCitation], now: float) -> Event | None:
    """Record which of a run's citations are stale; None where all of them were recorded before."""
    try:
        run = take(connection, run_id)
    except NotFound:  # pruned meanwhile
        drop_citations(connection, run_id)
        return None
    untold = tuple(one for one in stale if connection.delete(citations, {"run_id": run_id, "citation": one.citation}))
    if not untold:
        return None
    event = own_event(run, AnswerStale(citations=untold), now)
    write(connection, run, [Entry(event)], now)
    return event
