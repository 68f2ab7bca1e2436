"""Money and pages: what a run and a UTC day have reserved, have spent, and have left.

Promises: reserved and spent together never exceed a ceiling, whoever asks at the same time: the ceiling is a
condition of the very statement that raises the reservation. What an event reserved is let go when it settles, parks
or is cancelled, and what it really spent takes its place.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import BindParameter, Connection, bindparam, select, update

from contracts.budget import Ceilings, Spend
from contracts.errors import BudgetExhausted
from workers.schema import AnyRow, days, runs
from workers.upsert import insert_once

NO_CEILING = 2**62
"""Stands in the table for a ceiling that is not there."""
_NANO = 1_000_000_000


@dataclass(frozen=True, slots=True)
class BudgetLeft:
    """What may still be reserved: infinite USD, or `NO_CEILING` pages, where there is no ceiling."""

    run_usd_left: float
    day_usd_left: float
    run_pages_left: int
    day_pages_left: int


_more: dict[str, BindParameter[int]] = {
    "reserved_nanousd": bindparam("more_nanousd"),
    "reserved_pages": bindparam("more_pages"),
}
_HOLD_RUN = (
    update(runs)
    .where(
        runs.c.run_id == bindparam("of_run"),
        runs.c.reserved_nanousd + runs.c.spent_nanousd + bindparam("more_nanousd") <= runs.c.run_nanousd,
        runs.c.reserved_pages + runs.c.spent_pages + bindparam("more_pages") <= runs.c.run_pages,
    )
    .values({name: runs.c[name] + more for name, more in _more.items()})
)
_HOLD_DAY = (
    update(days)
    .where(
        days.c.day == bindparam("of_day"),
        days.c.reserved_nanousd + days.c.spent_nanousd + bindparam("more_nanousd") <= bindparam("most_nanousd"),
        days.c.reserved_pages + days.c.spent_pages + bindparam("more_pages") <= bindparam("most_pages"),
    )
    .values({name: days.c[name] + more for name, more in _more.items()})
)
_LET_GO_RUN = (
    update(runs)
    .where(runs.c.run_id == bindparam("of_run"))
    .values({name: runs.c[name] - more for name, more in _more.items()})
)
_LET_GO_DAY = (
    update(days)
    .where(days.c.day == bindparam("of_day"))
    .values({name: days.c[name] - more for name, more in _more.items()})
)
_SPEND_DAY = (
    update(days)
    .where(days.c.day == bindparam("of_day"))
    .values(
        spent_nanousd=days.c.spent_nanousd + bindparam("more_nanousd"),
        spent_pages=days.c.spent_pages + bindparam("more_pages"),
    )
)
_DAY = select(days).where(days.c.day == bindparam("of_day"))
_RUN = select(runs).where(runs.c.run_id == bindparam("of_run"))


def nanousd(usd: float) -> int:
    """USD as whole nano-USD."""
    return round(usd * _NANO)


def usd(nano: int) -> float:
    """Whole nano-USD as USD."""
    return nano / _NANO


def today(now: float) -> str:
    """The UTC day of a moment, as ISO 8601."""
    return datetime.fromtimestamp(now, UTC).date().isoformat()


def ceiling_columns(ceilings: Ceilings) -> dict[str, int]:
    """The columns of `runs` that keep its ceilings."""
    return {
        "run_nanousd": _nano_ceiling(ceilings.run_usd),
        "run_pages": _page_ceiling(ceilings.run_pages),
        "day_nanousd": _nano_ceiling(ceilings.day_usd),
        "day_pages": _page_ceiling(ceilings.day_pages),
    }


def ceilings_of(run: AnyRow) -> Ceilings:
    """The ceilings that a row of `runs` keeps."""
    return Ceilings(
        run_usd=None if run.run_nanousd == NO_CEILING else usd(run.run_nanousd),
        run_pages=None if run.run_pages == NO_CEILING else run.run_pages,
        day_usd=None if run.day_nanousd == NO_CEILING else usd(run.day_nanousd),
        day_pages=None if run.day_pages == NO_CEILING else run.day_pages,
    )


def hold(connection: Connection, run: AnyRow, reserves: Iterable[Spend], now: float) -> None:
    """Reserve the sum of `reserves` for a run whose row the caller holds.

    Raises:
        BudgetExhausted: a ceiling of the run or of the day would be passed. The transaction must be undone.
    """
    asked = sum(reserves, Spend())
    more = {"more_nanousd": nanousd(asked.usd), "more_pages": asked.pages}
    if not any(more.values()):
        return
    if connection.execute(_HOLD_RUN, {"of_run": run.run_id, **more}).rowcount == 0:
        raise _exhausted("run", asked)
    day = _open_day(connection, now)
    most = {"most_nanousd": run.day_nanousd, "most_pages": run.day_pages}
    if connection.execute(_HOLD_DAY, {"of_day": day, **more, **most}).rowcount == 0:
        raise _exhausted("day", asked)


def let_go(connection: Connection, run_id: str, event: AnyRow) -> None:
    """Give back what `event` (its `reserve_*` and `reserved_on` columns) holds, if it holds anything."""
    if event.reserved_on is None:
        return
    more = {"more_nanousd": event.reserve_nanousd, "more_pages": event.reserve_pages}
    connection.execute(_LET_GO_RUN, {"of_run": run_id, **more})
    connection.execute(_LET_GO_DAY, {"of_day": event.reserved_on, **more})


def book(connection: Connection, spend: Spend, now: float) -> None:
    """Add what was really spent to the day (the run's own sum is kept where its row is taken)."""
    if not (spend.usd or spend.pages):
        return
    more = {"more_nanousd": nanousd(spend.usd), "more_pages": spend.pages}
    connection.execute(_SPEND_DAY, {"of_day": _open_day(connection, now), **more})


def left(connection: Connection, run_id: str, now: float) -> BudgetLeft | None:
    """What the run and its day have left; None when there is no such run."""
    run = connection.execute(_RUN, {"of_run": run_id}).first()
    if run is None:
        return None
    day = connection.execute(_DAY, {"of_day": today(now)}).first()
    return BudgetLeft(
        run_usd_left=_usd_left(run.run_nanousd, run.reserved_nanousd + run.spent_nanousd),
        day_usd_left=_usd_left(run.day_nanousd, day.reserved_nanousd + day.spent_nanousd if day else 0),
        run_pages_left=_pages_left(run.run_pages, run.reserved_pages + run.spent_pages),
        day_pages_left=_pages_left(run.day_pages, day.reserved_pages + day.spent_pages if day else 0),
    )


def _open_day(connection: Connection, now: float) -> str:
    day = today(now)
    zeros = {"reserved_nanousd": 0, "reserved_pages": 0, "spent_nanousd": 0, "spent_pages": 0}
    insert_once(connection, days, {"day": day, **zeros})
    return day


def _nano_ceiling(ceiling: float | None) -> int:
    return NO_CEILING if ceiling is None or ceiling * _NANO >= NO_CEILING else nanousd(ceiling)


def _page_ceiling(ceiling: int | None) -> int:
    return NO_CEILING if ceiling is None else min(ceiling, NO_CEILING)


def _usd_left(ceiling: int, used: int) -> float:
    return float("inf") if ceiling == NO_CEILING else usd(max(0, ceiling - used))


def _pages_left(ceiling: int, used: int) -> int:
    return NO_CEILING if ceiling == NO_CEILING else max(0, ceiling - used)


def _exhausted(whose: str, asked: Spend) -> BudgetExhausted:
    return BudgetExhausted(f"the {whose}'s ceiling leaves no room for {asked.usd:g} USD and {asked.pages} pages")
