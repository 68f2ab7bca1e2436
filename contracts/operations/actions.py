"""What operators did, as the audit has it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sluice.contracts.operations.dead_letters import OperatorAction, Part


class ActionPage(Part):
    """A filter of actions, all of whose given conditions must hold, and a part of its results, the latest first."""

    operator: Annotated[str | None, Field(max_length=200)] = None
    """The id of the key; `local` for who sits at the machine, `sluice` for what Sluice does by itself."""
    action: Annotated[str | None, Field(max_length=200)] = None
    """As `flag_off`, `rest_host`, `release`."""
    subject: Annotated[str | None, Field(max_length=4_096)] = None
    """As `flag:search`, `host:example.org`, or the id of a dead letter or of a chunk in quarantine."""
    limit: Annotated[int, Field(ge=1, le=1_000)] = 100


class RecordedAction(OperatorAction):
    """An action on a subject. `position` continues the list after it."""

    position: str
    subject: str
