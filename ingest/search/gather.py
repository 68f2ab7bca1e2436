"""Providers' answers to one question, page by page and put together.

`gather` asks one provider until there is enough: the number of pages is known beforehand; each is a call that is
admitted, counted and paid for by itself; a page that brings nothing new is the last; and when a later page fails, what
was found stands, with the failure named.

`merged` makes one answer of several providers': each page stands in it once, under its canonical address; what several
providers found comes before what one of them found as high; and no site takes the first places for itself.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sluice.contracts.errors import BudgetExhausted, PolicyRefused, Unavailable
from sluice.contracts.ingest import SearchResult
from sluice.ingest.search.port import SearchAnswer, SearchProvider, SearchQuery, pages_at_most
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


Ask = Callable[[SearchProvider, SearchQuery], SearchAnswer]
"""One call, with all that has to be asked and counted before it."""
Usable = Callable[[Sequence[SearchResult]], Sequence[SearchResult]]
"""Those of the results that may be kept, in their order, addresses canonical."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """Usable results of all pages, each address once, in the provider's order; and what the answer lacks."""

    provider: str
    results: tuple[SearchResult, ...]
    is_empty: bool
    """Whether the provider said that there is nothing, rather than nothing that is usable."""
    shortfalls: tuple[str, ...] = ()


def gather(provider: SearchProvider, query: SearchQuery, ask: Ask, usable: Usable) -> Gathered:
    """The answer of `provider`, of as many pages as `query.top_k` takes.

    Raises:
        Unavailable, PolicyRefused, BudgetExhausted: what `ask` raises for the first page.
    """
    found: dict[str, SearchResult] = {}
    shortfalls: list[str] = []
    rows = 0
    for page in range(1, pages_at_most(query.top_k, provider.page_results, provider.max_pages) + 1):
        try:
            answer = ask(provider, replace(query, page=page, skipped=rows))
        except (Unavailable, PolicyRefused, BudgetExhausted) as error:
            if page == 1:
                raise
            shortfalls.append(f"{provider.name}, page {page}: {error}")
            break
        shortfalls += [f"{provider.name}, page {page}: {remark}" for remark in answer.remarks]
        rows += max(answer.rows, len(answer.results))
        fresh = [result for result in usable(answer.results) if result.url not in found]
        for result in fresh:
            found.setdefault(result.url, result)
        if len(found) >= query.top_k or not answer.more or not fresh:
            break
    return Gathered(provider.name, tuple(found.values())[: query.top_k], rows == 0, tuple(shortfalls))
