"""The answer: passages under `[n]` marks, each with its source and its match, the best first (`text/passage.py`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from statistics import fmean

from sluice.contracts.document import sha256_text
from sluice.contracts.event import Gap
from sluice.contracts.index import NO_TEXT, Answer, Citation
from sluice.contracts.plan import Plan
from sluice.contracts.retrieval import Retrieval, RetrievedChunk
from sluice.contracts.trust import Verdict
from sluice.index.search.citation_link import format_source, link_of
from sluice.text.passage import show_head, show_passage, show_text
from sluice.text.words import estimate_tokens

CountTokens = Callable[[str], int]

MATCH_SHARE = 0.7
"""Share of the best match that a preferred passage must reach: its source does not make up for a poor match."""


def compose_answer(
    query: str,
    corpus: str,
    plan: Plan,
    retrieval: Retrieval,
    max_tokens: int,
    missing: Sequence[Gap] = (),
    count_tokens: CountTokens = estimate_tokens,
    is_preferred: Callable[[RetrievedChunk], bool] | None = None,
) -> Answer:
    """Cite the retrieved chunks within `max_tokens`, the most confident first; repeated texts are cited once.

    Preferred chunks come before others that match hardly better (`prefer`).

    Chunks that a reranker ordered, and those without confidence, keep their order. A passage that does not fit is left
    out, and shorter ones may follow. `count_tokens` counts headings; of a passage its own `token_estimate` is used.
    """
    distinct = drop_repeated_texts(retrieval.chunks)
    if not retrieval.metadata.reranked:
        distinct = order_by_confidence(distinct)
    best = max((chunk.fused_score for chunk in retrieval.chunks), default=0.0)
    if is_preferred is not None:
        distinct = prefer(distinct, is_preferred, best)
    chosen = _within(distinct, max_tokens, count_tokens)
    scores = {score.chunk_id: score for score in retrieval.metadata.trust_scores}
    matches = smooth_matches([match_of(chunk, best) for chunk in chosen])
    citations = tuple(
        cite(number, chunk, match) for number, (chunk, match) in enumerate(zip(chosen, matches, strict=True), 1)
    )
    return Answer(
        query=query,
        corpus=corpus,
        plan=plan,
        generation=retrieval.generation,
        journal_offset=retrieval.journal_offset,
        context="\n\n".join(map(show_passage, citations, chosen, repeat(NO_TEXT))),
        citations=citations,
        chunks=tuple(chosen),
        missing=tuple(missing),
        confidence=retrieval.metadata.confidence,
        limits=retrieval.metadata.limits,
        trust_scores=tuple(scores[chunk.chunk_id] for chunk in chosen if chunk.chunk_id in scores),
        checks=retrieval.metadata.checks,
    )


def drop_repeated_texts(chunks: Sequence[RetrievedChunk]) -> list[RetrievedChunk]:
    """Return the chunks without later ones of equal text, ignoring white space; one chunk of a textless page."""
    first: dict[str, RetrievedChunk] = {}
    for chunk in chunks:
        words = " ".join(chunk.text.split())
        first.setdefault(sha256_text(words) if words else chunk.document_id, chunk)
    return list(first.values())


def order_by_confidence(chunks: list[RetrievedChunk]) -> list[RetrievedChunk]:
    """Return the chunks by confidence, highest first, equals in their order; unchanged where a chunk has no confidence.

    Those marked as a flood stay last. In measurements this order has the right passage first more often than that of
    the fused scores (decision 19).
    """
    if any(chunk.confidence is None for chunk in chunks):
        return chunks
    return sorted(chunks, key=lambda chunk: (chunk.is_flood, -(chunk.confidence or 0.0)))


def prefer(
    chunks: list[RetrievedChunk], is_preferred: Callable[[RetrievedChunk], bool], best_score: float
) -> list[RetrievedChunk]:
    """Return the preferred chunks that match at least `MATCH_SHARE` as well as the best, then the others in order."""
    least = MATCH_SHARE * max((match_of(chunk, best_score) for chunk in chunks), default=0.0)
    first = [
        chunk for chunk in chunks if is_preferred(chunk) and not chunk.is_flood and match_of(chunk, best_score) >= least
    ]
    ids = {chunk.chunk_id for chunk in first}
    return [*first, *(chunk for chunk in chunks if chunk.chunk_id not in ids)]


def match_of(chunk: RetrievedChunk, best_score: float) -> float:
    """Return how well a chunk matches, in [0, 1]: its confidence, else its cosine, else its share of the best score."""
    if chunk.confidence is not None:
        return chunk.confidence
    if chunk.dense_distance is not None:
        return min(1.0, max(0.0, 1.0 - chunk.dense_distance))
    return min(1.0, max(0.0, chunk.fused_score / best_score)) if best_score > 0 else 0.0


def smooth_matches(matches: Sequence[float]) -> list[float]:
    """Return the nearest values that never rise, so that the matches agree with the order shown.

    Least squares, by the pool-adjacent-violators algorithm (Barlow et al., 1972): a value that is higher than the one
    before it becomes, with that one, the mean of both.
    """
    pools: list[list[float]] = []
    for match in matches:
        pools.append([match])
        while len(pools) > 1 and fmean(pools[-2]) < fmean(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    return [value for pool in pools for value in [fmean(pool)] * len(pool)]


def cite(number: int, chunk: RetrievedChunk, match: float) -> Citation:
    """Return the citation of a chunk."""
    own = {name: getattr(chunk, name) for name in ("chunk_id", "url", "title", "confidence", "trust")}
    known = {name: getattr(chunk.provenance, name) for name in ("author", "published_at", "origin")}
    return Citation(
        number=number,
        source=format_source(chunk),
        match=match,
        licence=_text_fact(chunk, "licence"),
        site_name=_text_fact(chunk, "site_name"),
        warnings=_warnings(chunk),
        link=link_of(chunk),
        graph_path=None if chunk.graph_path is None else str(chunk.graph_path),
        **own,
        **known,
    )


def _warnings(chunk: RetrievedChunk) -> tuple[str, ...]:
    """Return the rules of the guard that flagged the chunk, each once."""
    if chunk.inspection is None or chunk.inspection.verdict is Verdict.PASSED:
        return ()
    return tuple(dict.fromkeys(finding.rule for finding in chunk.inspection.findings))


def _text_fact(chunk: RetrievedChunk, name: str) -> str | None:
    """Return the value of that name in the document's metadata; None where it is not text."""
    fact = chunk.metadata.get(name)
    return fact if isinstance(fact, str) else None


