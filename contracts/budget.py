"""Amounts of work in the units of budgets, and the division of an allowance before the work begins.

Milliseconds count external work: searching and fetching pages. Tokens are those that an embedding model reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from sluice.contracts.base import Value, is_none

LaterCount = Annotated[int | None, Field(ge=0, exclude_if=is_none)]
LaterAmount = Annotated[float | None, Field(ge=0, exclude_if=is_none)]
"""Fields of a later version: left out of the JSON when None, so that older records keep their bytes."""


class Spend(Value):
    """Usage of one event, of a run, or of a day."""

    pages: Annotated[int, Field(ge=0)] = 0
    bytes: Annotated[int, Field(ge=0)] = 0
    tokens: Annotated[int, Field(ge=0)] = 0
    milliseconds: Annotated[float, Field(ge=0)] = 0.0
    usd: Annotated[float, Field(ge=0)] = 0.0

    def __add__(self, other: Spend) -> Spend:
        return Spend(**{unit: amount + getattr(other, unit) for unit, amount in self})


class Ceiling(Value):
    """The most that may be reserved and spent together, in each unit. None means no ceiling."""

    pages: Annotated[int, Field(ge=0)] | None = None
    bytes: Annotated[int, Field(ge=0)] | None = None
    tokens: Annotated[int, Field(ge=0)] | None = None
    milliseconds: Annotated[float, Field(ge=0)] | None = None
    usd: Annotated[float, Field(ge=0)] | None = None

    def missing_for(self, asked: Spend) -> tuple[str, ...]:
        """Return the units of which this leaves less than `asked`."""
        wanted = {unit: round(amount, _DECIMALS) for unit, amount in asked if amount > 0}
        return tuple(unit for unit, most in self if most is not None and wanted.get(unit, 0) > most)


class Ceilings(Value):
    """The ceilings of a run and of a UTC day. Also used for the amounts that remain of them, in the same units."""

    run: Ceiling = Ceiling()
    day: Ceiling = Ceiling()

    def missing_for(self, asked: Spend) -> tuple[str, ...]:
        """Return the names of the ceilings that leave less than `asked`, like `run_pages`, `day_usd`."""
        short = {"run": self.run.missing_for(asked), "day": self.day.missing_for(asked)}
        return tuple(f"{whose}_{unit}" for whose, units in short.items() for unit in units)

    def least(self, unit: str) -> float | None:
        """Return the lower of the run's and the day's ceiling; None where neither has one."""
        both: list[float | None] = [getattr(self.run, unit), getattr(self.day, unit)]
        return min((most for most in both if most is not None), default=None)

    def capped(self, asked: Spend) -> Spend | None:
        """Return the part of `asked` to reserve: the units that have a ceiling; None where no unit has one."""
        kept = {unit: amount for unit, amount in asked if amount and self.least(unit) is not None}
        return Spend(**kept) if kept else None


LEAST_PAGE_BYTES = 200_000
"""The smallest share of bytes to fetch a page with. Nearly every text page fits into it, so none is cut short."""
LEAST_PAGE_MILLISECONDS = 2_000
"""The smallest share of time to fetch a page with. A healthy site needs a tenth of it."""


class Allowance(Value):
    """The most that a directive and all its follow-up work may use. None: that unit is not limited. Allowances are only
    divided on the way down, so the work cannot use more than the first, however it is spread over workers."""

    pages: Annotated[int, Field(ge=0)]
    bytes: Annotated[int, Field(ge=0)] | None = None
    milliseconds: Annotated[float, Field(ge=0)] | None = None

    @property
    def reserve(self) -> Spend:
        """Return the amounts that the ledger reserves."""
        return Spend(pages=self.pages, bytes=self.bytes or 0, milliseconds=self.milliseconds or 0.0)

    def less(self, spent: Spend) -> Allowance:
        """Return the remainder after `spent`, 0 at least."""
        return Allowance(
            pages=max(0, self.pages - spent.pages),
            bytes=None if self.bytes is None else max(0, self.bytes - spent.bytes),
            milliseconds=None if self.milliseconds is None else max(0.0, self.milliseconds - spent.milliseconds),
        )

    def pages_that_fit(self) -> int:
        """Return the number of pages to divide it among: fewer than `pages` where a share would be too small, and one
        as long as anything is left."""
        return min(self._room().values())

    def short_of(self, pages: int) -> tuple[str, ...]:
        """Return the units that are too small to divide among `pages`."""
        return tuple(unit for unit, fitting in self._room().items() if fitting < pages)

    def shared(self, pages: Sequence[int]) -> tuple[Allowance, ...]:
        """Return an allowance for each number in `pages`, with bytes and milliseconds in proportion."""
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
        """Return the number of pages that each unit is enough for."""
        room = {"pages": self.pages}
        if self.bytes is not None:
            room["bytes"] = _pages_in(self.bytes, LEAST_PAGE_BYTES)
        if self.milliseconds is not None:
            room["milliseconds"] = _pages_in(self.milliseconds, LEAST_PAGE_MILLISECONDS)
        return room


def _pages_in(left: float, least: float) -> int:
    return int(left // least) or int(left >= 1)


def shares(total: int, parts: int) -> list[int]:
    """Split `total` into `parts` whole shares that differ by one at most, larger first."""
    return [total // parts + (1 if index < total % parts else 0) for index in range(parts)]


_DECIMALS = 9
"""Decimals of USD in the ledger. Float sums are compared at this precision."""
