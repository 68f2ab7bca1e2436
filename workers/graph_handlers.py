"""Handlers of the graph: what was indexed is read into it, and a generation of it is published.

The rules of handlers stand in `workers.handlers`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sluice.contracts.event import Event
from sluice.contracts.index import GraphDirected, GraphPublished
from sluice.contracts.outcome import Done, Next, Outcome, Retry
from sluice.workers.runtime.heartbeat import check_cancelled
from sluice.workers.steps.graph.publish import publish_rows
from sluice.workers.steps.graph.read import read_in
from sluice.workers.wiring.observers import utc_now

if TYPE_CHECKING:
    from sluice.ledger.ledger import Ledger
    from sluice.workers.wiring.corpora import CorpusReaders
    from sluice.workers.wiring.graph.graphs import GraphArms


def on_graph_directed(event: Event, ledger: Ledger, readers: CorpusReaders, graphs: GraphArms) -> Outcome:
    """Read documents into the graph, and publish it unless another event will. The later view of the index stands.

    So a second run finds its documents read, and the graph published.
    """
    directed, corpus = event.body_as(GraphDirected), event.corpus
    done = read_in(
        corpus,
        directed.document_ids,
        readers.reader(corpus),
        ledger.graph,
        journal_offset=directed.journal_offset,
        check_cancelled=check_cancelled,
    )
    published = publish_rows(
        corpus,
        graphs.folder(corpus),
        ledger.graph,
        more_to_come=ledger.graph.has_work(corpus, beside=event.id, claimed=False),
        now=utc_now,
        seconds=time.monotonic,
    )
    if isinstance(published, float):
        return Retry(published, "the graph was published a moment ago", counts=False)
    if published is None:
        return Done(gaps=done.gaps)
    told = GraphPublished(
        generation=published.name, covers=published.version, nodes=published.nodes, edges=published.edges
    )
    return Done((Next(told),), done.gaps)
