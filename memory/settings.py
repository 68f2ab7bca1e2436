"""The settings of `[memory]`, for an instance. An embedded memory reads `rag_config.json` instead."""

from __future__ import annotations

from typing import Annotated

from sluice.contracts.base import FIXED, Value


class MemorySettings(Value):
    """What agents remember in an instance: see docs/memory-service.md."""

    max_prompt_tokens: Annotated[int, FIXED] = 1_500
    """Tokens of a prompt block, where the request names none: about a page, which an agent reads with every
    iteration."""
    distil_by_model: bool = False
    """Whether the judge's model is asked for learnings that the rules miss, and whether two of them say the same where
    rules leave it open, within budget.day_usd; needs judge.model."""
    in_gate: bool = False
    """Whether the gate counts what memory holds on a question as it counts the session's messages, where a request
    names its feature. The flag `memory` has to be on too."""
