"""Selects the candidates that may become results: not blocked, trusted, distinct, within the cap of their domain.

Candidates are read in fused order until enough are selected, so most are never read. Those that merely repeat the
question come after all others, where there is room.

Of near-duplicates the best one stays and lists the others.
Two texts are near-duplicates when their sets of three-word shingles overlap by a Jaccard index of at least the
threshold (Broder, "On the resemblance and containment of documents", 1997), estimated by MinHash signatures of 128
values, whose standard error at 0.9 is 0.027. At the default threshold of 0.9, one word in 60 may differ, or a tenth of
the text may be added: copies, mirrors and reprints with another date or footer are then duplicates; texts that share a
template or a quotation are not. Texts of fewer than about 60 words are duplicates only where they differ just in case
and white space.

Equal texts need no signature. A signature costs 30 µs and is kept, so that comparing a known text costs 0.2 µs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import Literal, Protocol

from sluice.contracts.document import Chunk, DocumentFacts, TrustScorer, parse_host, sha256_text
from sluice.contracts.retrieval import Query
from sluice.contracts.trust import TrustScore, Verdict
from sluice.index.journal.records import Vectors
from sluice.index.search.echoes import EchoDetector
from sluice.index.search.fusion import Candidate
from sluice.index.search.reranker import Reranker
from sluice.index.settings import QuerySettings

SHINGLE_WORDS = 3
PERMUTATIONS = 128
_SEED = 1
MOST_SIGNATURES = 5_000
"""Signatures kept from one query to the next, about 1 kB each besides the text."""


class Signature(Protocol):
    """A MinHash signature."""

    def jaccard(self, other: Signature) -> float:
        """Return the estimated Jaccard index of the two texts' shingles, in [0, 1]."""


class DistinctTexts:
    """Distinct texts of a query's results. `threshold` is a Jaccard index in (0, 1]; with 0 every text is distinct."""

    def __init__(self, threshold: float) -> None:
        self._threshold = threshold
        self._positions: dict[str, int] = {}

    def find_duplicate(self, text: str) -> int | None:
        """Return the position of the kept text that this text repeats; None where it is distinct."""
        if not self._threshold or not self._positions:
            return None
        equal = self._positions.get(text)
        if equal is not None:
            return equal
        signature = compute_signature(text)
        for kept, position in self._positions.items():
            if signature.jaccard(compute_signature(kept)) >= self._threshold:
                return position
        return None

    def keep(self, text: str) -> None:
        """Keep a text, so that later ones are compared with it."""
        if self._threshold:
            self._positions[text] = len(self._positions)


@lru_cache(maxsize=MOST_SIGNATURES)
def compute_signature(text: str) -> Signature:
    """Return the MinHash signature of the text's shingles, ignoring case and white space; the latest are kept."""
    from rensa import RMinHash

    signature: Signature = RMinHash(PERMUTATIONS, _SEED)
    signature.update(split_shingles(text))  # type: ignore[attr-defined]  # the protocol is what callers need
    return signature


def split_shingles(text: str) -> list[str]:
    """Split the text into all runs of three words; a shorter text is one shingle."""
    words = text.casefold().split()
    if len(words) <= SHINGLE_WORDS:
        return [" ".join(words)]
    return [f"{first} {second} {third}" for first, second, third in zip(words, words[1:], words[2:], strict=False)]


DEEPER = 4
"""Factor by which the search goes deeper where too few candidates remain."""
MOST_CANDIDATES = 1_000
"""Largest depth of a search repeated for duplicates and capped domains: a bound on the cost of a mirrored site."""

Reason = Literal["guard", "trust", "duplicates", "domain"]
"""Reason for dropping a candidate."""
Read = tuple[Candidate, DocumentFacts, Chunk]
CLEARLY_MORE_TRUST = 0.1
"""Difference of trust from which the less trusted of two copies is dropped: more than four months of age cost."""


