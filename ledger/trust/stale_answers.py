"""An answer that cites what is no longer so is told of it: `AnswerStale` on its run.

Promises: a citation is told of once. The transaction that records the event takes its rows away; who comes second, or
again after having been killed, finds none and records nothing.
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
    """Record on a run which of its citations are stale; None where all of that was told before."""
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
