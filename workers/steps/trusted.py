"""Limits what an answer may show: `apply_trust` applies one step after another to the retrieval.

Verdicts, scores and spans were computed when the texts were ingested; here they are only read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial

from sluice.contracts.errors import InvalidInput
from sluice.contracts.graph.model import GraphPath
from sluice.contracts.retrieval import Query, Retrieval, RetrievalMetadata, RetrievalStats, RetrievedChunk, Strategy
from sluice.contracts.trust import FLOOD, TrustScore, Verdict, with_warning
from sluice.gate.probe import question_terms
from sluice.index.search.compose_answer import hide_nosnippet_texts
from sluice.index.terms.analysis import (
    ENGLISH,
    LANGUAGES,
    analysis_language,
    extract_content_terms,
    is_function_word,
    passage_terms,
)
from sluice.ingest.url import site_of
from sluice.otel import metrics
from sluice.text.commands import find_commands
from sluice.text.words import inverse_document_frequency
from sluice.trust.confidence import Asked, judge
from sluice.trust.floods import Analysis, Passage, Standing, TopPassages, find_crafted, find_repeated
from sluice.trust.gates import SOURCE_TRUST, check_poisoning, check_source_trust
from sluice.trust.others import is_about_another
from sluice.trust.private.mask import mask_label, mask_retrieval
from sluice.trust.private.patterns import build_finder
from sluice.trust.settings import TrustSettings
from sluice.trust.snippets import shorten_snippets
from sluice.trust.source_trust import is_believed


def apply_trust(
    found: Retrieval,
    query: Query,
    settings: TrustSettings,
    asked: Asked | None = None,
    top_passages: TopPassages | None = None,
) -> Retrieval:
    """Return what may be served of a retrieval, marked and measured. Its confidence is not judged without `asked`.

    `top_passages` remembers what the latest questions to the corpus found first.

    Drops blocked passages, marks doubtful ones and leaves out texts that may not be shown. The gates over the whole
    retrieval come last, as they judge what is served.
    """
    found = drop_blocked(found, warned_too="instructions" in settings.mask)
    found = mark_floods(found, query.query, settings, top_passages)
    sources = find_sources(found, query.query, settings)
    found = put_sources_first(found, sources)
    if asked:
        found = drop_unlikely(judge(found, asked, sources), query.confidence_floor if asked.may_drop else None)
    found = hide_doubtful_paths(found, settings)
    found = hide_nosnippet_texts(found)
    found = mask_private(found, settings)
    found = shorten_snippets(found, settings.snippet_licences)  # after the masks: a cut never leaves half a secret
    return check_gates(found)


def drop_blocked(found: Retrieval, *, warned_too: bool = False) -> Retrieval:
    """Drop blocked chunks, and count them in `guard_dropped` with those that the index left out."""
    refused = (Verdict.BLOCKED, Verdict.WARNED) if warned_too else (Verdict.BLOCKED,)
    served = keep_chunks(found, lambda chunk: chunk.inspection is None or chunk.inspection.verdict not in refused)
    dropped = len(found.chunks) - len(served.chunks)
    if not dropped:
        return found
    metadata = served.metadata.model_copy(update={"guard_dropped": found.metadata.guard_dropped + dropped})
    return served.model_copy(update={"metadata": metadata})


def drop_unlikely(found: Retrieval, floor: float | None) -> Retrieval:
    """Drop the passages whose confidence is below the floor; None keeps them all."""
    if floor is None:
        return found
    kept = keep_chunks(found, lambda chunk: chunk.confidence is None or chunk.confidence >= floor)
    dropped = len(found.chunks) - len(kept.chunks)
    return kept.model_copy(update={"metadata": kept.metadata.model_copy(update={"confidence_dropped": dropped})})


def mask_private(found: Retrieval, settings: TrustSettings) -> Retrieval:
    """Replace each value of the kinds that the settings name by a placeholder; the values are counted, never kept."""
    shown, masked = mask_retrieval(found, settings.mask, build_finder(settings))
    for kind, count in masked.items():
        metrics.MASKED.labels(kind).inc(count)
    return shown


def check_gates(found: Retrieval) -> Retrieval:
    """Add the outcome of the gates I and P, and the trust scores in the order of the chunks."""
    by_chunk = {score.chunk_id: score for score in found.metadata.trust_scores}
    scores = tuple(by_chunk[chunk.chunk_id] for chunk in found.chunks if chunk.chunk_id in by_chunk)
    checks = check_source_trust(scores), check_poisoning(found.chunks, found.metadata.guard_dropped)
    metadata = found.metadata.model_copy(update={"trust_scores": scores, "checks": checks})
    return found.model_copy(update={"metadata": metadata})


def count_gates(metadata: RetrievalMetadata) -> None:
    """Add the outcome of a retrieval's gates to the metrics."""
    for check in metadata.checks:
        metrics.RETRIEVAL_GATES.labels(check.id, "passed" if check.passed else "failed").inc()
        if check.id == SOURCE_TRUST and metadata.trust_scores:
            metrics.SOURCE_TRUST.observe(check.value)
    metrics.GUARD_DROPPED.inc(metadata.guard_dropped)


