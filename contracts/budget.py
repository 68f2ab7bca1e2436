"""What work costs, in the units that are capped."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from contracts.base import Value


class Spend(Value):
    """Usage: of one event, of a run, or of a day."""

    pages: Annotated[int, Field(ge=0)] = 0
    bytes: Annotated[int, Field(ge=0)] = 0
    tokens: Annotated[int, Field(ge=0)] = 0
    milliseconds: Annotated[float, Field(ge=0)] = 0.0
    usd: Annotated[float, Field(ge=0)] = 0.0

    def __add__(self, other: Spend) -> Spend:
        return Spend(
            pages=self.pages + other.pages,
            bytes=self.bytes + other.bytes,
            tokens=self.tokens + other.tokens,
            milliseconds=self.milliseconds + other.milliseconds,
            usd=self.usd + other.usd,
        )


class Ceilings(Value):
    """The most that a run and a UTC day may reserve and spend together. None: no ceiling."""

    run_usd: Annotated[float, Field(ge=0)] | None = None
    run_pages: Annotated[int, Field(ge=0)] | None = None
    day_usd: Annotated[float, Field(ge=0)] | None = None
    day_pages: Annotated[int, Field(ge=0)] | None = None