class ChunkSource(Protocol):
    """Chunks by number, with their vectors and neighbours. Immutable during a search."""

    def read(self, number: int) -> tuple[DocumentFacts, Chunk]:
        """Return a chunk and its document's facts. Raises `Corrupted` for an unknown number."""

    def vectors_of(self, numbers: Sequence[int]) -> Vectors:
        """Return the vectors of at least one number, of length 1, in that order: float32 (n, d)."""

    def around(self, number: int, width: int) -> Sequence[Chunk]:
        """Return the chunk with up to `width` chunks of its document before and behind it, in reading order."""


@dataclass(slots=True, eq=False)
class SelectedCandidate:
    """A candidate that may become a result, with its chunk, document facts and trust."""

    candidate: Candidate
    facts: DocumentFacts
    chunk: Chunk
    trust: TrustScore | None
    duplicates: tuple[str, ...] = ()
    rerank_score: float | None = None
    is_echo: bool = False
    """Whether it merely repeats the question: such candidates stay behind all others."""
    doubt: float = 0.0
    """The share that its scores lose for what callers say against it."""


@dataclass(slots=True, eq=False)
class CandidateSelection:
    """The candidates that may become results, in fused order, and the number of dropped ones by reason."""

    candidates: list[SelectedCandidate] = field(default_factory=list)
    dropped: Counter[Reason] = field(default_factory=Counter)
    echo_count: int = 0

    def needs_more(self, top_k: int, depth: int, found: int) -> bool:
        """Return whether a deeper search may help: too few remain of the last one, which `found` all of its `depth`."""
        if sum(not one.is_echo for one in self.candidates) >= top_k or found < depth:
            return False
        repeats = self.dropped["duplicates"] + self.dropped["domain"] + self.echo_count
        is_unfit = self.dropped["trust"] + self.dropped["guard"] > 0
        return is_unfit or (repeats > 0 and DEEPER * depth <= MOST_CANDIDATES)


def select_candidates(
    source: ChunkSource, query: Query, ranked: Sequence[Candidate], ranking: Ranking, now: datetime
) -> CandidateSelection:
    """Select the best candidates that are trusted, distinct and within the domain cap, as many as later steps use."""
    selection = CandidateSelection()
    selected = selection.candidates
    distinct = DistinctTexts(ranking.duplicate_threshold(query))
    cap, sources = ranking.max_per_domain(query), Counter[str]()
    wanted = len(ranked) if ranking.diversity(query) else max(query.top_k, ranking.rerank_depth(query))
    doubts = ranking.doubts()
    read: Iterator[Read] = ((one, *source.read(one.number)) for one in ranked)
    if doubts:
        read = _lower_doubted(read, doubts)
    for candidate, facts, chunk, is_echo in _echoes_last(query.query, read):
        selection.echo_count += is_echo
        if is_blocked(chunk):
            selection.dropped["guard"] += 1
            continue
        trust = ranking.trust.score(facts.url, facts.provenance, chunk.chunk_id, now) if ranking.trust else None
        if trust and (doubt := doubts.get(chunk.chunk_id, 0.0)):
            trust = trust.lowered(doubt)
        if trust and trust.score < query.trust_threshold:
            selection.dropped["trust"] += 1
            continue
        one = SelectedCandidate(candidate, facts, chunk, trust, is_echo=is_echo, doubt=doubts.get(chunk.chunk_id, 0.0))
        if (duplicate := distinct.find_duplicate(chunk.text)) is not None:
            selected[duplicate] = _join_copies(selected[duplicate], one)
            selection.dropped["duplicates"] += 1
        elif cap and sources[_source_of(facts)] >= cap:
            selection.dropped["domain"] += 1
        else:
            sources[_source_of(facts)] += 1
            distinct.keep(chunk.text)
            selected.append(one)
            if len(selected) == wanted:
                break
    return selection


