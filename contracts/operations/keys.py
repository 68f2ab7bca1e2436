"""API keys for operators: each with its role, corpora, end and rate. The secret itself is in one answer alone."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from sluice.contracts.base import CorpusName, Moment, Value

Role = Literal["agent", "operator"]
Rate = Annotated[int, Field(ge=0, le=1_000_000)]


class KeyLimits(Value):
    """What may be changed of a key. As the body of a PATCH (RFC 7396) it changes the fields that it names."""

    expires_at: Moment | None = None
    """When it ends by itself; null: never."""
    requests_per_minute: Rate | None = None
    """Requests a minute that it may send; 0: no limit, null: as the instance's settings have it."""


class NewKey(KeyLimits):
    """`POST /v1/keys`: the key to make."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    """Who or what it is for, to tell it from others."""
    role: Role = "agent"
    """`operator` may operate what the key covers; `agent` asks and submits."""
    corpora: Annotated[tuple[CorpusName, ...], Field(max_length=1_000)] = ()
    """The corpora that it covers; empty: all."""


class ApiKey(NewKey):
    """An API key, without its secret."""

    id: str
    created_at: Moment
    revoked_at: Moment | None = None
    """When it was revoked; null while it was not."""

    def is_in_force(self, now: datetime) -> bool:
        """Return whether it is neither revoked nor past its end."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


class MadeKey(ApiKey):
    """A key that was just made, with its secret."""

    key: str
    """The secret: send it as `Authorization: Bearer …`. It is shown this once, and kept nowhere."""
