"""Pages, bytes, tokens, time and money: what a run and a UTC day have reserved, have spent, and have left.

Promises: a reservation never takes reserved plus spent past a ceiling, however many callers reserve at once: the
ceiling is a condition of the statement that raises the reservation. An event's reservation is released when it settles,
parks or is cancelled, and its actual spend takes the place. Spend is booked even where it passes the ceiling:
it has happened, and the next reservation finds no room.

A transaction gathers its changes in a `Balance` and applies them once, as its last step: every run of a
day changes that day's row, so it is locked for the shortest time, and always after everything else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Table, Update, bindparam, func, or_, select, update

from sluice.contracts.budget import Ceiling, Ceilings, Spend
from sluice.contracts.errors import BudgetExhausted
from sluice.ledger.schema.tables import UNITS, AnyRow, days, runs
from sluice.ledger.transaction import Transaction

NO_CEILING = 2**62
"""Stored in place of a missing ceiling."""
_STORED = {
    "usd": ("nanousd", 1_000_000_000),
    "pages": ("pages", 1),
    "bytes": ("bytes", 1),
    "tokens": ("tokens", 1),
    "milliseconds": ("microseconds", 1_000),
}
"""For each unit of `Spend` the one of `UNITS` that the ledger stores, and how many of these it is."""

Amounts = dict[str, int]
"""Amount for each of `UNITS`."""


def amounts_of(spend: Spend) -> Amounts:
    """Convert to the whole numbers that the ledger stores."""
    return {stored: round(getattr(spend, unit) * scale) for unit, (stored, scale) in _STORED.items()}


def spend_in(row: AnyRow, prefix: str) -> Spend:
    """Return the spend in the columns of `row` that begin with `prefix`."""
    amounts = {unit: _scaled(getattr(row, f"{prefix}_{stored}"), scale) for unit, (stored, scale) in _STORED.items()}
    return Spend(**amounts)


def _scaled(amount: int, scale: int) -> Any:
    return amount if scale == 1 else amount / scale


@dataclass(slots=True)
class Balance:
    """One transaction's changes to the reservations and spend of a run and its days."""

    held: Spend = field(default_factory=Spend)
    spent: Spend = field(default_factory=Spend)
    freed: list[tuple[str, Amounts]] = field(default_factory=list)

    def free(self, event: AnyRow) -> None:
        """Release the reservation of `event` (its `reserve_*` and `reserved_on` columns), if it has one."""
        if event.reserved_on is not None:
            amounts = {unit: getattr(event, f"reserve_{unit}") for unit in UNITS}
            self.freed.append((event.reserved_on, amounts))

    def carry_out(self, connection: Transaction, run: AnyRow, now: float) -> None:
        """Update the rows of the run (which the caller holds) and of the days.

        The run's own sums of spend are updated where its row is locked (`runs.take`). Raises `BudgetExhausted` if a
        ceiling of the run or of the day would be passed; the caller must then undo the transaction.
        """
        asked, spent = amounts_of(self.held), amounts_of(self.spent)
        freed = _sum(amounts for _, amounts in self.freed)
        if any(asked.values()) or any(freed.values()):
            _change_run(connection, run, asked, freed, self.held)
        today_freed = _sum(amounts for day, amounts in self.freed if day == today(now))
        if any(asked.values()) or any(spent.values()) or any(today_freed.values()):
            _change_today(connection, run, asked, today_freed, spent, self.held, now)
        for day, amounts in sorted(self.freed, key=lambda one: one[0]):
            if day != today(now):
                connection.execute(_FREE_DAY, {"of_day": day, **_named("less", amounts)})


def _hold(table: Table, of: str, most: dict[str, Any]) -> Update:
    """Build the update of a row's reserved and spent amounts, on condition that new reservations fit its ceilings."""
    within: list[ColumnElement[bool]] = []
    changes: dict[Any, ColumnElement[int]] = {}
    for unit in UNITS:
        reserved, spent = table.c[f"reserved_{unit}"], table.c[f"spent_{unit}"]
        asked, less, used = (bindparam(f"{name}_{unit}", type_=spent.type) for name in ("asked", "less", "used"))
        within.append(or_(asked == 0, reserved + spent + asked - less + used <= most[unit]))
        changes |= {reserved: reserved + asked - less, spent: spent + used}
    return update(table).where(table.c[of] == bindparam("of_row"), *within).values(changes)


