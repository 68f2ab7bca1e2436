"""The graphs of corpora: their folders and walks, the directives to read documents, and the configured server."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import structlog

from sluice.contracts.errors import PolicyRefused
from sluice.contracts.graph.model import Expansion, GraphArm, GraphHit
from sluice.contracts.index import DocumentIndexed, GraphDirected
from sluice.graph.arm import Arm
from sluice.graph.cypher.engine_file import discard, newest_files
from sluice.graph.generations.publish import POINTER, Generation, lock_folder, publish, verified
from sluice.graph.servers.client import CheckAddress
from sluice.graph.servers.server import GraphServer
from sluice.graph.settings import GraphSettings, address_of
from sluice.ingest.egress.rules import EgressRules
from sluice.ingest.settings import EgressSettings
from sluice.ledger.graph.store import Graphs
from sluice.memory.qdrant_schema import is_memory_corpus
from sluice.otel import metrics
from sluice.workers.runtime.observers import utc_now

log = structlog.get_logger(__name__)

REST = 5
"""Pause between two foldings of a corpus, as a multiple of the folding's duration."""
BEHIND_SECONDS = 60.0
"""Age that the published graph may reach while more is being read."""
LOCK_SECONDS = 120.0
"""Longest wait for another process that publishes, before the event comes back later."""
MOST_DOCUMENTS = 1_000
"""Most documents of one event: some ten seconds of work."""


class GraphArms:
    """The arm of each corpus. Safe for threads."""

    def __init__(self, root: Path) -> None:
        """`root` holds a folder for each corpus."""
        self._root = root
        self._lock = threading.Lock()
        self._open: dict[str, Arm] = {}

    def folder(self, corpus: str) -> Path:
        """Return the folder in which the generations of a corpus are published."""
        return self._root / corpus

    def discard_cypher(self, corpus: str) -> None:
        """Discard the file for Cypher, as its copies from the index are outdated. It is missing for seconds."""
        for written in newest_files(self.folder(corpus)):
            discard(written.folder.parent)

    def arm(self, corpus: str) -> Arm:
        """Return the arm that walks the graph of a corpus and gives its current generation."""
        with self._lock:
            return self._open.setdefault(corpus, Arm(self.folder(corpus)))

    def published_name(self, corpus: str) -> str | None:
        """Return the name of the current generation; None if there is none."""
        try:
            return os.readlink(self.folder(corpus) / POINTER)
        except OSError:
            return None

    def searching(self, corpus: str) -> GraphArm | None:
        """Return the arm of a corpus for searches; None for a corpus that has no graph."""
        return self.arm(corpus) if is_graphed(corpus) else None


class NotSearched(GraphArm):
    """The arm where the owner's settings hold the graph off: it abstains, and says so."""

    def __init__(self, why: str) -> None:
        self._why = why

    def expand(self, question: str, hits: Sequence[GraphHit]) -> Expansion:
        """Return nothing but the reason."""
        return Expansion(abstained=self._why)


def build_graph_server(settings: GraphSettings, egress: EgressSettings) -> GraphServer | None:
    """Build the server of `graph.url`; None if none is named. Opens nothing, and does not load the driver."""
    if settings.url is None:
        return None
    from sluice.graph.servers.server import GraphServer

    return GraphServer(settings, address_rules(settings.url, egress))


def address_rules(url: str, egress: EgressSettings) -> CheckAddress:
    """Return the rules of egress for connections to the graph server at `url`, which its owner has named.

    The named server may have a private address and a port that is not of the web, as an entry of `egress.allow` might.
    If only listed addresses may be reached it has to be listed all the same, and if nothing may leave it is refused.
    Any other address comes from the server itself, which may name members of its cluster: those need an entry
    `graph=host:port`.
    """
    rules, named = EgressRules(egress), address_of(url)
    has_list = egress.policy == "listed" or bool(egress.allow_domains)

    def check(host: str, port: int) -> None:
        refusal = rules.check_host(host, port, "graph")
        is_own = (host, port) == named and refusal is not None and refusal.rule in ("host", "port")
        if refusal is None or (is_own and not has_list):
            return
        lifted_by = "egress.policy" if refusal.rule == "policy" else f'egress.allow = ["graph={host}:{port}"]'
        raise PolicyRefused("egress", f"the graph server {host}:{port} may not be reached: {refusal.detail}", lifted_by)

    return check


def is_graphed(corpus: str) -> bool:
    """Return whether a corpus has a graph: those of agents' memories have none."""
    return not is_memory_corpus(corpus)


def graph_directives(corpus: str, indexed: DocumentIndexed, settings: GraphSettings) -> Iterator[GraphDirected]:
    """Yield directives to read the documents of an event, those removed too; none without the extra `graph`."""
    from sluice.graph.extract.extract import what_is_missing

    if settings.enabled and is_graphed(corpus) and what_is_missing() is None:
        yield from directives(indexed.document_ids, indexed.journal_offset)


def directives(document_ids: Sequence[str], journal_offset: int) -> Iterator[GraphDirected]:
    """Yield directives for all of these documents, each for a portion."""
    for first in range(0, len(document_ids), MOST_DOCUMENTS):
        portion = tuple(document_ids[first : first + MOST_DOCUMENTS])
        yield GraphDirected(document_ids=portion, journal_offset=journal_offset)


def nothing_but_published(journal_offset: int) -> GraphDirected:
    """Return a directive that has the rows published as they are."""
    return GraphDirected(document_ids=(), journal_offset=journal_offset)


def publish_rows(
    corpus: str,
    folder: Path,
    graph: Graphs,
    *,
    more_to_come: bool,
    now: Callable[[], datetime] = utc_now,
    seconds: Callable[[], float] = time.monotonic,
) -> Generation | float | None:
    """Fold the rows as they are into a generation and return it; None where none is needed, or seconds to wait first.

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
