"""What a profile wants measured and checked for its domain beside the gate's own features."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sluice.contracts.base import Switch, Value, is_empty


class InsightSettings(Value):
    """Checks of an answer; each costs nothing where it is off."""

    sentiment: Switch = False
    disclosures: Switch = False
    claims: Switch = False
    voices: Switch = False
    """Share of voice, of the brands that the question names and of `brands`."""
    channels: Switch = False
    brands: Annotated[
        tuple[Annotated[str, Field(min_length=2, max_length=60)], ...], Field(max_length=8, exclude_if=is_empty)
    ] = ()
    code: Switch = False
    """Code in passages is marked as not executed, and judged by the policy of code samples."""
    repository_first: Switch = False
    """Passages of repositories come before those from outside that match hardly better."""
