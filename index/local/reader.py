"""The reader of a corpus: searches the current generation, and reloads without a failed query.

    reader = IndexReader(root, "default", QuerySettings())
    retrieval = reader.search(Query(query="how are leases renewed"), vector)

`find_in_generations` and `find_in_journal` look for documents in everything that a corpus has on disk, dead versions
included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from sluice.contracts.document import DocumentFacts, TrustScorer
from sluice.contracts.errors import NotFound
from sluice.contracts.filters import Where
from sluice.contracts.graph.model import GraphArm
from sluice.contracts.retrieval import Query, Strategy
from sluice.index.folder import CorpusLayout
from sluice.index.generations.corpus_writer import utc_now
from sluice.index.generations.manifest import load_manifest
from sluice.index.generations.publish import list_generation_names
from sluice.index.generations.view import OpenGeneration, View
from sluice.index.journal.files import read_journal
from sluice.index.journal.records import Removal, Vectors, decode_record, make_facts
from sluice.index.local.follower import Follower
from sluice.index.search.candidates import select_candidates
from sluice.index.search.filters import find_masks
from sluice.index.search.fusion import LatestCandidates, RankedCandidates, Search, retrieve_candidates
from sluice.index.search.graph_reach import Expanded, add_reached, as_hits, expand
from sluice.index.search.reader import RELOAD_TIMEOUT_SECONDS, CorpusReader
from sluice.index.search.reranker import Reranker
from sluice.index.settings import QuerySettings


@dataclass(frozen=True, slots=True)
class CorpusHash:
    """Hash of all documents and chunks of a corpus, as one number (`index.generations.manifest.IdSet`)."""

    generation: str
    journal_offset: int
    served: str
    published: str | None
    """Hash in the generation's manifest; None while the view holds more than the generation."""

    @property
    def is_whole(self) -> bool:
        """Whether the served documents are those that were published."""
        return self.published in (None, self.served)


class IndexReader(CorpusReader[View]):
    """Searches a corpus on this machine's disk.

    `on_fallback` is called with the reason when another generation is served because the current one is damaged.
    `graph` is walked where a query's strategy requires it.
    """

    engine = "local"

    def __init__(
        self,
        root: Path,
        corpus: str,
        settings: QuerySettings,
        reranker: Reranker | None = None,
        trust: TrustScorer | None = None,
        clock: Callable[[], datetime] = utc_now,
        on_fallback: Callable[[str], None] = lambda reason: None,
        verify_on_open: bool = True,
        reload_timeout_seconds: float = RELOAD_TIMEOUT_SECONDS,
        graph: GraphArm | None = None,
        doubts: Callable[[], Mapping[str, float]] = dict,
    ) -> None:
        super().__init__(corpus, settings, reranker, trust, clock, reload_timeout_seconds, doubts)
        self._graph = graph
        self._latest_candidates = LatestCandidates()
        self._layout = CorpusLayout(root, corpus)
        self._follower = Follower(self._layout, verify_on_open, on_fallback, settings.max_recent_chunks)

    @property
    def fallback_reason(self) -> str | None:
        """Reason for serving another generation than the current one; None while the current one is served."""
        return None if self._pinned else self._follower.fallback_reason

    def corpus_hash(self) -> CorpusHash | None:
        """Return the hash of the served view, read anew, and the published one; None without a generation."""
        generation = self.current_view()
        if generation is None:
            return None
        manifest = load_manifest(self._layout.generations / generation.name)
        is_published = manifest.journal_offset == generation.journal_offset  # and memory holds no further records
        published = manifest.id_set_hash if is_published else None
        return CorpusHash(generation.name, generation.journal_offset, generation.id_set_hash(), published)

    def reload(self) -> str | None:
        """Read the pointer now, serve its generation, and return the name of the generation served."""
        self._latest_candidates.clear()
        if self._pinned is None:
            self._follower.reload()
        return self.generation

    def close(self) -> None:
        """Unpin the served generation. Searches must have ended."""
        self._latest_candidates.clear()
        if self._pinned is None:
            self._follower.close()

    def _latest(self) -> View | None:
        return self._follower.latest()

    def _pause(self, seconds: float) -> None:
        self._follower.wait_for_swap(seconds)

    def _find(
        self,
        view: View,
        text: str,
        vector: Vectors | None,
        strategy: Strategy,
        where: Where | None,
        depth: int,
        lexical_weight: float | None = None,
    ) -> tuple[RankedCandidates, View]:
        search = self._search(view, text, vector, strategy, where, lexical_weight)
        candidates = self._latest_candidates.take(view, search, depth)
        if candidates is None:
            candidates = retrieve_candidates(view, search, depth, self._settings)
            self._latest_candidates.keep(view, search, depth, candidates)
        return candidates, view

    def _reach(
        self, view: View, query: Query, vector: Vectors | None, found: RankedCandidates, known: Expanded | None
    ) -> tuple[RankedCandidates, Expanded]:
        search = self._search(view, query.query, vector, query.strategy, query.condition, query.lexical_weight)
        if known is None:
            hits = select_candidates(view, as_hits(query), found, self._ranking, self._clock())
            known = expand(self._graph, view, search, hits.candidates)
        return add_reached(found, known, view, search, self._settings), known

    def _search(
        self,
        view: View,
        text: str,
        vector: Vectors | None,
        strategy: Strategy,
        where: Where | None,
        lexical_weight: float | None,
    ) -> Search:
        masks = find_masks(view, where, self._ranking.trust, self._clock())
        return Search(text, vector, strategy, masks, where is not None, lexical_weight)


IsWanted = Callable[[DocumentFacts], bool]


@dataclass(slots=True)
class Found:
    """Number of document versions read in one place, and the ids of the documents among them that were searched for."""

    place: str
    looked_at: int = 0
    ids: set[str] = field(default_factory=set)


def find_in_generations(layout: CorpusLayout, is_wanted: IsWanted) -> Iterator[Found]:
    """Look into each generation on disk, at live and dead documents. Raises `Corrupted` for one that does not open."""
    for name in list_generation_names(layout):
        folder = layout.generations / name
        try:
            generation = OpenGeneration(folder, load_manifest(folder))
        except NotFound:  # collected meanwhile
            continue
        found = Found(name)
        try:
            for part in generation.parts:
                for document in range(part.segment.document_count):
                    _look(found, part.segment.facts(document), is_wanted)
        finally:
            generation.close()
        yield found


def find_in_journal(layout: CorpusLayout, is_wanted: IsWanted, document_ids: frozenset[str]) -> Found:
    """Look at each record of the journal; a removal is found if its id is in `document_ids`. Raises `Corrupted`."""
    found = Found("journal")
    for frame in read_journal(layout.journal):
        record = decode_record(frame.kind, frame.payload)
        if isinstance(record, Removal):
            found.looked_at += 1
            if record.document_id in document_ids:
                found.ids.add(record.document_id)
        else:
            _look(found, make_facts(record.document), is_wanted)
    return found


def _look(found: Found, facts: DocumentFacts, is_wanted: IsWanted) -> None:
    found.looked_at += 1
    if is_wanted(facts):
        found.ids.add(facts.document_id)
