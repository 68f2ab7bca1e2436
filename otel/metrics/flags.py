"""Metrics of feature flags."""

from __future__ import annotations

from sluice.otel.metrics.registry import counter, gauge

FLAG_ENABLED = gauge("sluice_flag_enabled", "Whether the feature is on: 1 or 0.", "flag")
FLAG_CHANGES = counter(
    "sluice_flag_changes_total", "Times that a feature was seen to go on or off, by what it is since.", "flag", "to"
)
UNKNOWN_FLAGS = counter("sluice_unknown_flags_total", "Times that a flag was asked for that there is not.")
PURGED_DIRECTIVES = counter(
    "sluice_purged_directives_total", "Directives that were cancelled because their feature was switched off.", "flag"
)