def _within(chunks: Sequence[RetrievedChunk], max_tokens: int, count_tokens: CountTokens) -> list[RetrievedChunk]:
    chosen: list[RetrievedChunk] = []
    left = max_tokens
    for chunk in chunks:
        if not chunk.text:
            cost = count_tokens(NO_TEXT)
        elif _warnings(chunk):
            cost = count_tokens(show_text(chunk.text, _warnings(chunk)))
        else:
            cost = max(chunk.token_estimate, 1)
        cost += count_tokens(f"{show_head(cite(len(chosen) + 1, chunk, 1.0), chunk)}\n\n\n")
        if cost <= left:
            chosen.append(chunk)
            left -= cost
    return chosen


def hide_nosnippet_texts(found: Retrieval) -> Retrieval:
    """Copy the result without the text of chunks whose site forbids snippets: they are ranked by their text but cited
    by title and address alone. Apply this last, after ranking, duplicates and reranking have used the text.

    Headings and symbol names are removed with it, as they are also text of the page.
    """
    if not any(chunk.provenance.nosnippet for chunk in found.chunks):
        return found
    without_text = {"text": "", "section_path": (), "symbol_path": None, "token_estimate": 0}
    chunks = (chunk.model_copy(update=without_text) if chunk.provenance.nosnippet else chunk for chunk in found.chunks)
    return found.model_copy(update={"chunks": tuple(chunks)})
