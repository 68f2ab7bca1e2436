"""Reranking: a model that reads question and text together orders the best candidates anew.

A reranker is optional, may be slow and may run on another machine, so it never makes a search fail:

    breaker open ─────────┐
    budget too small ─────┤
    time-out, any error ──┴──> NotReranked: the fused order stays, and the result has the reason

The model is a `Scorer`: an endpoint (`index.search.rerank.http`) or a local model (`index.search.rerank.onnx`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

from sluice.contracts.errors import Fenced, SluiceError, Unavailable
from sluice.contracts.retrieval import RetrievedChunk


class NotReranked(Unavailable):
    """Raised where the order of fusion stays. `was_asked` tells whether the reranker may have charged for a call."""

    code = "not_reranked"

    def __init__(self, reason: str, *, was_asked: bool) -> None:
        self.was_asked = was_asked
        super().__init__(reason)


class Scorer(Protocol):
    """Judges how well each text answers a question. Safe for threads."""

    def scores(self, query: str, texts: Sequence[str], timeout_seconds: float) -> Sequence[float]:
        """Return one finite score for each text, in their order; higher is better.

        Raises an error of `contracts.errors` when it does not finish within `timeout_seconds`.
        """


class Breaker(Protocol):
    """A circuit breaker: rejects calls while most of the last ones failed. Safe for threads."""

    def admit(self) -> bool:
        """Return whether the caller may make a call. The caller then reports the outcome to `record`."""

    def record(self, *, failed: bool) -> None:
        """Record the outcome of a call."""


class Reranker:
    """Orders the best `depth` candidates by a scorer's scores, within a time limit, a breaker and a budget.

    `may_spend` returns whether the budget allows one more search, and books it. `on_outcome` gets the outcome of every
    search: `ok`, `failed`, `left_alone` or `no_budget`.
    """

    def __init__(
        self,
        scorer: Scorer,
        depth: int,
        timeout_seconds: float,
        breaker: Breaker,
        may_spend: Callable[[], bool] = lambda: True,
        on_outcome: Callable[[str], None] = lambda outcome: None,
    ) -> None:
        self.depth = depth
        self._scorer = scorer
        self._timeout_seconds = timeout_seconds
        self._breaker = breaker
        self._may_spend = may_spend
        self._on_outcome = on_outcome

    def rerank(self, query: str, chunks: Sequence[RetrievedChunk]) -> Sequence[RetrievedChunk]:
        """Return the chunks with their `rerank_score`, best first; equal scores keep the order of fusion.

        Their `rank` stays the one of fusion and identifies them. Raises `NotReranked` where the scorer fails or takes
        too long, and `Fenced` where the work was cancelled.
        """
        self._admit()
        try:
            scores = self._scorer.scores(query, [compose_text(chunk) for chunk in chunks], self._timeout_seconds)
            check_scores(scores, len(chunks))
        except Fenced:
            self._breaker.record(failed=False)
            raise
        except Exception as error:  # a failing model or endpoint must not fail the search
            self._breaker.record(failed=True)
            self._on_outcome("failed")
            raise NotReranked(_reason(error), was_asked=True) from error
        self._breaker.record(failed=False)
        self._on_outcome("ok")
        scored = [chunk.model_copy(update={"rerank_score": score}) for chunk, score in zip(chunks, scores, strict=True)]
        return sorted(scored, key=lambda chunk: -(chunk.rerank_score or 0.0))

    def _admit(self) -> None:
        if not self._breaker.admit():
            self._on_outcome("left_alone")
            raise NotReranked("most of its last calls failed, so it is not asked for a while", was_asked=False)
        if not self._may_spend():
            self._on_outcome("no_budget")
            raise NotReranked("the day's budget leaves no room for it", was_asked=False)


def compose_text(chunk: RetrievedChunk) -> str:
    """Return the text to score: title and headings, which often name the subject, then the chunk's text."""
    parts = (chunk.title, *chunk.section_path, chunk.symbol_path)
    heading = " > ".join(dict.fromkeys(part for part in parts if part))
    return f"{heading}\n{chunk.text}" if heading else chunk.text


def check_scores(scores: Sequence[float], expected: int) -> None:
    """Raise `Unavailable` unless there is one finite score for each text."""
    if len(scores) != expected:
        raise Unavailable(f"the reranker gave {len(scores)} scores for {expected} texts")
    if not all(math.isfinite(score) for score in scores):
        raise Unavailable("the reranker gave a score that is no finite number")


def _reason(error: Exception) -> str:
    """Return the message of the project's own errors; of others only the type: a message may quote a text or a key."""
    return str(error) if isinstance(error, SluiceError) else f"the reranker failed with {type(error).__name__}"
