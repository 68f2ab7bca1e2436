"""An agent's memory: iterations in, observations out, each feature by itself. The journal is the truth.

    from memory import open_memory

    with open_memory() as memory:                       # .ralph/db/memory of the repository that one stands in
        memory.record("auth", stream)                   # after an iteration
        print(memory.prompt("auth").text)               # before the next

`docs/memory.md` tells the rest. Importing this loads nothing: each name is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contracts.memory.api import IterationContext, LearningPatch
    from contracts.memory.learning import FeatureLearning, LearningSource
    from contracts.memory.model import IterationOutcome, IterationRecord
    from memory.config import RagConfig
    from memory.embedded.open import open_memory
    from memory.memory import Memory, Recorded

__all__ = [
    "FeatureLearning",
    "IterationContext",
    "IterationOutcome",
    "IterationRecord",
    "LearningPatch",
    "LearningSource",
    "Memory",
    "RagConfig",
    "Recorded",
    "open_memory",
]

_HOMES = {
    "FeatureLearning": "contracts.memory.learning",
    "IterationContext": "contracts.memory.api",
    "IterationOutcome": "contracts.memory.model",
    "IterationRecord": "contracts.memory.model",
    "LearningPatch": "contracts.memory.api",
    "LearningSource": "contracts.memory.learning",
    "Memory": "memory.memory",
    "RagConfig": "memory.config",
    "Recorded": "memory.memory",
    "open_memory": "memory.embedded.open",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
