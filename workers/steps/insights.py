"""What a profile's domain has an answer checked for, added to it: each check only where the profile asks for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sluice.contracts.gate import GateRequested
from sluice.contracts.index import Answer, Citation
from sluice.contracts.profiles.insights import AnswerInsights, Channel, PassageInsights, Voice
from sluice.contracts.retrieval import RetrievedChunk
from sluice.gate.domains.wanted import InsightSettings
from sluice.gate.entities import extract_brands
from sluice.gate.profile import Profile
from sluice.otel import metrics
from sluice.trust.code.policy import find_code
from sluice.trust.marketing.channels import classify_channel, count_voices, measure_channels
from sluice.trust.marketing.claims import check_disclosure, find_claims, read_sentiment
from sluice.workers.steps.gate.domain_probe import WordSearch, is_code
from sluice.workers.steps.trust.question import find_site, may_be_english
from sluice.workers.wiring.corpora import CorpusReaders

PASSAGES_OF_A_BRAND = 200
"""Of the corpus, counted for each brand: as many as one search gives."""


def add_insights(answer: Answer, request: GateRequested, profile: Profile | None, readers: CorpusReaders) -> Answer:
    """The answer with what the profile asks for; the same answer where it asks for nothing, or nothing is cited."""
    wanted = profile.insights if profile else None
    if profile is None or wanted is None or not answer.citations:
        return answer
    search = WordSearch(readers.retrieval(answer.corpus), answer.corpus)
    looks_at_brands = wanted.voices or wanted.channels
    regions = profile.search.regions
    brands = extract_brands(request.query, request.session, regions, wanted.brands) if looks_at_brands else ()
    brands = tuple(dict.fromkeys((*brands, *wanted.brands)))
    channels = (
        tuple(classify_channel(chunk.url, brands, find_site) for chunk in answer.chunks) if looks_at_brands else ()
    )
    citations = tuple(
        _look_at(citation, chunk, channels[place] if wanted.channels else None, wanted)
        for place, (citation, chunk) in enumerate(zip(answer.citations, answer.chunks, strict=True))
    )
    found = AnswerInsights(
        answer_voices=count_voices(brands, zip(answer.chunks, channels, strict=True)) if wanted.voices else (),
        corpus_voices=_corpus_voices(brands, search) if wanted.voices else (),
        channels=measure_channels(answer.chunks, channels, find_site) if wanted.channels else None,
    )
    _count(citations, found, profile.name)
    return answer.model_copy(update={"citations": citations, "insights": None if found == AnswerInsights() else found})


def preferred_passages(profile: Profile | None) -> Callable[[RetrievedChunk], bool] | None:
    """Which passages the profile puts first; None where it has no preference."""
    if profile is None or profile.insights is None or not profile.insights.repository_first:
        return None
    return lambda chunk: chunk.provenance.repository is not None


def _look_at(citation: Citation, chunk: RetrievedChunk, channel: Channel | None, wanted: InsightSettings) -> Citation:
    is_read = bool(chunk.text) and may_be_english(chunk.text)
    found = PassageInsights(
        sentiment=read_sentiment(chunk.text) if wanted.sentiment and is_read else None,
        disclosure=check_disclosure(chunk.text) if wanted.disclosures and is_read else None,
        claims=find_claims(chunk.text) if wanted.claims and is_read else (),
        channel=channel,
    )
    code = find_code(chunk.text, chunk.language, is_code=is_code(chunk)) if wanted.code and chunk.text else None
    if found == PassageInsights() and code is None:
        return citation
    return citation.model_copy(update={"insights": None if found == PassageInsights() else found, "code": code})


def _corpus_voices(brands: Sequence[str], search: WordSearch) -> tuple[Voice, ...]:
    """How often each brand is named in the passages that the corpus has on any of them."""
    if not brands:
        return ()
    passages = {chunk.chunk_id: chunk for brand in brands for chunk in search(brand, PASSAGES_OF_A_BRAND)}
    return count_voices(
        brands, ((chunk, classify_channel(chunk.url, brands, find_site)) for chunk in passages.values())
    )


def _count(citations: Sequence[Citation], found: AnswerInsights, profile: str) -> None:
    for citation in citations:
        if citation.insights and citation.insights.sentiment:
            metrics.CITED_SENTIMENT.labels(citation.insights.sentiment.label).inc()
        if citation.insights and citation.insights.disclosure:
            metrics.CITED_DISCLOSURES.labels(citation.insights.disclosure.status).inc()
        if citation.insights and citation.insights.claims:
            metrics.CITED_CLAIMS.inc(len(citation.insights.claims))
        if citation.code:
            metrics.CITED_CODE.labels(citation.code.policy).inc()
    if found.channels:
        metrics.CHANNEL_DIVERSITY.labels(profile).observe(found.channels.diversity)
    if found.answer_voices:
        heard = sum(voice.passages > 0 for voice in found.answer_voices)
        metrics.VOICE_COVERAGE.labels(profile).observe(heard / len(found.answer_voices))
