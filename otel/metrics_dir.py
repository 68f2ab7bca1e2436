"""The directory through which the processes of one instance add up their metrics.

It must be empty when an instance starts and its variable must be set before `otel.metrics` is imported,
which is why this module imports nothing.
"""

from __future__ import annotations

from pathlib import Path


def fresh_metrics_dir(path: Path) -> dict[str, str]:
    """Make `path` an empty metrics directory; the variables that a process needs to share its metrics there.

    Call it once per instance, before its first process starts: the figures of an earlier life are removed.
    """
    path.mkdir(parents=True, exist_ok=True)
    for old in (*path.glob("*.db"), *path.glob("exemplars_*")):
        old.unlink()
    return {"PROMETHEUS_MULTIPROC_DIR": str(path)}
