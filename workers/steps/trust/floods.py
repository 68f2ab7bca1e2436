"""Marks the passages of a retrieval that were made for its question, or to be found by every question."""

from __future__ import annotations

from sluice.contracts.retrieval import Retrieval, RetrievedChunk
from sluice.contracts.trust import Finding, Inspection, TrustScore
from sluice.index.terms.analysis import extract_content_terms, passage_terms
from sluice.trust.floods import Passage, find_crafted
from sluice.trust.settings import TrustSettings
from sluice.trust.source_trust import is_believed
from sluice.trust.top_passages import TopPassages
from sluice.workers.steps.trust.question import find_site

RULE = "flood"
EVERYWHERE = "top-of-unrelated-questions"


class EnglishAnalysis:
    """How the index reads English; of other languages it finds the words without their stems."""

    def terms(self, text: str) -> tuple[str, ...]:
        """As `trust.floods.Analysis.terms`."""
        return passage_terms(text)

    def content(self, text: str) -> tuple[str, ...]:
        """As `trust.floods.Analysis.content`."""
        return extract_content_terms(text)


def mark_floods(
    found: Retrieval, question: str, settings: TrustSettings, top_passages: TopPassages | None = None
) -> Retrieval:
    """The retrieval with a warning on each passage that was made for the question, or to be found by every question.

    Trusted sources are not judged. `top_passages` remembers what the corpus's latest questions found first.
    """
    scores = {score.chunk_id: score for score in found.metadata.trust_scores}
    judged = [
        position
        for position, chunk in enumerate(found.chunks)
        if not is_trusted_source(chunk, scores.get(chunk.chunk_id), settings)
    ]
    passages = [_passage(found.chunks[position]) for position in judged]
    analysis = EnglishAnalysis()
    rules = dict.fromkeys((judged[position] for position in find_crafted(question, passages, analysis)), RULE)
    if top_passages is not None:
        ids = [chunk.chunk_id for chunk in found.chunks]
        everywhere = top_passages.add(analysis.content(question), ids)
        rules |= {position: EVERYWHERE for position in judged if ids[position] in everywhere}
    if not rules:
        return found
    chunks = (
        _marked(chunk, rules[position]) if position in rules else chunk for position, chunk in enumerate(found.chunks)
    )
    return found.model_copy(update={"chunks": tuple(chunks)})


def is_trusted_source(chunk: RetrievedChunk, score: TrustScore | None, settings: TrustSettings) -> bool:
    """Whether the operator vouches for the source: a file, a listed domain or sender, a valid signature."""
    provenance = chunk.provenance
    if provenance.origin == "file" or is_believed(provenance.origin, provenance.submitted_by, settings.submitters):
        return True
    return score is not None and (score.factors.domain_trust == 1.0 or score.factors.signature_valid is True)


def _passage(chunk: RetrievedChunk) -> Passage:
    """Who stands behind a submission is not known, so each counts by itself, whatever address it claims."""
    is_submitted = chunk.provenance.origin == "submitted"
    site = find_site(chunk.url) if chunk.url and not is_submitted else None
    text = "\n".join(part for part in (chunk.title, *chunk.section_path, chunk.text) if part)
    return Passage(text, site or chunk.document_id, is_submitted)


def _marked(chunk: RetrievedChunk, rule: str) -> RetrievedChunk:
    finding = Finding(rule=rule, start=0, end=len(chunk.text))
    return chunk.model_copy(update={"inspection": (chunk.inspection or Inspection()).with_warning(finding)})
