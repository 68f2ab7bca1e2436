"""Several providers' answers to one question, as one.

Promises: each page stands in the result once, under its canonical address; what several providers found comes before
what one of them found as high; and no site takes the first places for itself.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from sluice.contracts.ingest import SearchResult
from sluice.ingest.url import site_of

RANK_OFFSET = 60
"""The constant of reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009)."""
MOST_OF_A_SITE = 2
"""Results of one site before the others have had their turn."""


def merged(answers: Sequence[Sequence[SearchResult]], top_k: int) -> tuple[SearchResult, ...]:
    """The best `top_k` of all answers, ranked anew from 1. Their addresses are canonical already.

    A result's score is the sum of `1 / (60 + rank)` over the answers that hold it; where two are equal, the one that
    an earlier answer holds comes first. Of a page that several hold, the first that says something is taken for each
    of title, snippet and date.
    """
    scores: dict[str, float] = defaultdict(float)
    alike: dict[str, list[SearchResult]] = defaultdict(list)
    for answer in answers:
        for rank, result in enumerate(answer, 1):
            key = _without_scheme(result.url)
            scores[key] += 1 / (RANK_OFFSET + rank)
            alike[key].append(result)
    best_first = sorted(scores, key=lambda key: -scores[key])
    spread = diverse([_united(alike[key]) for key in best_first])
    return tuple(result.model_copy(update={"rank": rank}) for rank, result in enumerate(spread[:top_k], 1))


def diverse(results: Sequence[SearchResult]) -> list[SearchResult]:
    """The results in rounds: at most two of each site, then two more, and so on; in their order within each."""
    taken: Counter[str] = Counter()
    rounds: list[tuple[int, SearchResult]] = []
    for result in results:
        site = site_of(result.url)
        rounds.append((taken[site] // MOST_OF_A_SITE, result))
        taken[site] += 1
    return [result for _, result in sorted(rounds, key=lambda entry: entry[0])]


def _united(alike: Sequence[SearchResult]) -> SearchResult:
    first = alike[0]
    secure = next((result.url for result in alike if result.url.startswith("https:")), first.url)
    return first.model_copy(
        update={
            "url": secure,
            "snippet": next((result.snippet for result in alike if result.snippet), ""),
            "published_at": next((result.published_at for result in alike if result.published_at), None),
        }
    )


def _without_scheme(url: str) -> str:
    return url.partition("://")[2]
