"""The graphs of corpora: their folders and walks, the directives to read documents, and the configured server."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from sluice.contracts.errors import PolicyRefused
from sluice.contracts.graph.model import Expansion, GraphArm, GraphHit
from sluice.contracts.index import DocumentIndexed, GraphDirected
from sluice.graph.arm import Arm
from sluice.graph.cypher.engine_file import discard, newest_files
from sluice.graph.generations.publish import POINTER
from sluice.graph.servers.client import CheckAddress
from sluice.graph.servers.server import GraphServer
from sluice.graph.settings import GraphSettings, address_of
from sluice.ingest.egress.rules import EgressRules
from sluice.ingest.settings import EgressSettings
from sluice.memory.qdrant_schema import is_memory_corpus

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
