"""Handlers of the graph: what was indexed is read into it, and a generation of it is published.

The rules of handlers stand in `workers.handlers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from contracts.event import Event
from contracts.graph.events import GraphDirected
from contracts.outcome import Done, Outcome
from workers.runtime.heartbeat import check_cancelled
from workers.steps.graph.read import read_in

if TYPE_CHECKING:
    from ledger.ledger import Ledger
    from workers.wiring.corpora import CorpusReaders


def on_graph_directed(event: Event, ledger: Ledger, readers: CorpusReaders) -> Outcome:
    """Read documents into the graph. A row follows from the text that is indexed; the later view of the index stands.

    So a second run finds its documents read.
    """
    directed = event.body_as(GraphDirected)
    done = read_in(
        event.corpus,
        directed.document_ids,
        readers.reader(event.corpus),
        ledger.graph,
        journal_offset=directed.journal_offset,
        check_cancelled=check_cancelled,
    )
    return Done(gaps=done.gaps)