def _join_copies(first: SelectedCandidate, second: SelectedCandidate) -> SelectedCandidate:
    """Return the copy to keep, naming the other one: the first, unless the second is clearly more trusted.

    So a forged copy of a page does not hide the page, even if it matches better.
    """
    is_clearer = first.trust and second.trust and second.trust.score >= first.trust.score + CLEARLY_MORE_TRUST
    kept, other = (second, first) if is_clearer else (first, second)
    kept.duplicates = (*first.duplicates, other.chunk.chunk_id)
    return kept


def is_blocked(chunk: Chunk) -> bool:
    """Return whether a chunk may not be served: the guard blocks it, or its text differs from the recorded hash."""
    if chunk.inspection is not None and chunk.inspection.verdict is Verdict.BLOCKED:
        return True
    return chunk.checksum != sha256_text(chunk.text)


def _lower_doubted(read: Iterable[Read], doubts: Mapping[str, float]) -> Iterator[Read]:
    """Yield the candidates by their fused scores, of which doubted ones lose a share. Reads no further than needed."""
    held: list[Read] = []
    for candidate, facts, chunk in read:
        while held and held[0][0].fused_score >= candidate.fused_score:
            yield held.pop(0)
        if doubt := doubts.get(chunk.chunk_id):
            score = candidate.fused_score - doubt * abs(candidate.fused_score)
            held.append((replace(candidate, fused_score=score), facts, chunk))
            held.sort(key=lambda one: -one[0].fused_score)
        else:
            yield candidate, facts, chunk
    yield from held


def _echoes_last(question: str, read: Iterable[Read]) -> Iterator[tuple[Candidate, DocumentFacts, Chunk, bool]]:
    """Yield the candidates in their order, with those that merely repeat the question after all others."""
    detector = EchoDetector(question)
    echoes: list[tuple[Candidate, DocumentFacts, Chunk, bool]] = []
    for candidate, facts, chunk in read:
        if detector.is_echo(chunk.text, chunk.language or facts.language):
            echoes.append((candidate, facts, chunk, True))
        else:
            yield candidate, facts, chunk, False
    yield from echoes


def _source_of(facts: DocumentFacts) -> str:
    """Return the host for the domain cap; for a file (no host) or a submission (claimed host) the document id."""
    host = None if facts.provenance.source == "submission" else parse_host(facts.url)
    return host or facts.document_id


@dataclass(frozen=True, slots=True)
class Ranking:
    """Defaults for selecting the results of a reader's queries; a query may override some."""

    settings: QuerySettings
    trust: TrustScorer | None = None
    """None where every source is trusted fully."""
    reranker: Reranker | None = None
    """None where the order of fusion stays."""
    doubts: Callable[[], Mapping[str, float]] = dict
    """Returns the doubt of each passage that callers speak against, by the chunk's id."""

    def trusts(self, facts: DocumentFacts, chunk: Chunk, now: datetime, threshold: float) -> bool:
        """Return whether the source of a chunk is trusted at least by `threshold`."""
        if not threshold or self.trust is None:
            return True
        return self.trust.score(facts.url, facts.provenance, chunk.chunk_id, now).score >= threshold

    def rerank_depth(self, query: Query) -> int:
        """Return the number of candidates that the reranker gets for this query."""
        return self.reranker.depth if self.reranker and query.rerank else 0

    def diversity(self, query: Query) -> float:
        """Return the query's weight, or 0. On SQuAD's questions every weight cost nDCG@10 (0.1: 0.001, 0.3: 0.008)."""
        return query.diversity or 0.0

    def max_per_domain(self, query: Query) -> int:
        """Return the query's cap, else the configured one; 0 means no cap."""
        return self.settings.max_per_domain if query.max_per_domain is None else query.max_per_domain

    def duplicate_threshold(self, query: Query) -> float:
        """Return the query's threshold, else the configured one; 0 keeps every duplicate."""
        return self.settings.duplicate_threshold if query.duplicate_threshold is None else query.duplicate_threshold
