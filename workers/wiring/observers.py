"""Observers that count and log what the parts of a process report."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import structlog

from sluice.otel import metrics

if TYPE_CHECKING:
    from sluice.ingest.egress.rules import Refusal

log = structlog.get_logger(__name__)


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
