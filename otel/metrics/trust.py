"""Metrics of private data, quarantine and the guard."""

from __future__ import annotations

from sluice.otel.metrics.registry import counter, gauge

PRIVATE_FOUND = counter(
    "sluice_private_found_total", "Private data and secrets found in chunks that were ingested, by kind.", "kind"
)
MASKED = counter(
    "sluice_masked_total", "Private data and secrets masked in what queries gave, by kind; never the value.", "kind"
)
QUARANTINED = counter(
    "sluice_quarantined_chunks_total", "Chunks that the guard blocked when they were ingested, by rule.", "rule"
)
QUARANTINE_HELD = gauge("sluice_quarantine_held", "Chunks in quarantine that wait for an operator.")