_HOLD_RUN = _hold(runs, "run_id", {unit: runs.c[f"run_{unit}"] for unit in UNITS})
_HOLD_DAY = _hold(days, "day", {unit: bindparam(f"most_{unit}", type_=days.c.spent_pages.type) for unit in UNITS})
_FREE_DAY = (
    update(days)
    .where(days.c.day == bindparam("of_day"))
    .values({f"reserved_{unit}": days.c[f"reserved_{unit}"] - bindparam(f"less_{unit}") for unit in UNITS})
)


def usd(nano: int) -> float:
    """Convert whole nano-USD to USD."""
    return nano / _STORED["usd"][1]


def today(now: float) -> str:
    """Return the UTC day of a moment, as ISO 8601."""
    return datetime.fromtimestamp(now, UTC).date().isoformat()


def used_in_day(connection: Transaction, now: float) -> Spend:
    """Return the sum reserved and spent in the UTC day of a moment."""
    day = connection.select(days, {"day": today(now)}).first()
    return spend_in(day, "reserved") + spend_in(day, "spent") if day else Spend()


def ceiling_columns(ceilings: Ceilings) -> dict[str, int]:
    """Return the columns of `runs` that store its ceilings."""
    return _columns("run", ceilings.run) | _columns("day", ceilings.day)


def left(connection: Transaction, run_id: str, now: float) -> Ceilings:
    """Return the amounts that the run and its day may still reserve. Raises `NotFound` if there is no such run."""
    run = connection.select(runs, {"run_id": run_id}).found(f"run {run_id}")
    day = connection.select(days, {"day": today(now)}).first()
    return Ceilings(run=_left(run, "run", run), day=_left(run, "day", day))


def spent_on_day(connection: Transaction, now: float) -> Spend:
    """Return the amounts that runs spent on the UTC day of a moment."""
    day = connection.select(days, {"day": today(now)}).first()
    return Spend() if day is None else spend_in(day, "spent")


def days_over(connection: Transaction, most_usd: float, since: float) -> int:
    """Count the UTC days, from that of `since` on, whose runs together spent more than `most_usd`."""
    over = days.c.spent_nanousd > round(most_usd * _STORED["usd"][1])
    asked = select(func.count()).select_from(days).where(days.c.day >= today(since), over)
    return int(connection.execute(asked).scalar() or 0)


def _change_run(connection: Transaction, run: AnyRow, asked: Amounts, freed: Amounts, held: Spend) -> None:
    facts = _named("asked", asked) | _named("less", freed) | _named("used", dict.fromkeys(UNITS, 0))
    if connection.execute(_HOLD_RUN, {"of_row": run.run_id, **facts}).rowcount == 0:
        raise _exhausted("run", held)


def _change_today(
    connection: Transaction, run: AnyRow, asked: Amounts, freed: Amounts, spent: Amounts, held: Spend, now: float
) -> None:
    most = {f"most_{unit}": getattr(run, f"day_{unit}") for unit in UNITS}
    facts = _named("asked", asked) | _named("less", freed) | _named("used", spent) | most | {"of_row": today(now)}
    if connection.execute(_HOLD_DAY, facts).rowcount:
        return
    opened = connection.insert_once(days, {"day": today(now)})
    if not opened or connection.execute(_HOLD_DAY, facts).rowcount == 0:
        raise _exhausted("day", held)


def _columns(prefix: str, ceiling: Ceiling) -> dict[str, int]:
    most = {unit: NO_CEILING if value is None else round(value * _STORED[unit][1]) for unit, value in ceiling}
    return {f"{prefix}_{_STORED[unit][0]}": min(amount, NO_CEILING) for unit, amount in most.items()}


def _left(run: AnyRow, prefix: str, used: AnyRow | None) -> Ceiling:
    left: dict[str, float] = {}
    for unit, (stored, scale) in _STORED.items():
        most = getattr(run, f"{prefix}_{stored}")
        if most != NO_CEILING:
            taken = getattr(used, f"reserved_{stored}") + getattr(used, f"spent_{stored}") if used else 0
            left[unit] = _scaled(max(0, most - taken), scale)
    return Ceiling.model_validate(left)


def _sum(many: Iterable[Amounts]) -> Amounts:
    total = dict.fromkeys(UNITS, 0)
    for amounts in many:
        for unit, amount in amounts.items():
            total[unit] += amount
    return total


def _named(prefix: str, amounts: Amounts) -> dict[str, int]:
    return {f"{prefix}_{unit}": amount for unit, amount in amounts.items()}


def _exhausted(whose: str, asked: Spend) -> BudgetExhausted:
    wanted = ", ".join(f"{value:g} {unit}" for unit, value in asked if value)
    return BudgetExhausted(f"the {whose}'s ceiling leaves no room for {wanted}")
