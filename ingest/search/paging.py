"""One provider's answer, page by page, until there is enough of it.

Promises: the number of pages is known beforehand; each is a call that is admitted, counted and paid for by itself; a
page that brings nothing new is the last; and when a later page fails, what was found stands, with the failure named.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sluice.contracts.errors import BudgetExhausted, PolicyRefused, Unavailable
from sluice.contracts.ingest import SearchResult
from sluice.ingest.search.port import SearchAnswer, SearchProvider, SearchQuery, pages_at_most

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
