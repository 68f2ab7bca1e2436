"""Progress of a bulk replay: outcomes of the replayed letters, and how many more may follow."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from sqlalchemy import bindparam, func, select

from sluice.contracts.operations.dead_letters import DeadLetterFilter, ReplayView
from sluice.ledger.schema.tables import AnyRow, dead_letters, events
from sluice.ledger.transaction import Transaction

MOST_FAILED_AGAIN = 0.2
"""Share of the letters that came to an end, above which a replay aborts itself."""
ENOUGH_TO_JUDGE = 20
"""Letters that must have come to an end before it is judged."""
MOST_OPEN_UNJUDGED = 100
"""Letters under way before it is judged: a bad one spoils no more than these."""
MOST_OPEN = 500
"""Letters under way after that: what two seconds of the fastest replay bring back."""
_CATCH_UP_SECONDS = 2.0
"""Pace that is made good after a tick that came late; longer pauses are not."""

_PROGRESS = (
    select(events.c.status, func.count().label("letters"))
    .select_from(dead_letters)
    .outerjoin(events, events.c.id == func.coalesce(dead_letters.c.replayed_as, dead_letters.c.event_id))
    .where(dead_letters.c.replay_id == bindparam("of_replay"))
    .group_by(events.c.status)
)


class Progress(NamedTuple):
    """What became of the letters that a replay brought back."""

    open: int = 0
    succeeded: int = 0
    parked_again: int = 0
    cancelled: int = 0

    @property
    def ended(self) -> int:
        """Letters of which is known how it went."""
        return self.succeeded + self.parked_again

    @property
    def is_judged(self) -> bool:
        """Whether enough is known."""
        return self.ended >= ENOUGH_TO_JUDGE

    @property
    def is_bad(self) -> bool:
        """Whether too many failed again."""
        return self.is_judged and self.parked_again > MOST_FAILED_AGAIN * self.ended

    @property
    def room(self) -> int:
        """How many more letters may be under way."""
        return max(0, (MOST_OPEN if self.is_judged else MOST_OPEN_UNJUDGED) - self.open)


@dataclass(frozen=True, slots=True)
class Pace:
    """How many letters are due by the rate, and up to when the rate is used up once so many of them were taken."""

    due: int
    since: float
    per_second: float

    @classmethod
    def of(cls, replay: AnyRow, now: float) -> Pace:
        """The pace of a replay at this moment."""
        earliest = now - _CATCH_UP_SECONDS - 1 / replay.per_second
        clock_was_set_back = replay.updated_at > now + _CATCH_UP_SECONDS
        since = earliest if clock_was_set_back else max(replay.updated_at, earliest)
        return cls(max(0, int((now - since) * replay.per_second + 1e-6)), since, replay.per_second)

    def used_up(self, taken: int) -> float:
        """Up to when the rate is used up once so many letters were taken."""
        return self.since + taken / self.per_second


def progress_of(connection: Transaction, replay_id: str) -> Progress:
    """What became of the letters of a replay, by the events that they are."""
    found = {row.status: row.letters for row in connection.execute(_PROGRESS, {"of_replay": replay_id})}
    return Progress(
        open=sum(found.get(status, 0) for status in ("ready", "claimed", "waiting")),
        succeeded=found.get("settled", 0) + found.get(None, 0),  # without a row: its run was handled and pruned
        parked_again=found.get("dead", 0),
        cancelled=found.get("cancelled", 0),
    )


def view_of(connection: Transaction, row: AnyRow) -> ReplayView:
    """A replay as operators see it."""
    return ReplayView(
        id=row.id,
        status=row.status,
        why=row.why,
        filter=DeadLetterFilter.model_validate_json(row.filter),
        per_second=row.per_second,
        force=bool(row.force),
        operator=row.operator,
        note=row.note,
        created_at=datetime.fromtimestamp(row.created_at, UTC),
        updated_at=datetime.fromtimestamp(row.updated_at, UTC),
        total=row.total,
        replayed=row.replayed,
        skips=json.loads(row.skips),
        **progress_of(connection, row.id)._asdict(),
    )
