"""The answer: ranked passages under `[n]` marks, each with its source, references at the foot.

[1] docs/leases.md:10-24 · Leases > Renewal
A lease is renewed by its holder …

Sources:
[1] docs/leases.md:10-24 (91% match)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from contracts.document import sha256_text
from contracts.event import Gap
from contracts.gate import Plan
from contracts.index import Answer, Citation
from contracts.retrieval import Retrieval, RetrievedChunk
from contracts.trust import Verdict
from index.search.citation_link import link_of

CountTokens = Callable[[str], int]

NO_TEXT = "(The site asks that no text of this page be shown; it can be read there.)"
"""Replaces the text of a page with `nosnippet`."""
_SOURCES_HEADING = "Sources:"
_CHARACTERS_PER_TOKEN = 3
"""Fewer than usual: the estimate errs towards too many tokens, so that the budget holds."""


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text without a tokenizer; errs towards too many."""
    return math.ceil(len(text) / _CHARACTERS_PER_TOKEN)


def compose_answer(
    query: str,
    corpus: str,
    plan: Plan,
    retrieval: Retrieval,
    max_tokens: int,
    missing: Sequence[Gap] = (),
    count_tokens: CountTokens = estimate_tokens,
) -> Answer:
    """Cite the retrieved chunks in order of rank, within `max_tokens`; repeated texts are cited once.

    A passage that does not fit is left out, and shorter ones may follow. `count_tokens` counts headings and references;
    of a passage its own `token_estimate` is used.
    """
    chosen = _within(drop_repeated_texts(retrieval.chunks), max_tokens, count_tokens)
    scores = {score.chunk_id: score for score in retrieval.metadata.trust_scores}
    best = max((chunk.fused_score for chunk in retrieval.chunks), default=0.0)
    citations = tuple(cite(number, chunk, best) for number, chunk in enumerate(chosen, start=1))
    return Answer(
        query=query,
        corpus=corpus,
        plan=plan,
        generation=retrieval.generation,
        journal_offset=retrieval.journal_offset,
        context=_context(chosen, citations),
        citations=citations,
        chunks=tuple(chosen),
        missing=tuple(missing),
        trust_scores=tuple(scores[chunk.chunk_id] for chunk in chosen if chunk.chunk_id in scores),
        checks=retrieval.metadata.checks,
    )


def drop_repeated_texts(chunks: Sequence[RetrievedChunk]) -> list[RetrievedChunk]:
    """The chunks without later ones of the same text, white space aside; of a page without text one."""
    first: dict[str, RetrievedChunk] = {}
    for chunk in chunks:
        words = " ".join(chunk.text.split())
        first.setdefault(sha256_text(words) if words else chunk.document_id, chunk)
    return list(first.values())


def cite(number: int, chunk: RetrievedChunk, best_score: float) -> Citation:
    """The citation of a chunk. `match` is its cosine, else its score as a share of the best one's."""
    if chunk.dense_distance is not None:
        match = 1.0 - chunk.dense_distance
    else:
        match = chunk.fused_score / best_score if best_score > 0 else 0.0
    return Citation(
        number=number,
        chunk_id=chunk.chunk_id,
        source=format_source(chunk),
        url=chunk.url,
        title=chunk.title,
        match=min(1.0, max(0.0, match)),
        author=chunk.provenance.author,
        published_at=chunk.provenance.published_at,
        licence=_text_fact(chunk, "licence"),
        site_name=_text_fact(chunk, "site_name"),
        origin=chunk.provenance.origin,
        trust=chunk.trust,
        warnings=_warnings(chunk),
        link=link_of(chunk),
    )


def _warnings(chunk: RetrievedChunk) -> tuple[str, ...]:
    """The rules of the guard that mark the chunk, each once."""
    if chunk.inspection is None or chunk.inspection.verdict is Verdict.PASSED:
        return ()
    return tuple(dict.fromkeys(finding.rule for finding in chunk.inspection.findings))


def _text_fact(chunk: RetrievedChunk, name: str) -> str | None:
    """What the document's metadata has under that name, where it is text."""
    fact = chunk.metadata.get(name)
    return fact if isinstance(fact, str) else None


def format_source(chunk: RetrievedChunk) -> str:
    """`path:start-end`, or the URL's when there is no path, or the document's id when there is neither."""
    return f"{chunk.file_path or chunk.url or chunk.document_id}:{chunk.start_line}-{chunk.end_line}"


def _within(chunks: Sequence[RetrievedChunk], max_tokens: int, count_tokens: CountTokens) -> list[RetrievedChunk]:
    chosen: list[RetrievedChunk] = []
    left = max_tokens - count_tokens(f"{_SOURCES_HEADING}\n")
    for chunk in chunks:
        number = len(chosen) + 1
        frame = f"{_frame(number, chunk)}\n\n\n[{number}] {format_source(chunk)} (100% match)\n"
        cost = count_tokens(frame) + (max(chunk.token_estimate, 1) if chunk.text else count_tokens(NO_TEXT))
        if cost <= left:
            chosen.append(chunk)
            left -= cost
    return chosen


def _context(chunks: Sequence[RetrievedChunk], citations: Sequence[Citation]) -> str:
    if not chunks:
        return ""
    passages = [f"{_frame(number, chunk)}\n{_text(chunk)}" for number, chunk in enumerate(chunks, start=1)]
    references = [f"[{one.number}] {one.source} ({round(100 * one.match)}% match)" for one in citations]
    return "\n\n".join([*passages, "\n".join([_SOURCES_HEADING, *references])])


def _text(chunk: RetrievedChunk) -> str:
    """Its first line keeps its indentation: it may be code."""
    return chunk.text.strip("\n").rstrip() or NO_TEXT


def _frame(number: int, chunk: RetrievedChunk) -> str:
    heading = " > ".join(dict.fromkeys(part for part in (chunk.title, *chunk.section_path, chunk.symbol_path) if part))
    return f"[{number}] {format_source(chunk)}" + (f" · {heading}" if heading else "")
