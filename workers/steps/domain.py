"""Measures a profile's domain features before the gate decides, and adds domain facts to the answer.

Both search the corpus by words alone, without a model. A profile that enables none of it costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from sluice.contracts.gate import GateRequested
from sluice.contracts.index import Answer, Citation
from sluice.contracts.profiles import (
    AnswerInsights,
    Channel,
    Dependency,
    DomainMeasures,
    MentionVelocity,
    PassageInsights,
    Voice,
)
from sluice.contracts.retrieval import Filters, Query, RetrievalPort, RetrievedChunk, Strategy
from sluice.gate.domains import InsightSettings, count_todo_marks, measure_velocity, newest_release
from sluice.gate.probe import question_terms
from sluice.gate.profile import Profile
from sluice.gate.seeds import extract_brands
from sluice.ingest.extract.media_types import code_language, code_media_type
from sluice.ingest.repository.facts import (
    DEPENDENCIES,
    FACTS_KEY,
    TESTS,
    is_manifest,
    names_dependency,
    read_dependencies,
    read_failing_tests,
)
from sluice.otel import metrics
from sluice.trust.code.policy import find_code
from sluice.trust.marketing.channels import classify_channel, count_voices, measure_channels, names_in
from sluice.trust.marketing.claims import check_disclosure, find_claims, read_sentiment
from sluice.workers.steps.trusted import find_site, may_be_english
from sluice.workers.wiring.corpora import CorpusReaders

MENTIONS = 200
"""Passages that name a brand, the best first, whose documents are counted: the most that one search returns."""
FACTS = 50
"""Passages of dependencies or reports that are read: some thousand lines."""
RELEASES = 30
"""Passages about releases of one package that are read."""
CODE_HITS = 10
"""Hits searched for code: as many as the gate looks at."""
MOST_DEPENDENCIES = 5
"""Most dependencies of one question: it names one or two."""


def measure_domain(
    request: GateRequested, profile: Profile, corpus: str, port: RetrievalPort, now: datetime
) -> DomainMeasures | None:
    """Measure what the profile weighs of its domain; None if there is nothing to measure."""
    weights, search = profile.weights, WordSearch(port, corpus)
    measured: dict[str, object] = {}
    if weights.mention_velocity is not None:
        measured["velocity"] = _velocity(request, profile, search, now)
    if weights.dependency_drift is not None:
        measured["dependencies"] = _dependencies(request, search)
    if weights.failing_tests is not None:
        failing = [name for chunk in search(request.query, FACTS, TESTS) for name in read_failing_tests(chunk.text)]
        terms = question_terms(request.query)
        measured["failing_tests"] = tuple(dict.fromkeys(name for name in failing if _names(name, terms)))[:10]
    if weights.todo_density is not None:
        code = [chunk.text for chunk in search(request.query, CODE_HITS) if is_code(chunk)]
        measured["todo_marks"], measured["code_lines"] = count_todo_marks(code)
    measures = DomainMeasures.model_validate(measured)
    return None if measures == DomainMeasures() else measures


def is_code(chunk: RetrievedChunk) -> bool:
    """Return whether a passage comes from a file of code."""
    return chunk.language is not None and code_language(code_media_type(chunk.language)) is not None


class WordSearch:
    """Search of one corpus by words: every source, whatever its trust, without rerankers or caps."""

    def __init__(self, port: RetrievalPort, corpus: str) -> None:
        self._port, self._corpus = port, corpus

    def __call__(self, text: str, most: int, facts: str | None = None) -> tuple[RetrievedChunk, ...]:
        """Return the best passages for a text; with `facts`, only of documents that hold facts of that kind."""
        filters = Filters(metadata={FACTS_KEY: facts}) if facts else Filters()
        query = Query(
            query=text,
            corpus=self._corpus,
            top_k=most,
            strategy=Strategy.BM25,
            filters=filters,
            max_per_domain=0,
            duplicate_threshold=0.0,
            diversity=0.0,
            rerank=False,
        )
        return self._port.retrieve(query).chunks


def _velocity(request: GateRequested, profile: Profile, search: WordSearch, now: datetime) -> MentionVelocity | None:
    known = profile.insights.brands if profile.insights else ()
    brands = extract_brands(request.query, request.session, profile.search.regions, known)
    if not brands:
        return None
    dates: dict[str, datetime] = {}
    for chunk in search(brands[0], MENTIONS):
        published = chunk.provenance.published_at
        if published and names_in(f"{chunk.title or ''}\n{chunk.text}", brands[:1]):
            dates[chunk.document_id] = published
    return measure_velocity(brands[0], dates.values(), now)


def _dependencies(request: GateRequested, search: WordSearch) -> tuple[Dependency, ...]:
    """Return the packages that the question names, as the corpus's repositories pin them, with their newest release."""
    found = search(request.query, FACTS, DEPENDENCIES)
    used = [
        one for chunk in found for one in read_dependencies(chunk.text) if names_dependency(request.query, one.name)
    ]
    distinct = {(one.name, one.used): one for one in used}
    return tuple(_with_newest(one, search) for one in list(distinct.values())[:MOST_DEPENDENCIES])


def _with_newest(one: Dependency, search: WordSearch) -> Dependency:
    chunks = search(f"{one.name} release changelog version", RELEASES)
    outside = [chunk for chunk in chunks if FACTS_KEY not in chunk.metadata and not is_manifest(chunk.file_path or "")]
    return one.model_copy(update={"newest": newest_release(one.name, map(_with_headings, outside))})


def _with_headings(chunk: RetrievedChunk) -> tuple[str, str]:
    """Return a passage's source and headings, with its own first line; and its text."""
    first_line = chunk.text.strip().partition("\n")[0]
    head = (chunk.url, chunk.file_path, chunk.title, *chunk.section_path, first_line)
    return "\n".join(part for part in head if part), chunk.text


def _names(test: str, terms: Sequence[str]) -> bool:
    """Return whether a test's name holds a term of the question of four letters or more."""
    name = test.casefold()
    return any(len(term) >= 4 and term in name for term in terms)


PASSAGES_OF_A_BRAND = 200
"""Passages of the corpus counted for each brand: the most that one search returns."""


def add_insights(answer: Answer, request: GateRequested, profile: Profile | None, readers: CorpusReaders) -> Answer:
    """Add the insights that the profile enables to the answer; unchanged if there are none, or nothing is cited."""
    wanted = profile.insights if profile else None
    if profile is None or wanted is None or not answer.citations:
        return answer
    search = WordSearch(readers.reader(answer.corpus), answer.corpus)
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
    """Return a test for the passages that the profile puts first; None if it has no preference."""
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
    """Count how often each brand is named in the passages that the corpus has on any of them."""
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
