"""A message for a language model, as chat interfaces take it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sluice.contracts.base import Value, is_empty, is_none


class PromptMessage(Value):
    """One message of a chat: who speaks, and what is said."""

    role: Literal["user", "assistant", "system", "tool"]
    content: str


PromptName = Annotated[str | None, Field(max_length=64, exclude_if=is_none)]
"""A template of the prompt catalogue (`sluice prompts`): `rag` for its latest version, `rag.v1` for that one."""

Prompt = Annotated[tuple[PromptMessage, ...], Field(exclude_if=is_empty)]
"""The messages that were asked for with `prompt`; empty where none were."""
