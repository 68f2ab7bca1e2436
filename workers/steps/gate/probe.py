"""The coverage probe: one look at the corpus, measured into the event that the gate decides on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from sluice.contracts.budget import Spend
from sluice.contracts.errors import Unavailable
from sluice.contracts.gate import CoverageProbed, GateRequested, Message, ProbeHit, ProbeSentence, QueryTerm
from sluice.contracts.known_pages import PageMemory
from sluice.gate.decide import depends_on_sentences
from sluice.gate.probe import (
    enough_mass,
    intent_similarity,
    is_informative,
    question_terms,
    sentence_similarities,
    session_measures,
    term_coverage,
)
from sluice.gate.profile import Profile
from sluice.gate.question_words import QUESTION_WORDS
from sluice.gate.sentences import SENTENCES_COMPARED, Passage, Sentence, choose_sentences
from sluice.index.search.probe import RawHit
from sluice.ingest.embed.port import Vectors
from sluice.workers.steps.gate.domain_probe import measure_domain
from sluice.workers.wiring.corpora import CorpusReaders
from sluice.workers.wiring.embedding import EmbeddingService
from sluice.workers.wiring.observers import utc_now

PROBE_HITS = 10
"""Hits that the gate looks at: an answer rarely cites more."""
Judge = Callable[[CoverageProbed, Sequence[str]], tuple[CoverageProbed, Spend]]
"""Adds what a judge says of the passages, and tells what asking it cost."""
READ_HITS = 5
"""Hits whose texts are searched for the question's words: what the profiles' weights were fitted on."""


def probe_coverage(
    request: GateRequested,
    corpus: str,
    profile: Profile,
    embedding: EmbeddingService,
    readers: CorpusReaders,
    page_memory: PageMemory,
    judge: Judge = lambda probed, _: (probed, Spend()),
    remembered: Sequence[str] = (),
) -> tuple[CoverageProbed, Spend]:
    """What `corpus` has on the request's question, how the session stands to it; and what embedding them cost.

    `remembered` are texts of the agent's memory, which count beside the session's messages.

    Where the embedding model is out of reach, the corpus is probed by words alone, and the event says why.
    """
    fingerprint, meant, why = embedding.fingerprint(corpus), None, None
    try:
        meant = _embed(request, remembered, profile, fingerprint, embedding)
    except Unavailable as error:
        why = str(error)
    spend = meant.spend if meant else Spend()
    reader = readers.reader(corpus)
    probe = reader.probe(
        request.query,
        meant.question if meant else None,
        PROBE_HITS,
        question_terms(request.query),
        request.trust_threshold,
    )
    if meant and reader.model_fingerprint not in (None, fingerprint):  # the corpus got another model meanwhile
        again, more = probe_coverage(request, corpus, profile, embedding, readers, page_memory, judge, remembered)
        return again, spend + more
    words = question_terms(request.query, probe.function_words | QUESTION_WORDS.get(probe.language or "", frozenset()))
    passages = [_passage(hit) for hit in probe.hits[:READ_HITS]]
    terms = term_coverage(words, probe.document_frequency, probe.chunk_count, passages)
    sentences = choose_sentences(terms, passages, SENTENCES_COMPARED, enough_mass(probe.chunk_count))
    seen_at = page_memory.seen_at(corpus, [hit.document_id for hit in probe.hits])
    held = _Held()
    if meant and (request.session or remembered):
        held = _measure_held(meant, terms, request.session, remembered)
    probed = CoverageProbed(
        generation=probe.generation,
        journal_offset=probe.journal_offset,
        chunk_count=probe.chunk_count,
        model_fingerprint=fingerprint,
        hits=tuple(_hit(hit, seen_at.get(hit.document_id)) for hit in probe.hits),
        terms=terms,
        intent_similarity=intent_similarity(meant.question, meant.prototypes) if meant else {},
        session_similarity=held.session_similarity,
        session_term_coverage=held.term_coverage,
        memory_similarity=held.memory_similarity,
        probed_at=utc_now(),
        embedder_down=why,
        sentences=tuple(ProbeSentence(chunk_id=one.chunk_id, term_coverage=one.term_coverage) for one in sentences),
        domain=measure_domain(request, profile, corpus, readers.retrieval(corpus), utc_now()),
    )
    if meant is not None and depends_on_sentences(request, probed, profile):
        probed, more = _compare_sentences(probed, sentences, meant, embedding)
        spend += more
    judged, more = judge(probed, [f"{passage.heading}\n{passage.text}" for passage in passages])
    return judged, spend + more


class _Meant(NamedTuple):
    """Vectors of the question (d,), of the session's messages and what is remembered (n, d), of each intent's
    prototypes; and their cost."""

    question: Vectors
    held: Vectors
    prototypes: Mapping[str, Vectors]
    spend: Spend


class _Held(NamedTuple):
    """What the session and memory hold of the question already."""

    session_similarity: tuple[float, ...] = ()
    memory_similarity: tuple[float, ...] = ()
    term_coverage: float = 0.0


def _measure_held(
    meant: _Meant, terms: Sequence[QueryTerm], session: Sequence[Message], remembered: Sequence[str]
) -> _Held:
    told = [Message(role="assistant", content=text) for text in remembered]
    similarity, coverage = session_measures(meant.question, meant.held, terms, [*session, *told])
    asked = [entry.term for entry in terms]
    of_memory = zip(told, similarity[len(session) :], strict=True)
    informing = tuple(cosine for message, cosine in of_memory if is_informative(message, asked))
    return _Held(similarity[: len(session)], informing, coverage)


def _embed(
    request: GateRequested,
    remembered: Sequence[str],
    profile: Profile,
    fingerprint: str,
    embedding: EmbeddingService,
) -> _Meant:
    texts = [request.query, *(message.content for message in request.session), *remembered]
    embedded = embedding.embed_question(texts, fingerprint)
    prototypes = embedding.prototypes(profile, fingerprint)
    return _Meant(embedded.vectors[0], embedded.vectors[1:], prototypes, embedded.spend)


def _compare_sentences(
    probed: CoverageProbed, sentences: Sequence[Sentence], meant: _Meant, embedding: EmbeddingService
) -> tuple[CoverageProbed, Spend]:
    """`probed` with the cosines of its sentences, where the model is in reach; and what embedding them cost."""
    try:
        embedded = embedding.embed_question([one.text for one in sentences], probed.model_fingerprint)
    except Unavailable:
        return probed, Spend()  # the passages were compared, and they stand for their sentences
    similarities = sentence_similarities(meant.question, embedded.vectors)
    measured = zip(probed.sentences, similarities, strict=True)
    compared = tuple(one.model_copy(update={"similarity": similarity}) for one, similarity in measured)
    return probed.model_copy(update={"sentences": compared}), embedded.spend


def _passage(hit: RawHit) -> Passage:
    heading = "\n".join(part for part in (hit.title, *hit.section_path) if part)
    return Passage(hit.chunk_id, heading, hit.text, hit.analyse)


def _hit(hit: RawHit, seen_at: datetime | None) -> ProbeHit:
    """As the gate sees it: a page that was found unchanged is as fresh as if it had been read then."""
    return ProbeHit(
        chunk_id=hit.chunk_id,
        document_id=hit.document_id,
        url=hit.url,
        dense_similarity=hit.dense_similarity,
        lexical_score=hit.lexical_score,
        fetched_at=max(hit.fetched_at, seen_at or hit.fetched_at),
        published_at=hit.published_at,
    )
