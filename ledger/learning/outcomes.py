"""Reads outcomes of gate runs page by page, in the order of decisions."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, Executable, bindparam, cast, delete, func, select, tuple_

from sluice.contracts.base import construct_unvalidated
from sluice.contracts.learning.run_outcome import RunOutcome
from sluice.contracts.plan import Plan
from sluice.ledger.database import LedgerPart
from sluice.ledger.events.reservations import usd
from sluice.ledger.learning.outcome_rows import derive
from sluice.ledger.runs import take
from sluice.ledger.schema.tables import AnyRow, moment, outcomes, perhaps_moment, runs

ROWS_AT_ONCE = 2_000
"""Rows of one page of a longer reading."""
_DERIVED_AT_ONCE = 100
"""Runs whose rows one transaction rebuilds: some ten milliseconds in which no other writer gets its turn."""


class Place(NamedTuple):
    """A place in the order of decisions: later ones, or those of the same moment with a greater id, come after it."""

    moment: float
    run_id: str = ""


_HAS = outcomes.c
_FIELDS = tuple(RunOutcome.model_fields)
_COLUMNS = [_HAS[{"usd": "spent_nanousd"}.get(name, name)] for name in _FIELDS]
_DECIDED = (
    select(*_COLUMNS)
    .where(tuple_(_HAS.decided_at, _HAS.run_id) > tuple_(bindparam("after"), bindparam("after_run")))
    .where(_HAS.decided_at < bindparam("before"))
    .order_by(_HAS.decided_at, _HAS.run_id)
    .limit(bindparam("most"))
)
_OF_MODEL = _HAS.model_version == bindparam("of_version")
_COMPARED = _DECIDED.where(_OF_MODEL, _HAS.arm != "default")
_COUNT_OF_MODEL = select(func.count()).where(_OF_MODEL, _HAS.decided_at >= bindparam("since"))
_SPENT_BY_PLAN = (
    select(_HAS.plan, func.count().label("ended"), func.sum(_HAS.spent_nanousd).label("nanousd"))
    .where(_HAS.finished_at.is_not(None), _HAS.decided_at >= bindparam("since"))
    .group_by(_HAS.plan)
)
_HOUR = (cast(_HAS.decided_at, BigInteger) // 3_600).label("hour")
_PLANS_BY_HOUR = (
    select(_HAS.plan, _HOUR, func.count().label("decided"))
    .where(_HAS.decided_at >= bindparam("since"))
    .group_by(_HAS.plan, _HOUR)
)
_ONE = select(*_COLUMNS).where(_HAS.run_id == bindparam("of_run"))
_JUDGED = (
    select(*_COLUMNS)
    .where(_HAS.corpus == bindparam("of_corpus"), _HAS.judged_at.is_not(None), _HAS.confidence.is_not(None))
    .where(_HAS.plan == Plan.RETRIEVE.value)
    .order_by(_HAS.decided_at.desc())
    .limit(bindparam("most"))
)
_UNTRACED = (
    select(func.count())
    .select_from(outcomes.join(runs, runs.c.run_id == _HAS.run_id))
    .where(_HAS.decided_at >= bindparam("since"), _HAS.decided_at < bindparam("until"), runs.c.traceparent.is_(None))
)
_GATE_RUNS = (
    select(runs.c.run_id)
    .where(runs.c.kind == "gate", runs.c.run_id > bindparam("after"))
    .order_by(runs.c.run_id)
    .limit(_DERIVED_AT_ONCE)
)
_ORPHANS = select(_HAS.run_id).where(~select(runs.c.run_id).where(runs.c.run_id == _HAS.run_id).exists()).limit(1_000)
_DROP_ORPHANS = delete(outcomes).where(_HAS.run_id.in_(_ORPHANS))


class Outcomes(LedgerPart):
    """The outcomes of one ledger. Every method may raise `Unavailable`."""

    def of_run(self, run_id: str) -> RunOutcome | None:
        """Return the outcome of a run; None where it was not decided, or is no gate run."""
        row = self._database.read(_ONE, {"of_run": run_id}).first()
        return None if row is None else _outcome(row)

    def plans_by_hour(self, since: float) -> dict[tuple[Plan, int], int]:
        """Count the decisions since a moment by plan and hour (since the epoch; a half second at its edge may count to
        its neighbour)."""
        rows = self._database.read(_PLANS_BY_HOUR, {"since": since})
        return {(_PLANS[row.plan], row.hour): row.decided for row in rows}

    def judged_from(self, corpus: str, most: int) -> Sequence[RunOutcome]:
        """Return the latest judged runs that were answered, with a confidence, from this corpus alone."""
        rows = self._database.read(_JUDGED, {"of_corpus": corpus, "most": most}).all()
        return [_outcome(row) for row in rows]

    def page(
        self, after: Place, before: float = math.inf, most: int = ROWS_AT_ONCE
    ) -> tuple[tuple[RunOutcome, ...], Place]:
        """Return at most `most` runs after a place and decided before a moment, in order; and the place after them."""
        return self._page(_DECIDED, {"before": min(before, _FOREVER)}, after, most)

    def decided_between(self, since: float, before: float = math.inf) -> Iterator[RunOutcome]:
        """Yield the runs decided from `since` to before `before`, in order, one page at a time."""
        return self._every(_DECIDED, {"before": min(before, _FOREVER)}, since)

    def compared(self, model_version: str, since: float) -> Iterator[RunOutcome]:
        """Yield the runs since a moment that a model decided or is compared with, in the order of decisions."""
        return self._every(_COMPARED, {"before": _FOREVER, "of_version": model_version}, since)

    def _every(self, statement: Executable, facts: Mapping[str, Any], since: float) -> Iterator[RunOutcome]:
        place = Place(since)
        while True:
            found, place = self._page(statement, facts, place, ROWS_AT_ONCE)
            yield from found
            if len(found) < ROWS_AT_ONCE:
                return

    def _page(
        self, statement: Executable, facts: Mapping[str, Any], after: Place, most: int
    ) -> tuple[tuple[RunOutcome, ...], Place]:
        asked = {**facts, "after": after.moment, "after_run": after.run_id, "most": most}
        rows = self._database.read(statement, asked).all()
        return tuple(map(_outcome, rows)), Place(rows[-1].decided_at, rows[-1].run_id) if rows else after

    def untraced_between(self, since: float, before: float) -> int:
        """Count the runs decided in that time that have no trace."""
        asked = {"since": since, "until": before}
        return int(self._database.read(_UNTRACED, asked).scalar() or 0)

    def count_of_model(self, model_version: str, since: float) -> int:
        """Count the runs that a model's rollout has drawn since a moment, in every arm."""
        return int(self._database.read(_COUNT_OF_MODEL, {"of_version": model_version, "since": since}).scalar() or 0)

    def usd_of_plans(self, since: float) -> dict[Plan, float]:
        """Return the mean cost in USD of the ended runs of each plan that were decided since a moment."""
        rows = self._database.read(_SPENT_BY_PLAN, {"since": since}).all()
        return {_PLANS[row.plan]: usd(int(row.nanousd)) / row.ended for row in rows}

    def rebuild(self, told: Callable[[int], None] = lambda count: None) -> int:
        """Rebuild every row from the events of its run; return their number. Calls `told` with the growing count.

        Work may go on meanwhile: each row is made under the lock of its run.
        """
        after, made = "", 0
        while True:
            with self._database.writing() as connection:
                run_ids = connection.execute(_GATE_RUNS, {"after": after}).scalars()
                for run_id in run_ids:
                    take(connection, run_id)
                    made += derive(connection, run_id, self._clock())
            if not run_ids:
                break
            after = run_ids[-1]
            told(made)
        self._drop_orphans()
        return made

    def _drop_orphans(self) -> None:
        """Delete the rows of runs that no longer exist."""
        removed = 1
        while removed:
            with self._database.writing() as connection:
                removed = connection.execute(_DROP_ORPHANS).rowcount


_FOREVER = 1e12
"""Seconds since 1970, later than any moment that a datetime can hold."""
_PLANS = {plan.value: plan for plan in Plan}
_NAMES = set(RunOutcome.model_fields)


def _outcome(row: AnyRow) -> RunOutcome:
    """Convert a row. It was valid when it was written, so it is not validated again."""
    fields: dict[str, Any] = dict(zip(_FIELDS, row, strict=True))
    fields["plan"] = _PLANS[fields["plan"]]
    fields["usd"] = usd(fields["usd"])
    fields["is_trickle"] = bool(fields["is_trickle"])
    fields["is_stepped_back"] = bool(fields["is_stepped_back"])
    fields["decided_at"] = moment(fields["decided_at"])
    fields["finished_at"] = perhaps_moment(fields["finished_at"])
    fields["judged_at"] = perhaps_moment(fields["judged_at"])
    fields["signals"] = {} if fields["signals"] == "{}" else json.loads(fields["signals"])
    return construct_unvalidated(RunOutcome, fields, _NAMES)
