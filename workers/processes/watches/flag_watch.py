"""Looks at the feature flags now and then, so that their metrics are right where nothing else asks for them."""

from __future__ import annotations

import structlog

from sluice.otel import metrics
from sluice.workers.runtime.flag_rules import NAMES
from sluice.workers.runtime.flags import FlagReader

log = structlog.get_logger(__name__)

LOOK_SECONDS = 5.0
"""How often: one read of a small table."""


class FlagWatch:
    """The flags as one process saw them last."""

    def __init__(self, flags: FlagReader) -> None:
        self._flags = flags
        self._seen: dict[str, bool] = {}
        for name in NAMES:
            for to in ("on", "off"):
                metrics.FLAG_CHANGES.labels(name, to)

    def look(self) -> None:
        """Count the flags that have changed since the last look; the first look counts none."""
        for state in self._flags.states():
            if self._seen.get(state.name, state.enabled) != state.enabled:
                to = "on" if state.enabled else "off"
                metrics.FLAG_CHANGES.labels(state.name, to).inc()
                log.info("flag_changed", flag=state.name, to=to, decided_by=state.decided_by)
            self._seen[state.name] = state.enabled
