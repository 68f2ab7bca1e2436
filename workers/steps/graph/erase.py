"""Takes documents that are to be forgotten out of the graph at once, and with them everything that was made of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.graph.generations.publish import discard, lock_folder
from sluice.ledger.graph.rows import Totals
from sluice.workers.steps.graph.publish import LOCK_SECONDS

if TYPE_CHECKING:
    from sluice.ledger.graph.store import Graphs


def erase_from_graph(corpus: str, document_ids: Sequence[str], as_of: int, graph: Graphs, folder: Path) -> None:
    """Remove the rows of the documents, and all generations in `folder`: the next one is folded from rows without them.

    The rows go first, so whoever publishes meanwhile either had begun before, and is waited for, or does without them.

    Raises:
        Unavailable: another process publishes the corpus all the time, or the ledger does not answer.
    """
    if graph.totals(corpus) == Totals():
        return
    graph.remove(corpus, document_ids, as_of)
    with lock_folder(folder, LOCK_SECONDS):
        discard(folder)