def keep_chunks(found: Retrieval, keep: Callable[[RetrievedChunk], bool]) -> Retrieval:
    """Keep only the chunks that `keep` admits, with their trust scores; ranks are given anew."""
    kept = [chunk for chunk in found.chunks if keep(chunk)]
    if len(kept) == len(found.chunks):
        return found
    ids = {chunk.chunk_id for chunk in kept}
    scores = tuple(score for score in found.metadata.trust_scores if score.chunk_id in ids)
    metadata = found.metadata.model_copy(update={"trust_scores": scores})
    return _ranked(found.model_copy(update={"metadata": metadata}), kept)


def hide_doubtful_paths(found: Retrieval, settings: TrustSettings) -> Retrieval:
    """Remove paths that read as an instruction, or hold private data of the kinds that are masked.

    The passages stay: their text was judged by itself.
    """
    if not any(chunk.graph_path for chunk in found.chunks):
        return found
    finder = build_finder(settings)

    def is_doubtful(path: GraphPath) -> bool:
        told = str(path)
        return bool(find_commands(told)) or mask_label(told, settings.mask, finder) != told

    def shown(chunk: RetrievedChunk) -> RetrievedChunk:
        if chunk.graph_path is None or not is_doubtful(chunk.graph_path):
            return chunk
        return chunk.model_copy(update={"graph_path": None})

    return found.model_copy(update={"chunks": tuple(map(shown, found.chunks))})


EVERYWHERE = "top-of-unrelated-questions"
ENGLISH_ANALYSIS = Analysis(passage_terms, extract_content_terms)
"""The index's analysis of English; in other languages it finds the words without their stems."""


def mark_floods(
    found: Retrieval, question: str, settings: TrustSettings, top_passages: TopPassages | None = None
) -> Retrieval:
    """Mark passages that were made for the question, or to be found by every question, with a warning.

    Those made for the question come last. Sources that the operator vouches for are never marked. `top_passages`
    remembers what the corpus's latest questions found first.
    """
    passages = _passages(found, settings)
    rules = dict.fromkeys(find_crafted(question, passages, ENGLISH_ANALYSIS), FLOOD)
    if top_passages is not None:
        ids = [chunk.chunk_id for chunk in found.chunks]
        everywhere = top_passages.add(extract_content_terms(question), ids)
        may_mark = (number for number, one in enumerate(passages) if one.standing is not Standing.VOUCHED)
        rules |= {number: EVERYWHERE for number in may_mark if ids[number] in everywhere}
    if not rules:
        return found
    chunks = list(found.chunks)
    for number, rule in rules.items():
        one = chunks[number]
        chunks[number] = one.model_copy(update={"inspection": with_warning(one.inspection, rule, one.text)})
    return _ranked(found, sorted(chunks, key=lambda chunk: chunk.is_flood))


def find_sources(found: Retrieval, question: str, settings: TrustSettings) -> dict[str, str]:
    """Return, by the id of each chunk that repeats a better one, the id of the better one."""
    ids = [chunk.chunk_id for chunk in found.chunks]
    repeated = find_repeated(question, _passages(found, settings), ENGLISH_ANALYSIS)
    return {ids[n]: ids[source] for n, source in repeated.items() if not found.chunks[source].is_flood}


def put_sources_first(found: Retrieval, sources: Mapping[str, str]) -> Retrieval:
    """Return the result with each chunk that repeats another one after it."""
    own = {chunk.chunk_id: rank for rank, chunk in enumerate(found.chunks)}

    def place(chunk_id: str) -> int:
        return max(own[chunk_id], place(sources[chunk_id])) if chunk_id in sources else own[chunk_id]

    return _ranked(found, sorted(found.chunks, key=lambda one: (place(one.chunk_id), one.chunk_id in sources)))


def _ranked(found: Retrieval, chunks: Sequence[RetrievedChunk]) -> Retrieval:
    ranked = tuple(chunk.model_copy(update={"rank": rank}) for rank, chunk in enumerate(chunks, start=1))
    return found.model_copy(update={"chunks": ranked})


