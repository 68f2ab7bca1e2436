"""An index worker without threads that kills itself at one point while it tells answers that their pages changed.

`python -m tests.integration.pipeline.killed_indexer DATA_DIR POINT` handles all that is ready in the index stage. POINT is
a method of the ledger, or of the index's writer, and a side of it: `tell_stale.after`.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sluice.index.local.writer import IndexWriter
from sluice.ledger.ledger import Ledger
from sluice.workers.context import Context
from sluice.workers.runtime.claims import Heartbeat
from sluice.workers.settings import Settings
from sluice.workers.task import StageWorker, use_wake_up

WORKER = "index-killed"


def main(data_dir: Path, point: str) -> None:
    """Work until the point is reached."""
    method, _, side = point.partition(".")
    owner: type = Ledger if hasattr(Ledger, method) else IndexWriter
    setattr(owner, method, _dying(getattr(owner, method), side))
    context = Context(Settings(data_dir=data_dir))
    worker = StageWorker("index", WORKER, context, Heartbeat(context.ledger, 30.0))
    while backlog := context.ledger.backlogs().get("index"):
        for wake_up in context.ledger.next_ready("index", backlog.ready):
            use_wake_up(wake_up.event_id, worker)
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
