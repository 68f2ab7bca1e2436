"""Amounts of work in the units that budgets cap, and how an allowance is shared out before the work begins.

Milliseconds are those of the outside world: of searching and of fetching pages. Tokens are those that an embedding
model reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from sluice.contracts.base import Value, is_none

LaterCount = Annotated[int | None, Field(ge=0, exclude_if=is_none)]
LaterAmount = Annotated[float | None, Field(ge=0, exclude_if=is_none)]
"""Fields that came later, left out of the JSON where they say nothing: so what was recorded before says the same."""


class Spend(Value):
    """Usage: of one event, of a run, or of a day."""

    pages: Annotated[int, Field(ge=0)] = 0
    bytes: Annotated[int, Field(ge=0)] = 0
    tokens: Annotated[int, Field(ge=0)] = 0
    milliseconds: Annotated[float, Field(ge=0)] = 0.0
    usd: Annotated[float, Field(ge=0)] = 0.0

    def __add__(self, other: Spend) -> Spend:
        return Spend(**{unit: amount + getattr(other, unit) for unit, amount in self})


class Ceiling(Value):
    """The most that may be reserved and spent together, in each unit. None: no ceiling."""

    pages: Annotated[int, Field(ge=0)] | None = None
    bytes: Annotated[int, Field(ge=0)] | None = None
    tokens: Annotated[int, Field(ge=0)] | None = None
    milliseconds: Annotated[float, Field(ge=0)] | None = None
    usd: Annotated[float, Field(ge=0)] | None = None

    def missing_for(self, asked: Spend) -> tuple[str, ...]:
        """The units of which this leaves less than what is asked for."""
        units = type(self).model_fields
        return tuple(unit for unit in units if getattr(asked, unit) > 0 and not _fits(self, asked, unit))


class Ceilings(Value):
    """The ceilings of a run and of a UTC day. Read as what is left, the same units say what may still be reserved."""

    run: Ceiling = Ceiling()
    day: Ceiling = Ceiling()

    def missing_for(self, asked: Spend) -> tuple[str, ...]:
        """The ceilings that leave less than what is asked for, by their names: `run_pages`, `day_usd`."""
        short = {"run": self.run.missing_for(asked), "day": self.day.missing_for(asked)}
        return tuple(f"{whose}_{unit}" for whose, units in short.items() for unit in units)

    def least(self, unit: str) -> float | None:
        """The lower of the run's and the day's ceiling; None where neither has one."""
        both: list[float | None] = [getattr(self.run, unit), getattr(self.day, unit)]
        return min((most for most in both if most is not None), default=None)

    def capped(self, asked: Spend) -> Spend | None:
        """What of `asked` has to be reserved: the units that are under a ceiling. None where nothing has."""
        kept = {unit: amount for unit, amount in asked if amount and self.least(unit) is not None}
        return Spend(**kept) if kept else None


LEAST_PAGE_BYTES = 200_000
"""The smallest share of bytes that a page is sent for with: nearly every page of text fits, and none is cut short."""
LEAST_PAGE_MILLISECONDS = 2_000
"""The smallest share of time that a page is sent for with: a healthy site needs a tenth of it."""


class Allowance(Value):
    """What a directive may use, together with all that follows from it. None: that unit is not counted out.

    Allowances are only ever divided on the way down, so however the work is spread over workers, it cannot use more
    than was given out at the top.
    """

    pages: Annotated[int, Field(ge=0)]
    bytes: Annotated[int, Field(ge=0)] | None = None
    milliseconds: Annotated[float, Field(ge=0)] | None = None

    @property
    def reserve(self) -> Spend:
        """The same as the ledger reserves it."""
        return Spend(pages=self.pages, bytes=self.bytes or 0, milliseconds=self.milliseconds or 0.0)

    def less(self, spent: Spend) -> Allowance:
        """What is left of it."""
        return Allowance(
            pages=max(0, self.pages - spent.pages),
            bytes=None if self.bytes is None else max(0, self.bytes - spent.bytes),
            milliseconds=None if self.milliseconds is None else max(0.0, self.milliseconds - spent.milliseconds),
        )

    def pages_that_fit(self) -> int:
        """Among how many pages it can be divided: fewer than `pages` where a share would be too small for one.

        As long as anything is left there is one page in it.
        """
        return min(self._room().values())

    def short_of(self, pages: int) -> tuple[str, ...]:
        """The units in which it cannot be divided among that many pages."""
        return tuple(unit for unit, fitting in self._room().items() if fitting < pages)

    def shared(self, pages: Sequence[int]) -> tuple[Allowance, ...]:
        """An allowance for each number of `pages`, with bytes and milliseconds in proportion to them."""
        total = max(1, sum(pages))
        return tuple(
            Allowance(
                pages=share,
                bytes=None if self.bytes is None else self.bytes * share // total,
                milliseconds=None if self.milliseconds is None else self.milliseconds * share // total,
            )
            for share in pages
        )

    def _room(self) -> dict[str, int]:
        """For how many pages each unit is enough."""
        room = {"pages": self.pages}
        if self.bytes is not None:
            room["bytes"] = _pages_in(self.bytes, LEAST_PAGE_BYTES)
        if self.milliseconds is not None:
            room["milliseconds"] = _pages_in(self.milliseconds, LEAST_PAGE_MILLISECONDS)
        return room


def _pages_in(left: float, least: float) -> int:
    return int(left // least) or int(left >= 1)


def shares(total: int, parts: int) -> list[int]:
    """`total` split into `parts` whole shares that differ by one at most, larger first."""
    return [total // parts + (1 if index < total % parts else 0) for index in range(parts)]


_DECIMALS = 9
"""Of USD, as the ledger keeps them: sums of floats are compared no finer."""


def _fits(ceiling: Ceiling, asked: Spend, unit: str) -> bool:
    most: float | None = getattr(ceiling, unit)
    wanted: float = getattr(asked, unit)
    return most is None or round(wanted, _DECIMALS) <= most
