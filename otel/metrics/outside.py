"""Metrics of what goes outside: searches and crawls."""

from __future__ import annotations

from sluice.otel.metrics.registry import counter

SEARCH_CALLS = counter("sluice_search_calls_total", "Calls of search providers, by outcome.", "provider", "outcome")
SEARCH_COST_USD = counter("sluice_search_cost_usd_total", "US dollars spent on search calls.", "provider")
CRAWL_PAGES = counter(
    "sluice_crawl_pages_total",
    "Pages asked for, by outcome (ok, unchanged, refused by a rule or a budget, missed) and by whether the browser "
    "rendered them.",
    "outcome",
    "rendered",
)
BREAKERS_OPENED = counter(
    "sluice_breakers_opened_total",
    "Times that a search provider, a host or the reranker failed so often that its circuit was opened.",
    "what",
)
EGRESS_REFUSALS = counter(
    "sluice_egress_refusals_total",
    "What pages wanted to reach and the egress proxy refused, by what it was for and by rule.",
    "purpose",
    "rule",
)
CRAWL_REFUSALS = counter(
    "sluice_crawl_refusals_total",
    "Pages not fetched or not kept because a rule or a budget forbids it, by the name of the rule.",
    "rule",
)
