"""A process that looks for schedules, and is killed before or after one call: `python -m tests.integration.processes.killed_scheduler
DATA_DIR BROKER_URL POINT`."""

from __future__ import annotations

import functools
import os
import signal
import sys
from typing import Any

from sluice.ledger.ledger import Ledger
from sluice.ledger.schedules import Schedules
from sluice.workers.context import Context
from sluice.workers.schedules import ScheduleWatch
from sluice.workers.settings import Settings

POINTS = ("run.before", "run.after", "move.before", "move.after")


def die_at(owner: Any, name: str, side: str) -> None:
    """Let this process die before or after it calls the method."""
    call = getattr(owner, name)

    @functools.wraps(call)
    def wrapped(*told: Any, **named: Any) -> Any:
        if side == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        call(*told, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, wrapped)


if __name__ == "__main__":
    data_dir, broker_url, point = sys.argv[1:]
    seam, _, side = point.partition(".")
    owner, name = {"run": (Ledger, "create_run"), "move": (Schedules, "ran")}[seam]
    die_at(owner, name, side)
    crawl = {"enabled": True, "render": "never"}
    settings = Settings.model_validate({"data_dir": data_dir, "broker_url": broker_url, "crawl": crawl})
    ScheduleWatch(Context(settings)).look()
