"""The settings of `[memory]`, for an instance. An embedded memory reads `rag_config.json` instead."""

from __future__ import annotations

from typing import Annotated

from sluice.contracts.base import FIXED, Value


class MemorySettings(Value):
    """Settings of agents' memory in an instance: see docs/memory-service.md."""

    max_prompt_tokens: Annotated[int, FIXED] = 1_500
    """Tokens of a prompt block if the request gives no number: about a page, which an agent reads with every
    iteration."""
    distil_by_model: bool = False
    """Whether the judge's model proposes learnings that the rules miss, and decides whether two near ones are contrary
    if their words leave it open, within budget.day_usd; needs judge.model."""
    in_gate: bool = False
    """Whether the gate counts memory on a question like the session's messages, if a request names its feature. The
    flag `memory` has to be on too."""
