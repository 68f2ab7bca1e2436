"""Folds the rows of a corpus into a generation of its graph, unless that would be too soon.

While more of the corpus is to be read, what is published may be a minute behind; and folding takes no more than a sixth
of the time, however long it takes. One process publishes at a time; whoever comes second finds it done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from sluice.graph.generations.publish import POINTER, discard, lock_folder, publish, verified
from sluice.ledger.graph.rows import Totals
from sluice.otel import metrics

if TYPE_CHECKING:
    from sluice.graph.generations.publish import Generation
    from sluice.ledger.graph.store import Graphs


log = structlog.get_logger(__name__)

REST = 5
"""Times its own duration that lie between two foldings of a corpus."""
BEHIND_SECONDS = 60.0
"""How old what is published may be while more is being read."""
LOCK_SECONDS = 120.0
"""How long another process may publish before an event comes back later."""


def publish_rows(
    corpus: str,
    folder: Path,
    graph: Graphs,
    *,
    more_to_come: bool,
    now: Callable[[], datetime],
    seconds: Callable[[], float],
) -> Generation | float | None:
    """The generation that was made of the rows as they are; None where none was needed, or seconds to wait first.

    `more_to_come`: another event will publish later, so this one need not.

    Raises:
        Unavailable: another process publishes the same corpus all the time, or the ledger does not answer.
        OSError: the disk refuses.
    """
    with lock_folder(folder, LOCK_SECONDS):
        was_published = (folder / POINTER).is_symlink()
        standing = verified(folder)
        if standing is None and was_published:
            metrics.GRAPH_GENERATIONS.labels("damaged").inc()
            log.warning("graph_damaged", corpus=corpus)
        if standing is not None:
            if standing.version == graph.totals(corpus).version:
                return None
            age_seconds = max(0.0, (now() - standing.published_at).total_seconds())
            rest_seconds = REST * standing.seconds - age_seconds
            if more_to_come and (rest_seconds > 0 or age_seconds < BEHIND_SECONDS):
                return None
            if rest_seconds > 0:
                return rest_seconds
        with _counted(), graph.snapshot(corpus) as rows:
            made = publish(
                folder, rows.rows(), rows.citations(), version=rows.totals.version, now=now(), seconds=seconds
            )
    metrics.GRAPH_PUBLISH_SECONDS.labels("generation").observe(made.seconds)
    log.info("graph_published", corpus=corpus, generation=made.name, version=made.version, seconds=made.seconds)
    return made


@contextmanager
def _counted() -> Iterator[None]:
    try:
        yield
    except BaseException:
        metrics.GRAPH_GENERATIONS.labels("failed").inc()
        raise
    metrics.GRAPH_GENERATIONS.labels("published").inc()


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
