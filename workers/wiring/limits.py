"""The settings as the gate sees them: what is allowed, how far a run may go, what it has left."""

from __future__ import annotations

from sluice.contracts.gate import PolicyState
from sluice.contracts.learning.control import FlagName
from sluice.gate.directives import CrawlLimits
from sluice.gate.veto import policy_state
from sluice.workers.settings import Settings


def policy_of(settings: Settings) -> PolicyState:
    """What the owner's settings allow."""
    search, crawl = settings.search, settings.crawl
    return policy_state(
        search_enabled=search.enabled, search_providers=len(search.providers), crawl_enabled=crawl.enabled
    )


def flag_policy(settings: Settings) -> dict[FlagName, str]:
    """The flags that the owner's settings hold off, and why."""
    policy = policy_of(settings)
    reasons: dict[FlagName, str] = {"search": policy.search_reason, "crawl": policy.crawl_reason}
    if not settings.memory.in_gate:
        reasons["memory"] = "memory.in_gate is false"
    if why := no_graph(settings):
        reasons["graph"] = why
    return {name: reason for name, reason in reasons.items() if reason}


def no_graph(settings: Settings) -> str:
    """Why nothing is searched by the graph, by the owner's settings; empty where it may be."""
    if settings.index.engine != "local":
        return f"index.engine is {settings.index.engine}"
    if not settings.graph.enabled:
        return "graph.enabled is false"
    return "" if settings.graph.in_retrieval else "graph.in_retrieval is false"


def crawl_limits_of(settings: Settings) -> CrawlLimits:
    """How far a run may go by the settings, and what one search may take at most, with every fail-over."""
    from sluice.ingest.search.build import search_at_most

    search, crawl, most = settings.search, settings.crawl, search_at_most(settings.search)
    fetches = 1 if crawl.render == "never" else 2  # over HTTP, and again in the browser
    return CrawlLimits(
        max_pages=crawl.max_pages,
        max_depth=crawl.max_depth,
        max_bytes=crawl.run_bytes,
        page_bytes=crawl.max_page_bytes,
        page_milliseconds=fetches * crawl.page_timeout_seconds * 1_000,
        search_top_k=search.top_k,
        search_usd=most.usd,
        search_milliseconds=most.milliseconds,
        locale=search.locale,
        render=crawl.render,
    )
