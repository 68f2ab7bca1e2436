"""A process that kills itself at one point of its look at what became of runs.

`python -m tests.support.killed_defence DATA_DIR POINT`. POINT is `change` (the rows are written, the event
is not), `commit` (all is written, and not committed) or `told` (all is committed, and announced to nobody).
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from sluice.ledger.learning import controls
from sluice.workers.context import Context
from sluice.workers.processes.watches import self_defence
from sluice.workers.processes.watches.self_defence import SelfDefence
from sluice.workers.settings import Settings


def main(data_dir: Path, point: str) -> None:
    """Look until the point is reached."""
    match point:
        case "change":
            controls.record_control = _die
        case "commit":
            record = controls.record_control

            def record_and_die(*arguments: Any) -> Any:
                record(*arguments)
                _die()

            controls.record_control = record_and_die
        case "told":
            self_defence.announce_control = _die
    SelfDefence(Context(Settings(data_dir=data_dir)), grace_seconds=-60.0).look()
    print("done")


def _die(*_arguments: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
