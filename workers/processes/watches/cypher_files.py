"""Each published graph is written for the Cypher engine as well, beside the events and never in their way.

    a generation is published ──> its file is written, in a child process
    the child fails, or is too slow ──> questions are answered from the file before; the next generation is tried
    a file does not open ──> who found it threw it away, and it is written again

Of all workers of the stage one writes in a corpus at a time: the one that holds a file lock there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import structlog

from sluice.contracts.errors import SluiceError
from sluice.graph.cypher.build import DocumentFacts, build_in_child
from sluice.graph.cypher.engine_file import CypherFile, newest_files
from sluice.otel import metrics
from sluice.workers.wiring.graph.directives import is_graphed
from sluice.workers.wiring.graph.documents import published_in

if TYPE_CHECKING:
    from sluice.workers.context import Context

log = structlog.get_logger(__name__)

LOOK_SECONDS = 2.0
WRITE_SECONDS = 600.0
"""After so long a child is killed: fifty times what 100,000 nodes take."""
REST = 9.0
"""A corpus rests for so many times as long as its last file took: a tenth of the time is spent on writing."""
FAILED_SECONDS = 300.0
"""Until a generation is tried again that could not be written."""


class CypherFiles:
    """The writing by one process."""

    def __init__(self, context: Context, clock: Callable[[], float] = time.time) -> None:
        self._context = context
        self._clock = clock
        self._failed: dict[str, tuple[str, float]] = {}
        """Of each corpus the generation that could not be written, and until when it rests."""

    def look(self) -> None:
        """Write what is missing.

        Raises:
            Unavailable: the ledger or the index does not answer.
        """
        behind = 0
        for corpus in filter(is_graphed, self._context.readers.names()):
            folder = self._context.graphs.folder(corpus)
            generation, _ = published_in(folder)
            if generation is None:
                continue
            newest = next(iter(newest_files(folder)), None)
            if (newest is None or newest.generation != generation.name) and self._is_due(
                corpus, generation.name, newest
            ):
                newest = self._write(corpus, generation.name) or newest
            behind += max(0, generation.version - (newest.version if newest else 0))
        metrics.GRAPH_BEHIND.labels("cypher").set(behind)

    def _is_due(self, corpus: str, generation: str, newest: CypherFile | None) -> bool:
        name, until = self._failed.get(corpus, ("", 0.0))
        if name == generation and self._clock() < until:
            return False
        return newest is None or not 0 <= self._clock() - newest.written_at < REST * newest.seconds

    def _write(self, corpus: str, generation: str) -> CypherFile | None:
        began = time.monotonic()
        facts = self._facts(corpus)
        try:
            written = build_in_child(self._context.graphs.folder(corpus), WRITE_SECONDS, corpus=corpus, facts=facts)
        except (SluiceError, OSError) as error:
            self._failed[corpus] = generation, self._clock() + FAILED_SECONDS
            log.warning("cypher_file_not_written", corpus=corpus, generation=generation, error=str(error))
            return None
        if written is not None:
            metrics.GRAPH_PUBLISH_SECONDS.labels("cypher").observe(time.monotonic() - began)
            log.info("cypher_file_written", corpus=corpus, generation=written.generation, version=written.version)
        return written

    def _facts(self, corpus: str) -> dict[str, DocumentFacts]:
        """What the generation does not hold of documents, as the index and the ledger have it now."""
        reader = self._context.readers.reader(corpus)
        reader.reload()
        model = reader.model_fingerprint
        with self._context.ledger.graph.snapshot(corpus) as rows:
            written = dict(rows.updated_at())
        return {
            facts.document_id: DocumentFacts(facts.language, facts.checksum, model, _told(written, facts.document_id))
            for facts in reader.all_facts()
        }


def _told(written: dict[str, float], document_id: str) -> str | None:
    at = written.get(document_id)
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat()
