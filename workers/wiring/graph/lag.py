"""What the graph of a corpus lacks of the corpus's index, and what is published of the graph."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sluice.contracts.errors import Corrupted
from sluice.graph.generations.publish import Generation, current, open_generation
from sluice.ledger.graph.rows import Totals
from sluice.workers.wiring.graph.indexed import IndexedDocuments

if TYPE_CHECKING:
    from sluice.ledger.graph.store import Graphs
    from sluice.workers.wiring.corpora import Reader


class GraphLag(NamedTuple):
    """How the graph of a corpus stands to its index."""

    document_ids: Sequence[str]
    """Documents that the graph has otherwise than the index, or only one of them has."""
    journal_offset: int
    """Of the index that was looked at."""
    totals: Totals
    is_ahead: bool
    """Whether the graph was read from a later index: that was rolled back, or put back from a copy."""
    generation: Generation | None
    """What is published; None where nothing is, or its manifest is damaged."""
    problem: str | None = None
    """What is wrong with what is published."""

    @property
    def unpublished(self) -> int:
        """Changes that are not published yet; -1 where what is published is of another graph than the ledger's."""
        if self.generation is None:
            return self.totals.version
        return max(-1, self.totals.version - self.generation.version)

    @property
    def is_there(self) -> bool:
        """Whether something is to be done."""
        return bool(self.document_ids) or self.unpublished != 0

    @property
    def digest(self) -> str:
        """Stands for what is lacking."""
        told = "\n".join((f"{self.journal_offset} {self.totals.version} {self.unpublished}", *self.document_ids))
        return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()


def measure_lag(corpus: str, reader: Reader, graph: Graphs, folder: Path) -> GraphLag:
    """Compare every document of the index with the graph's rows, by what identifies it; no text is read."""
    read_up_to = graph.totals(corpus).as_of
    indexed = IndexedDocuments(reader)
    with graph.snapshot(corpus) as rows:
        totals = rows.totals
        known = {one.document_id: one.identity for one in rows.standing() if not one.is_tombstone}
    lacking = [name for name, identity in indexed.identities() if known.pop(name, None) != identity]
    generation, problem = published_in(folder, whole=True)
    return GraphLag((*lacking, *known), indexed.as_of, totals, read_up_to > indexed.as_of, generation, problem)


def published_in(folder: Path, *, whole: bool = False) -> tuple[Generation | None, str | None]:
    """The current generation of a folder, and what is wrong with it. `whole`: its file is read as well."""
    try:
        generation = current(folder)
        if generation is not None and whole:
            open_generation(folder, generation)
    except Corrupted as error:
        return None, str(error)
    return generation, None
