"""An agent's memory: iterations in, observations out, each feature by itself. The journal is the truth.

    from sluice.memory import open_memory

    with open_memory() as memory:                       # .ralph/db/memory of the repository that one stands in
        memory.record("auth", stream)                   # after an iteration
        print(memory.prompt("auth").text)               # before the next

See `docs/memory.md`. Importing this package loads nothing: each name is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sluice.contracts.memory.api import IterationAccepted as IterationAccepted
    from sluice.contracts.memory.api import IterationContext as IterationContext
    from sluice.contracts.memory.api import LearningPatch as LearningPatch
    from sluice.contracts.memory.learning import FeatureLearning as FeatureLearning
    from sluice.contracts.memory.learning import LearningSource as LearningSource
    from sluice.contracts.memory.model import IterationOutcome as IterationOutcome
    from sluice.contracts.memory.model import IterationRecord as IterationRecord
    from sluice.memory.config import RagConfig as RagConfig
    from sluice.memory.embedded.open import open_memory as open_memory
    from sluice.memory.memory import Memory as Memory

_HOMES = {
    "FeatureLearning": "sluice.contracts.memory.learning",
    "IterationAccepted": "sluice.contracts.memory.api",
    "IterationContext": "sluice.contracts.memory.api",
    "IterationOutcome": "sluice.contracts.memory.model",
    "IterationRecord": "sluice.contracts.memory.model",
    "LearningPatch": "sluice.contracts.memory.api",
    "LearningSource": "sluice.contracts.memory.learning",
    "Memory": "sluice.memory.memory",
    "RagConfig": "sluice.memory.config",
    "open_memory": "sluice.memory.embedded.open",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
