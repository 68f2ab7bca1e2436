"""What the HTTP interface takes and gives about feature flags."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from sluice.contracts.base import Value
from sluice.contracts.learning.control import FlagState
from sluice.contracts.learning.events import FlagAction


class FlagRequest(Value):
    """`PUT /v1/flags/{name}`: store whether it is on; or with `kill`, hold it off whatever else decides."""

    enabled: bool
    kill: bool = False
    note: Annotated[str, Field(max_length=4_000)] = ""

    @model_validator(mode="after")
    def _killed_is_off(self) -> FlagRequest:
        if self.kill and self.enabled:
            raise ValueError("kill switches off: send enabled false with it")
        return self

    @property
    def action(self) -> FlagAction:
        """What is asked for."""
        return "kill" if self.kill else "on" if self.enabled else "off"


class FlagResult(Value):
    """The flag as it stands then. `run_id` is the control run that records the change; None where nothing changed.

    `purged` is how many directives were cancelled, because they waited for what is off now.
    """

    state: FlagState
    run_id: str | None = None
    purged: Annotated[int, Field(ge=0)] = 0
