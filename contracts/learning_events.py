"""Facts about what steers the gate: flags that were changed, and what was purged by them.

Each stands in a run of kind `control`, recorded finished (`workers.service.control_events`). No queue consumes them.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from contracts.control import FlagName, FlagSource
from contracts.event import Body, Queue

CONTROL_CORPUS = "sluice.control"
"""The corpus that control runs are of. It holds no documents; a key that is limited to corpora sees none of them."""

FlagAction = Literal["on", "off", "kill", "reset"]
"""What an operator does to a flag. A killed one is off whatever else decides; `reset` takes back all that is stored."""


class FlagChanged(Body):
    """An operator changed a flag. `enabled` is how it stands since then, and `decided_by` by whose word.

    Both are as the process saw it that recorded the change: the environment is each process's own.
    """

    name: FlagName
    action: FlagAction
    was_enabled: bool
    enabled: bool
    decided_by: FlagSource
    operator: str
    note: str = ""


class PendingPurged(Body):
    """Directives that waited when a flag was switched off were cancelled, and do not come back with it.

    `directive` is their kind, `event_ids` names each of them and `run_ids` the runs that lack them: each of these has
    a gap that names the flag.
    """

    flag: FlagName
    stage: Queue
    directive: str
    count: Annotated[int, Field(ge=0)]
    event_ids: tuple[str, ...]
    run_ids: tuple[str, ...]
