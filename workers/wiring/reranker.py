"""The configured reranker, with its parts of this process: HTTP through the egress proxy, a breaker, a budget."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING

import structlog

from sluice.index.settings import RerankSettings
from sluice.otel import metrics
from sluice.workers.wiring.observers import count_circuit_opened

if TYPE_CHECKING:
    from sluice.index.search.rerank.base import Reranker, Scorer
    from sluice.index.search.rerank.http import Post
    from sluice.ingest.http.fetch import Fetcher

log = structlog.get_logger(__name__)

MOST_ANSWER_BYTES = 1_000_000
"""Largest answer, in bytes; the scores of 200 texts are some 20 kB, and some endpoints send the texts back."""
PAUSE_SECONDS = 30.0
"""Pause of the reranker once most of its last 20 calls (at least 5) failed, before one query tries it again."""


def build_reranker(
    settings: RerankSettings,
    fetcher: Callable[[], Fetcher],
    may_spend: Callable[[], bool],
    hide: Callable[[str], str] = str,
) -> Reranker | None:
    """Build the configured reranker; None if none is. Opens and loads nothing.

    `fetcher` is called at the first request to an endpoint: its requests obey the rules of egress. `may_spend` returns
    whether there is money for one more search. `hide` masks what no endpoint may see.
    """
    if settings.provider == "none":
        return None
    from sluice.index.search.rerank.base import Reranker
    from sluice.ingest.circuit_breaker import Breaker, BreakerRule

    rule = BreakerRule(window=20, least=5, pause_seconds=PAUSE_SECONDS)
    return Reranker(
        _scorer(settings, fetcher, hide),
        depth=settings.depth,
        timeout_seconds=settings.timeout_seconds,
        breaker=Breaker(rule, clock=time.monotonic, on_open=lambda: count_circuit_opened("reranker")),
        may_spend=may_spend,
        on_outcome=lambda outcome: metrics.RERANKS.labels(outcome).inc(),
    )


class DailyBudget:
    """Budget of this process for reranking in a UTC day, in USD. Safe for threads.

    The ledger keeps the budget of runs and their day; this one holds for direct queries too, which have no row in it.
    """

    def __init__(self, price_usd: float, most_usd: float | None, now: Callable[[], datetime]) -> None:
        self._price_usd = price_usd
        self._most_usd = most_usd
        self._now = now
        self._day: date | None = None
        self._calls = 0
        self._guard = threading.Lock()

    def take(self) -> bool:
        """Take the price of one search from the budget; return whether there was enough."""
        if self._most_usd is None or not self._price_usd:
            return True
        with self._guard:
            today = self._now().date()
            if today != self._day:
                self._day, self._calls = today, 0
            if (self._calls + 1) * self._price_usd > self._most_usd + _ROUNDING_USD:
                return False
            self._calls += 1
            return True


_ROUNDING_USD = 1e-9
"""Tolerance in comparisons of sums of floats."""


class MaskedScorer:
    """A scorer on another machine, which sees neither texts nor question before they are masked."""

    def __init__(self, scorer: Scorer, hide: Callable[[str], str]) -> None:
        self._scorer = scorer
        self._hide = hide

    def scores(self, query: str, texts: Sequence[str], timeout_seconds: float) -> Sequence[float]:
        """Implement `Scorer.scores` on masked texts."""
        return self._scorer.scores(self._hide(query), [self._hide(text) for text in texts], timeout_seconds)


def _scorer(settings: RerankSettings, fetcher: Callable[[], Fetcher], hide: Callable[[str], str]) -> Scorer:
    from sluice.index.search.rerank.http import HttpScorer
    from sluice.index.search.rerank.onnx import OnnxScorer

    if settings.provider == "onnx" and settings.model_dir is not None:
        return OnnxScorer(settings.model_dir)
    scorer = HttpScorer(posting(fetcher), settings.url or "", settings.shape, settings.model, settings.key)
    return MaskedScorer(scorer, hide)


def posting(fetcher: Callable[[], Fetcher]) -> Post:
    """Return a function that posts through the egress proxy, with its rules, a cap on the answer and one time limit."""
    from sluice.ingest.http.fetch import FetchLimits

    def post(url: str, headers: Mapping[str, str], content: bytes, timeout_seconds: float) -> tuple[int, bytes]:
        limits = FetchLimits(timeout_seconds=timeout_seconds, max_bytes=MOST_ANSWER_BYTES, max_redirects=0)
        answer = fetcher().exchange(url, method="POST", headers=headers, content=content, limits=limits)
        return answer.status, answer.body

    return post
