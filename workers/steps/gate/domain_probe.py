"""What a profile's domain wants measured before the gate decides: searches of the corpus by words alone, no model.

A profile that weighs none of it costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sluice.contracts.gate import GateRequested
from sluice.contracts.profiles.measures import Dependency, DomainMeasures, MentionVelocity
from sluice.contracts.retrieval import Filters, Query, RetrievalPort, RetrievedChunk, Strategy
from sluice.gate.domains.releases import newest_release
from sluice.gate.domains.repository import count_todo_marks
from sluice.gate.domains.velocity import measure_velocity
from sluice.gate.entities import extract_brands
from sluice.gate.probe import question_terms
from sluice.gate.profile import Profile
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
from sluice.trust.marketing.channels import names_in

MENTIONS = 200
"""Passages that name a brand, the best first, whose documents are counted: as many as one search gives."""
FACTS = 50
"""Passages of dependencies or reports that are read: some thousand lines."""
RELEASES = 30
"""Passages about releases of one package that are read."""
CODE_HITS = 10
"""As many as the gate looks at."""
MOST_DEPENDENCIES = 5
"""Of one question: it names one or two."""


def measure_domain(
    request: GateRequested, profile: Profile, corpus: str, port: RetrievalPort, now: datetime
) -> DomainMeasures | None:
    """What the profile weighs of its domain; None where it weighs nothing of the kind."""
    weights, search = profile.weights, WordSearch(port, corpus)
    measured: dict[str, object] = {}
    if weights.mention_velocity is not None:
        measured["velocity"] = _velocity(request, profile, search, now)
    if weights.dependency_drift is not None:
        measured["dependencies"] = _dependencies(request, search)
    if weights.failing_tests is not None:
        measured["failing_tests"] = _failing_tests(request, search)
    if weights.todo_density is not None:
        code = [chunk.text for chunk in search(request.query, CODE_HITS) if is_code(chunk)]
        measured["todo_marks"], measured["code_lines"] = count_todo_marks(code)
    measures = DomainMeasures.model_validate(measured)
    return None if measures == DomainMeasures() else measures


def is_code(chunk: RetrievedChunk) -> bool:
    """Whether a passage is of a file of code."""
    return chunk.language is not None and code_language(code_media_type(chunk.language)) is not None


class WordSearch:
    """Searches of one corpus by words: every source, whatever its trust, without rerankers or caps."""

    def __init__(self, port: RetrievalPort, corpus: str) -> None:
        self._port, self._corpus = port, corpus

    def __call__(self, text: str, most: int, facts: str | None = None) -> tuple[RetrievedChunk, ...]:
        """The best passages for a text, of the documents that tell such `facts` alone where they are named."""
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
    """The packages that the question names, as the repositories of the corpus pin them, and what is indexed of them."""
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
    """Where a passage is from and what stands over it, its own first line too; and its text."""
    first_line = chunk.text.strip().partition("\n")[0]
    head = (chunk.url, chunk.file_path, chunk.title, *chunk.section_path, first_line)
    return "\n".join(part for part in head if part), chunk.text


def _failing_tests(request: GateRequested, search: WordSearch) -> tuple[str, ...]:
    failing = [name for chunk in search(request.query, FACTS, TESTS) for name in read_failing_tests(chunk.text)]
    return tuple(dict.fromkeys(name for name in failing if _names(name, question_terms(request.query))))[:10]


def _names(test: str, terms: Sequence[str]) -> bool:
    """Whether a test's name holds a term of the question of four letters or more."""
    name = test.casefold()
    return any(len(term) >= 4 and term in name for term in terms)
