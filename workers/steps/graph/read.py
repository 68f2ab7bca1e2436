"""Reads documents of the index into the rows of the graph.

What a document states follows from its indexed text and its facts alone. One whose facts are those that the graph has
it by, read by the same parser, is not read again. All rows are written as of the journal offset of the view that was
read, so whatever else reads the same documents at the same time, the later view stands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from sluice.contracts.errors import Unavailable
from sluice.contracts.event import Gap
from sluice.ledger.graph.changes import Change
from sluice.ledger.graph.rows import Totals, Written
from sluice.otel import metrics
from sluice.workers.wiring.graph.documents import IndexedDocuments

if TYPE_CHECKING:
    from sluice.ledger.graph.store import Graphs
    from sluice.workers.wiring.corpora import Reader

DOCUMENTS_AT_ONCE = 20
"""Documents of one transaction: some thousand edges, 50 ms for which nobody else writes to SQLite."""
MOST_LOOKS = 5
"""How often documents are looked at again that change while they are read, before the event is tried again."""


class ReadIn(NamedTuple):
    """What reading documents came to. `gaps` are those that could not be read."""

    totals: Totals
    read: int
    changed: int
    gaps: tuple[Gap, ...]


def read_in(
    corpus: str,
    document_ids: Sequence[str],
    reader: Reader,
    graph: Graphs,
    *,
    journal_offset: int = 0,
    check_cancelled: Callable[[], None] = lambda: None,
) -> ReadIn:
    """Let the graph have these documents as the index has them at `journal_offset` or later.

    Raises:
        Unavailable: the index does not cover the offset, the ledger does not answer, or documents kept changing while
            they were read.
    """
    totals, read, changed = graph.totals(corpus), 0, 0
    gaps: list[Gap] = []
    for first in range(0, len(document_ids), DOCUMENTS_AT_ONCE):
        left: Sequence[str] = document_ids[first : first + DOCUMENTS_AT_ONCE]
        for _ in range(MOST_LOOKS):
            check_cancelled()
            seen = IndexedDocuments(reader, journal_offset)
            change = seen.change_of(graph.standing(corpus, left), left)
            written = graph.carry_out(corpus, change)
            _count(seen, change, written)
            totals, left = written.totals, written.contested
            read += len(change.replace)
            changed += written.replaced + written.removed
            gaps += seen.gaps
            if not left:
                break
        else:
            raise Unavailable(f"documents of corpus {corpus} keep changing while they are read")
    return ReadIn(totals, read, changed, tuple(gaps))


def _count(seen: IndexedDocuments, change: Change, written: Written) -> None:
    failed = len(seen.gaps)
    counts = {"read": len(change.replace) - failed, "failed": failed, "removed": written.removed}
    counts["unchanged"] = len(change.keep) - len(written.contested)
    for outcome, count in counts.items():
        if count:
            metrics.GRAPH_DOCUMENTS.labels(outcome).inc(count)
