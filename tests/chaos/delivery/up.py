"""`sluice up` for the suite: the product's own supervisor, whose children have the suite's failpoints in them.

What restarts, hands back and watches is thus the product's, and each process is a fork as with `sluice up`. Four things
differ, all told by the environment: with `CHAOS_HEALING=off` nothing heals (no reconciler is started and nothing is
handed back); with `CHAOS_BROKER_PORT` the children reach the broker through the suite's proxy on that port, and
`CHAOS_BROKER` names another server to run as the broker; and a process that dies often is started again after a second at most, as here it is the suite that kills it, and often.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from sluice.api import serve
from sluice.cli.instance.processes import prepare_metrics
from sluice.otel.logs import configure
from sluice.workers.broker.embedded import broker_command
from sluice.workers.processes.reconciler import run_reconciler
from sluice.workers.processes.worker import run_worker
from sluice.workers.settings import Settings, load_settings
from sluice.workers.supervisor import supervisor
from sluice.workers.supervisor.child import Program, preload
from sluice.workers.supervisor.supervisor import Child, Supervisor
from tests.chaos.delivery.failpoints import Failpoints
from tests.chaos.delivery.seams import install
from tests.chaos.delivery.witness import Witness

HEALING, BROKER_PORT, FOLDER, BROKER = "CHAOS_HEALING", "CHAOS_BROKER_PORT", "CHAOS_FOLDER", "CHAOS_BROKER"
WITNESS_FILE = "witness.jsonl"
LONGEST_PAUSE_SECONDS = 1.0


class ChaosSupervisor(Supervisor):
    """The supervisor of an instance under test."""

    def start(self, child: Child) -> None:
        if _heals() or child.name != "reconciler":
            super().start(child)

    def release_claims(self, workers: Collection[str], *, died: bool) -> None:
        if _heals():
            super().release_claims(workers, died=died)


def main() -> None:
    """Run every process of the instance, as `sluice up --log-dir` does."""
    settings = load_settings()
    prepare_metrics(settings, of_instance=True)
    configure("sluice-up", settings.telemetry)
    supervisor.LONGEST_PAUSE_SECONDS = LONGEST_PAUSE_SECONDS
    if program := os.environ.get(BROKER):
        supervisor.broker_command = lambda settings: [program, *broker_command(settings)[1:]]
    preload(settings)
    ChaosSupervisor(settings, Path(sys.argv[1]), _program_of).run()


def _program_of(_settings: Settings, command: str, stage: str = "") -> Program:
    return partial(_run, command, stage)


def _run(command: str, stage: str) -> None:
    """A fork: wrap the seams, then be what the product's fork is."""
    stages = stage.split("+")
    folder, role = Path(os.environ[FOLDER]), "index" if "index" in stages else stages[-1] or command
    install(Failpoints(folder, role, Witness(folder / WITNESS_FILE, role)))
    settings = _through_proxy(load_settings())
    match command:
        case "worker":
            run_worker(settings, stage)
        case "reconcile":
            run_reconciler(settings)
        case _:
            serve(settings)


def _through_proxy(settings: Settings) -> Settings:
    port = os.environ.get(BROKER_PORT)
    if port is None:
        return settings
    url = urlsplit(settings.broker_location)
    through = url._replace(netloc=f"{url.netloc.rpartition(':')[0]}:{port}")
    return settings.model_copy(update={"broker_url": through.geturl()})


def _heals() -> bool:
    return os.environ.get(HEALING) != "off"


if __name__ == "__main__":
    main()
