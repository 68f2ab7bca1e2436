"""`sluice up` for the suite: the product's own supervisor, whose children are `tests.chaos.delivery.worker`.

What restarts, hands back and watches is thus the product's. Three things differ, all told by the environment: with
`CHAOS_HEALING=off` nothing heals (no reconciler is started and nothing is handed back); with `CHAOS_BROKER_PORT` the
children reach the broker through the suite's proxy on that port; and a process that dies often is started again after
a second at most, as here it is the suite that kills it, and often.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from cli.instance.processes import prepare_metrics
from otel.logs import configure
from workers.settings import load_settings
from workers.supervisor import supervisor
from workers.supervisor.supervisor import Child, Supervisor

HEALING, BROKER_PORT = "CHAOS_HEALING", "CHAOS_BROKER_PORT"
LONGEST_PAUSE_SECONDS = 1.0


class ChaosSupervisor(Supervisor):
    """The supervisor of an instance under test."""

    def start(self, child: Child) -> None:
        if _heals() or child.name != "reconciler":
            super().start(child)

    def release_claims(self, workers: Collection[str], *, died: bool) -> None:
        if _heals():
            super().release_claims(workers, died=died)

    def child_environment(self) -> Mapping[str, str]:
        environment = dict(super().child_environment())
        if port := os.environ.get(BROKER_PORT):
            url = urlsplit(environment["SLUICE_BROKER_URL"])
            through_proxy = url._replace(netloc=f"{url.netloc.rpartition(':')[0]}:{port}")
            environment["SLUICE_BROKER_URL"] = through_proxy.geturl()
        return environment


def main() -> None:
    """Run every process of the instance, as `sluice up --log-dir` does."""
    settings = load_settings()
    prepare_metrics(settings, of_instance=True)
    configure("sluice-up", settings.telemetry)
    supervisor.LONGEST_PAUSE_SECONDS = LONGEST_PAUSE_SECONDS
    ChaosSupervisor(settings, Path(sys.argv[1]), _program_of).run()


def _program_of(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "tests.chaos.delivery.worker", *arguments]


def _heals() -> bool:
    return os.environ.get(HEALING) != "off"


if __name__ == "__main__":
    main()
