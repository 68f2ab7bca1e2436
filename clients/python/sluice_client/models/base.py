"""The base of every answer, and a run's events."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """An answer, or a part of one. Built when it is first needed, and never changed."""

    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True, protected_namespaces=())


class Event(Model):
    """One event of a run: an envelope around a body, whose fields depend on the kind."""

    id: str
    kind: str
    version: int
    run_id: str
    cause_id: str | None = None
    corpus: str
    occurred_at: datetime
    traceparent: str | None = None
    baggage: dict[str, str] = {}
    body: dict[str, Any]