def standing_of(chunk: RetrievedChunk, score: TrustScore | None, settings: TrustSettings) -> Standing:
    """Return how far the source speaks for a chunk. The operator vouches for files, for what an operator submits
    without a URL, and for listed domains and senders and valid signatures."""
    origin = chunk.provenance.origin
    is_own = origin == "file" or (origin == "operator" and chunk.url is None)
    if is_own or is_believed(origin, chunk.provenance.submitted_by, settings.submitters):
        return Standing.VOUCHED
    if score is not None and (score.factors.domain_trust == 1.0 or score.factors.signature_valid is True):
        return Standing.VOUCHED
    return Standing.CLAIMED if origin == "submitted" else Standing.FETCHED


def _passages(found: Retrieval, settings: TrustSettings) -> list[Passage]:
    scores = {score.chunk_id: score for score in found.metadata.trust_scores}
    return [_passage(chunk, scores.get(chunk.chunk_id), settings) for chunk in found.chunks]


def _passage(chunk: RetrievedChunk, score: TrustScore | None, settings: TrustSettings) -> Passage:
    standing, provenance = standing_of(chunk, score, settings), chunk.provenance
    text = "\n".join(part for part in (chunk.title, *chunk.section_path, chunk.text) if part)
    site = find_site(chunk.url) if chunk.url else None
    speaker = site or chunk.document_id
    if standing is Standing.VOUCHED:
        speaker = "operator"
    elif provenance.source == "submission":  # of one sender's texts those under one site, or none, are one speaker's
        sender = "operator" if provenance.by_operator else provenance.submitted_by
        speaker = f"{sender} {site or ''}" if sender else chunk.document_id
    return Passage(text, speaker, standing, provenance.known_since.timestamp())


CountChunks = Callable[[Sequence[str]], Mapping[str, int]]
MatchTokens = Callable[[str, str, str], float | None]
"""Returns how well a passage matches a question, by the model of a fingerprint; None where it does not tell."""
LAST_LATIN_LETTER = "\u024f"
_WORD = re.compile(r"\w+")


def describe_question(
    query: Query,
    found: Retrieval,
    stats: RetrievalStats,
    count_chunks_with: CountChunks,
    match_tokens: MatchTokens = lambda question, passage, fingerprint: None,
    prior: float = 0.0,
) -> Asked:
    """Describe the question of a query as its corpus sees it, for what was `found` there.

    `count_chunks_with` returns how many chunks have each of some words. How many chunks pass a filtered search is
    unknown; the candidates found are the least.
    """
    is_english, fingerprint = may_be_english(query.query), stats.model_fingerprint
    words = question_terms(query.query)
    if not is_english:
        words = [word for word in words if not _languages_of(word)] or words
    count = max(1, stats.chunk_count)
    frequencies = count_chunks_with(words)
    has_vector = found.metadata.strategy is not Strategy.BM25
    return Asked(
        words={word: inverse_document_frequency(count, frequencies[word]) for word in words},
        rarest=inverse_document_frequency(count, 1),
        chunk_count=found.metadata.total_candidates if query.condition is not None else count,
        analyse=lambda text, language: passage_terms(text, analysis_language(language)),
        model_fingerprint=fingerprint if has_vector else None,
        is_english=is_english,
        may_be_english=may_be_english,
        site_of=find_site,
        match_tokens=lambda passage: match_tokens(query.query, passage, fingerprint or ""),
        prior=prior,
        is_about_another=partial(is_about_another, query.query, is_english=is_english),
    )


def find_site(url: str) -> str | None:
    """Return the registered domain of a URL; None if it is no URL, which a search result may bring."""
    try:
        return site_of(url) or None
    except InvalidInput:
        return None


def may_be_english(text: str) -> bool:
    """Return whether a question may be English. Keywords and names, which are of no language, may be.

    It is not if most of its letters are not Latin, or if another language has more function words in it, at least two.
    Without any English one, words with letters that English does not have count too, and of another script each two
    letters; one is enough in four to nineteen words, and beyond that one in ten: a list of names has some.
    """
    letters = [letter for letter in text if letter.isalpha()]
    if 2 * sum(letter > LAST_LATIN_LETTER for letter in letters) > len(letters):
        return False
    words = {word for word in _WORD.findall(text.lower()) if len(word) > 1}
    counts = Counter(language for word in words for language in _languages_of(word))
    english = counts.pop(ENGLISH, 0)
    others = max(counts.values(), default=0)
    if english:
        return others <= english or others < 2
    marked = min(sum(not word.isascii() for word in words), max(1, len(words) // 4))
    foreign = others + marked + sum(letter > LAST_LATIN_LETTER for letter in letters) // 2
    return foreign < max(1 if len(words) >= 4 else 2, len(words) // 10)


@lru_cache(maxsize=10_000)
def _languages_of(word: str) -> tuple[str, ...]:
    """Return the languages in which a word is a function word."""
    return tuple(language for language in (ENGLISH, *LANGUAGES) if is_function_word(word, language))
