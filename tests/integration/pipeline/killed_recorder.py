"""A process that records an iteration and kills itself at one point on the way from the journal to the ledger.

`python -m tests.integration.pipeline.killed_recorder DATA_DIR POINT` with the agent's output as standard input. POINT is
a method and a side of it: `transact.after` is behind the journal's append, `create_run.after` behind the ledger's.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sluice.ledger.ledger import Ledger
from sluice.memory.journal.file import Journal
from sluice.workers.context import Context
from sluice.workers.runtime.claims import Heartbeat
from sluice.workers.service.callers import OWN_MACHINE
from sluice.workers.service.memories import MemoryDesk
from sluice.workers.settings import Settings
from sluice.workers.task import StageWorker, use_wake_up
from tests.support.memory.instance import PROJECT

WORKER = "chunk-killed"


def main(data_dir: Path, point: str) -> None:
    """Record until the point is reached; for `handler.…` handle what was recorded until then."""
    where, _, method = point.rpartition(":")
    name, _, side = method.partition(".")
    owner: type = Ledger if hasattr(Ledger, name) else Journal
    context = Context(Settings(data_dir=data_dir))
    if where == "handler":
        setattr(owner, name, _dying(getattr(owner, name), side))
        worker = StageWorker("chunk", WORKER, context, Heartbeat(context.ledger, 30.0))
        for wake_up in context.ledger.next_ready("chunk", 10):
            use_wake_up(wake_up.event_id, worker)
    else:
        desk = MemoryDesk(context)
        setattr(owner, name, _dying(getattr(owner, name), side))
        desk.of(PROJECT, OWN_MACHINE).record("auth", sys.stdin.read())
    print("done")


def _dying(call: Callable[..., Any], side: str) -> Callable[..., Any]:
    def dying(*arguments: Any, **named: Any) -> Any:
        if side == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        call(*arguments, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    return dying


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
