"""Evidence: everything that is known of one citation of an answer, for whoever checks whether it holds."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sluice.contracts.base import CorpusName, Moment, Value
from sluice.contracts.index import StaleCitation
from sluice.contracts.learning.passages import PassageReason
from sluice.contracts.trust import Origin, TrustPart

Standing = Literal["trusted", "unknown", "held back"]
"""How far the passage's source is trusted, in words. `held back`: the guard blocks the passage by now."""
MOST_SNIPPET = 200
"""Most characters shown of a passage: enough to judge by, little enough to quote."""


class Span(Value):
    """Characters of a text: `text[start:end]`."""

    start: int
    end: int


class FiredRule(Value):
    """A rule of the guard that marks the passage, with the words that it matched."""

    rule: str
    text: str
    score: float | None
    """The model's probability, if the rule is a model."""


class OtherSource(Value):
    """Another site with a passage that probably answers as well, by its best citation in the answer."""

    site: str
    number: int
    confidence: float


class EvidenceView(Value):
    """`GET /v1/runs/{run_id}/evidence/{number}`: the citation `[number]` of the run's answer."""

    run_id: str
    number: int
    corpus: CorpusName
    question: str
    sentence: str | None
    """The sentence that cites it: of what the agent wrote, as its feedback tells, else of the answer's context."""
    sentence_of: Literal["response", "context"] | None
    snippet: str
    """At most 200 characters of the passage, where most of the question's words are; masked as the settings say."""
    matched: tuple[Span, ...]
    """Where the question's words stand in the snippet."""
    withheld: str | None
    """Why there is no snippet."""
    standing: Standing
    trust: float | None
    """The trust in the source when it was cited, in [0, 1]."""
    trust_parts: tuple[TrustPart, ...]
    """What the trust is the sum of; those without a number did not apply."""
    doubt: float
    """The share of its score and trust that it loses by now for what callers say against it."""
    confidence: float | None
    """The probability that the passage answers the question."""
    outcomes: int
    """Judged answers of the corpus that the confidence is calibrated by; below `outcomes_needed` they say nothing, and
    it rests on public collections alone."""
    outcomes_needed: int
    origin: Origin
    source: str
    title: str | None
    author: str | None
    licence: str | None
    url: str | None
    link: str | None
    """An address that opens the live page at the passage."""
    fetched_at: Moment
    revalidated_at: Moment | None
    """When its page was last read or found unchanged; None if that is not known."""
    generation: str | None
    rules: tuple[FiredRule, ...]
    others: tuple[OtherSource, ...]
    stale: StaleCitation | None
    """That and when the passage changed at its source after the answer."""
    document_id: str
    chunk_id: str
    start_line: int
    end_line: int
    is_kept: bool
    """Whether the corpus has the document still."""
    said: PassageReason | None
    """What the caller's own key said against it in this run."""
    marks: Annotated[int, Field(description="How many keys speak against it in this run")]
