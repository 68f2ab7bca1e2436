"""Series that are there from the start of a stage's worker, at 0.

A counter that appears with its first event has no value before it: `increase` sees nothing of that event, and a ratio
over a series that never came is empty, so an alert on it stays silent.
"""

from __future__ import annotations

from sluice.contracts.event import Queue
from sluice.contracts.plan import Plan
from sluice.gate.decide import HEURISTIC
from sluice.otel import metrics
from sluice.trust.gates import RETRIEVAL_POISONING, SOURCE_TRUST
from sluice.workers.settings import Settings


def begin_series(stage: Queue, settings: Settings) -> None:
    """Make the stage's series that alerts and dashboards read, as far as their labels are known beforehand."""
    metrics.STAGE_PAUSES.labels(stage)
    match stage:
        case "gate":
            for plan in Plan:
                metrics.GATE_DECISIONS.labels(plan, "default", plan, HEURISTIC)
        case "search":
            for provider in settings.search.providers:
                metrics.SEARCH_COST_USD.labels(provider)
                for outcome in ("ok", "failed"):
                    metrics.SEARCH_CALLS.labels(provider, outcome)
        case "crawl":
            for outcome, rendered in (
                ("ok", "true"),
                *((one, "false") for one in ("ok", "unchanged", "refused", "missed")),
            ):
                metrics.CRAWL_PAGES.labels(outcome, rendered)
        case "embed":
            metrics.TOKEN_SPEND.labels("embedding")
        case "index":
            for outcome in ("ok", "failed"):
                metrics.SNAPSHOT_PUSHES.labels(outcome)
        case "query":
            metrics.TOKEN_SPEND.labels("context")
            for outcome in ("ok", "failed"):
                metrics.RERANKS.labels(outcome)
            for gate in (SOURCE_TRUST, RETRIEVAL_POISONING):
                for outcome in ("passed", "failed"):
                    metrics.RETRIEVAL_GATES.labels(gate, outcome)
        case _:
            return
