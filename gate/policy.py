"""The owner's rules as the gate sees them: what is switched off, why, and what switches it on."""

from __future__ import annotations

from sluice.contracts.gate import CoverageProbed, PolicyState
from sluice.gate.veto import Denial

SEARCH_OFF = "web search is switched off"
NO_PROVIDER = "web search has no provider"
CRAWL_OFF = "crawling is switched off"

_LIFTED_BY = {
    SEARCH_OFF: "search.enabled = true in sluice.toml",
    NO_PROVIDER: 'search.providers in sluice.toml, for instance ["searxng"]',
    CRAWL_OFF: "crawl.enabled = true in sluice.toml",
}


def policy_state(*, search_enabled: bool, search_providers: int, crawl_enabled: bool) -> PolicyState:
    """What the settings allow. `search_providers` is the number that are configured."""
    search_reason = SEARCH_OFF if not search_enabled else NO_PROVIDER if search_providers < 1 else ""
    return PolicyState(
        search_allowed=not search_reason,
        crawl_allowed=crawl_enabled,
        search_reason=search_reason,
        crawl_reason="" if crawl_enabled else CRAWL_OFF,
    )


def embedder_denials(probed: CoverageProbed) -> tuple[Denial, ...]:
    """What is of no use while the embedding model is out of reach: what is found could not be indexed."""
    if probed.embedder_down is None:
        return ()
    why, lift = probed.embedder_down, "the embedding model answers again"
    return (Denial("embedder_down", "crawl", why, lift), Denial("embedder_down", "search", why, lift))


def policy_denials(policy: PolicyState) -> tuple[Denial, ...]:
    """What the policy denies. A reason that is not one of this module's stays as it is."""
    denials: list[Denial] = []
    if not policy.crawl_allowed:
        why = policy.crawl_reason or CRAWL_OFF
        denials.append(Denial("crawl_policy", "crawl", why, _LIFTED_BY.get(why, _LIFTED_BY[CRAWL_OFF])))
    if not policy.search_allowed:
        why = policy.search_reason or SEARCH_OFF
        denials.append(Denial("search_policy", "search", why, _LIFTED_BY.get(why, _LIFTED_BY[SEARCH_OFF])))
    return tuple(denials)
