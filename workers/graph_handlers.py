"""The handler of the graph: it reads indexed documents into rows, folds a generation from them and publishes it.

What a document states follows from its indexed text and its facts alone. A document is not read again while its facts
and the parser are those of its row. All rows carry the journal offset of the view that was read, so if several read the
same documents at the same time, the later view stands.

While more of the corpus is to be read, the published graph may be a minute behind. Folding takes at most a sixth of the
time, however long it takes. One process publishes at a time; a second one finds it done. The rules of handlers stand in
`workers.handlers`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import structlog

from sluice.contracts.errors import Unavailable
from sluice.contracts.event import Done, Event, Gap, Next, Outcome, Retry
from sluice.contracts.index import GraphDirected, GraphPublished
from sluice.graph.generations.publish import discard, lock_folder
from sluice.ledger.graph.reading import Totals, Written
from sluice.ledger.graph.store import Change, Graphs
from sluice.ledger.ledger import Ledger
from sluice.otel import metrics
from sluice.workers.runtime.claims import check_cancelled
from sluice.workers.wiring.corpora import CorpusReaders, Reader
from sluice.workers.wiring.graph_documents import IndexedDocuments
from sluice.workers.wiring.graphs import LOCK_SECONDS, GraphArms, publish_rows

log = structlog.get_logger(__name__)

DOCUMENTS_AT_ONCE = 20
"""Documents of one transaction: some thousand edges, 50 ms for which nobody else writes to SQLite."""
MOST_LOOKS = 5
"""Reads of documents that change while they are read, before the event is tried again."""


def on_graph_directed(event: Event, ledger: Ledger, readers: CorpusReaders, graphs: GraphArms) -> Outcome:
    """Read documents into the graph, and publish it unless another event will. The later view of the index stands.

    A second run therefore finds its documents read, and the graph published.
    """
    directed, corpus = event.body_as(GraphDirected), event.corpus
    gaps = tuple(
        read_in(corpus, directed.document_ids, readers.reader(corpus), ledger.graph, offset=directed.journal_offset)
    )
    more_to_come = ledger.graph.has_work(corpus, beside=event.id, claimed=False)
    published = publish_rows(corpus, graphs.folder(corpus), ledger.graph, more_to_come=more_to_come)
    if isinstance(published, float):
        return Retry(published, "the graph was published a moment ago", counts=False)
    if published is None:
        return Done(gaps=gaps)
    body = GraphPublished(
        generation=published.name, covers=published.version, nodes=published.nodes, edges=published.edges
    )
    return Done((Next(body),), gaps)


def read_in(
    corpus: str, document_ids: Sequence[str], reader: Reader, graph: Graphs, *, offset: int = 0
) -> Iterator[Gap]:
    """Write rows of these documents as the index has them at `offset` or later; yield a gap for each unreadable one.

    Raises:
        Unavailable: the index does not cover the offset, the ledger does not answer, or documents kept changing while
            they were read.
    """
    for first in range(0, len(document_ids), DOCUMENTS_AT_ONCE):
        left: Sequence[str] = document_ids[first : first + DOCUMENTS_AT_ONCE]
        for _ in range(MOST_LOOKS):
            check_cancelled()
            seen = IndexedDocuments(reader, offset)
            change = seen.change_of(graph.standing(corpus, left), left)
            written = graph.carry_out(corpus, change)
            _count(seen, change, written)
            yield from seen.gaps
            left = written.contested
            if not left:
                break
        else:
            raise Unavailable(f"documents of corpus {corpus} keep changing while they are read")


def _count(seen: IndexedDocuments, change: Change, written: Written) -> None:
    failed = len(seen.gaps)
    counts = {"read": len(change.replace) - failed, "failed": failed, "removed": written.removed}
    counts["unchanged"] = len(change.keep) - len(written.contested)
    for outcome, count in counts.items():
        if count:
            metrics.GRAPH_DOCUMENTS.labels(outcome).inc(count)


def erase_from_graph(corpus: str, document_ids: Sequence[str], as_of: int, graph: Graphs, folder: Path) -> None:
    """Remove the rows of the documents, and all generations in `folder`: the next one is folded from rows without them.

    The rows go first: a process that publishes meanwhile began before, and is waited for, or does not see them.

    Raises:
        Unavailable: another process publishes the corpus all the time, or the ledger does not answer.
    """
    if graph.totals(corpus) == Totals():
        return
    graph.remove(corpus, document_ids, as_of)
    with lock_folder(folder, LOCK_SECONDS):
        discard(folder)
