"""Turns recorded events into metrics, and counts and logs what the parts of a process report.

Events are counted once the ledger has them: a handler may run twice, so handlers never count.

Series exist from the start of a stage's worker, at 0. A counter that appears with its first event has no value before
it: `increase` does not see that event, and a ratio over a missing series is empty, so an alert on it stays silent.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

import structlog

from sluice.contracts.event import Event, GapFound, Queue, made_at
from sluice.contracts.gate import GateDecided
from sluice.contracts.index import AnswerReady, RunFinished, SnapshotPublished
from sluice.contracts.ingest import ChunksEmbedded, EgressRefused, PageCrawled, PageUnchanged, SearchCompleted
from sluice.contracts.plan import Plan
from sluice.gate.decide import HEURISTIC, deciding_model
from sluice.ingest.egress.rules import Refusal
from sluice.otel import metrics
from sluice.trust.gates import RETRIEVAL_POISONING, SOURCE_TRUST
from sluice.workers.settings import Settings

log = structlog.get_logger(__name__)

REFUSALS = frozenset(
    {
        *("robots", "noindex", "access"),  # refused by the site
        *("crawl", "egress", "budget_exhausted", "redirects"),  # refused by us
        *("bytes", "encoding", "media_type", "memory", "nodes", "requests", "windows"),  # by our limits on a page
    }
)
"""Reasons of gaps where a page was refused although nothing failed."""


def count_events(events: Iterable[Event]) -> None:
    """Add newly recorded events to the metrics."""
    for event in events:
        match event.body:
            case GateDecided() as decided:
                _count_decision(decided)
            case SearchCompleted() as search:
                for provider in search.provider.split("+"):  # several providers whose answers were merged
                    metrics.SEARCH_CALLS.labels(provider, "ok").inc()
                metrics.SEARCH_COST_USD.labels(search.provider).inc(search.cost_usd)
                for provider in search.failed_over_from:
                    metrics.SEARCH_CALLS.labels(provider, "failed").inc()
            case PageCrawled() as page:
                metrics.CRAWL_PAGES.labels("ok", str(page.rendered).lower()).inc()
            case PageUnchanged():
                metrics.CRAWL_PAGES.labels("unchanged", "false").inc()
            case EgressRefused() as refused:
                metrics.EGRESS_REFUSALS.labels(refused.purpose, refused.rule).inc(refused.count)
            case GapFound(gap=gap) if gap.stage == "crawl" and gap.reason in REFUSALS:
                metrics.CRAWL_PAGES.labels("refused", "false").inc()
                metrics.CRAWL_REFUSALS.labels(gap.reason).inc()
            case GapFound(gap=gap) if gap.stage == "crawl":
                metrics.CRAWL_PAGES.labels("missed", "false").inc()
            case ChunksEmbedded() as embedded:
                metrics.EMBEDDING_CACHE.labels("hit").inc(embedded.cache_hits)
                metrics.EMBEDDING_CACHE.labels("miss").inc(embedded.chunk_count - embedded.cache_hits)
            case SnapshotPublished() as published:
                metrics.INDEX_GENERATION_CHUNKS.labels(event.corpus).set(published.chunk_count)
            case AnswerReady(answer=answer) as ready:
                profile = ready.profile or "default"
                for provenance in {one.document_id: one.provenance for one in answer.chunks}.values():
                    age = event.occurred_at - (provenance.published_at or provenance.fetched_at)
                    metrics.DOCUMENT_AGE_SECONDS.labels(profile).observe(max(0.0, age.total_seconds()))
                metrics.TOKEN_SPEND.labels("context").inc(sum(chunk.token_estimate for chunk in answer.chunks))
                for seconds in ready.unseen_seconds:
                    metrics.CITED_AGE_SECONDS.labels(profile).observe(seconds)
            case RunFinished() as finished:
                lasted = event.occurred_at - made_at(event.run_id)
                metrics.RUN_SECONDS.labels(finished.status).observe(max(0.0, lasted.total_seconds()))
            case _:
                continue


def count_failed_search(providers: Iterable[str]) -> None:
    """Count a search that none of `providers` answered: the ledger records only its retry."""
    for provider in providers:
        metrics.SEARCH_CALLS.labels(provider, "failed").inc()


def _count_decision(decided: GateDecided) -> None:
    version = deciding_model(decided)
    metrics.GATE_DECISIONS.labels(decided.plan, decided.profile, decided.scored_plan, version).inc(
        exemplar=metrics.current_exemplar()
    )
    for veto in decided.vetoes:
        metrics.GATE_VETOES.labels(veto.name).inc()
    if decided.control and decided.control.model:
        use = decided.control.model
        compared = "not_asked" if use.plan is None else "same" if use.plan == decided.scored_plan else "other"
        metrics.GATE_MODEL_RUNS.labels(use.version, use.arm, compared).inc()


def begin_series(stage: Queue, settings: Settings) -> None:
    """Create the stage's series that alerts and dashboards read, as far as their labels are known in advance."""
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


def utc_now() -> datetime:
    """Return the present time, with its zone."""
    return datetime.now(UTC)


def count_fallback(reason: str) -> None:
    """Count and log that a damaged generation was passed over for an older one."""
    metrics.SNAPSHOT_FALLBACKS.inc()
    log.error("snapshot_fallback", reason=reason)


def count_circuit_opened(what: str) -> None:
    """Count and log that a provider or host, as `what` says, kept failing and is left alone for a while."""
    metrics.BREAKERS_OPENED.labels(what).inc()
    log.warning("circuit_opened", what=what)


def log_refusal(refusal: Refusal) -> None:
    """Log that the egress proxy refused a connection, with the rule."""
    log.warning(
        "egress_refused",
        host=refusal.host,
        port=refusal.port,
        rule=refusal.rule,
        detail=refusal.detail,
        purpose=refusal.purpose,
        run_id=refusal.run_id or None,
    )
