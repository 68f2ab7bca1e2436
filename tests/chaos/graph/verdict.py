"""What is wrong with the graph of a corpus, once nothing of it is open."""

from __future__ import annotations

from collections.abc import Iterator

from sluice.graph.generations.publish import verified
from sluice.workers.context import Context
from sluice.workers.service.callers import OWN_MACHINE
from sluice.workers.service.graphs import GraphDesk


def problems(context: Context, corpus: str, documents: int) -> Iterator[str]:
    """Everything in which the graph differs from one that is read anew, or what is published from the graph."""
    desk, totals = GraphDesk(context), context.ledger.graph.totals(corpus)
    proof = desk.prove(corpus, OWN_MACHINE)
    if not proof.is_equal or proof.differing:
        yield f"grown {proof.grown_sha256}, rebuilt {proof.rebuilt_sha256}, differing {proof.differing}"
    if proof.documents != documents:
        yield f"the index has {proof.documents} documents of {documents}"
    if (totals.documents, totals.edges) != (proof.documents, proof.edges):
        yield f"the sums say {totals.documents} documents and {totals.edges} edges, the proof {proof.documents} and {proof.edges}"
    published = verified(context.graphs.folder(corpus))
    if published is None:
        yield "nothing whole is published"
    elif published.version != totals.version or published.documents != totals.documents:
        yield f"published are version {published.version} and {published.documents} documents, of {totals}"
