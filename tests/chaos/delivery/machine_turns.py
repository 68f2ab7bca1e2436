"""The law of turns: who among the ready events of a stage is served next.

1. An interactive run's event goes before a bulk one's.
2. Within a lane, first come first served.
3. *While two lanes both have events in line, neither is served more than two events more than the other.*

Why two: turns are consecutive within a lane, and a lane that joins gets the turn being served, or the next. So of
two lanes in line the next turns differ by one at most, and at a tie the older event goes first: one lane can be
served at v and v + 1 before the other is at v + 1, and then it stands at v + 2. `BOUND` is that figure, for any two
moments between which both lanes were in line.

Left out of the count are events that do not stand in their lane's regular line: suspects (they are served first, by
whoever is alone), what was handed back (it is next in line), and what stood behind an event that left the line
from its middle. A lane is judged while it has none of these in line, and was not favoured: a suspect that was served
before its turn is paid for later, until the line was empty once. It is judged from the moment it joins, so nothing else
that happened before may cost it its share.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

from sluice.contracts.event import Queue
from sluice.ledger.events.outbox import NO_KEY
from tests.chaos.delivery.machine_deeds import Deed, Free, Take, Wake
from tests.chaos.delivery.machine_laws import demand
from tests.chaos.delivery.machine_state import EventRow, State

BOUND = 2


class Line(NamedTuple):
    """Where events of a stage stand: those of interactive runs in one place, of bulk runs in another."""

    stage: Queue | None
    is_bulk: bool


class Lane(NamedTuple):
    """Whose events they are: those of an API key, or of a corpus without one."""

    line: Line
    whose: str


@dataclass
class Turns:
    """What was served, and who had to wait meanwhile."""

    place: dict[str, int] = field(default_factory=dict)
    """By event: the order in which ready events lined up."""
    irregular: set[str] = field(default_factory=set)
    ahead: dict[tuple[Lane, Lane], int] = field(default_factory=dict)
    """By pair of lanes that are both in line: how many more of the first were served since they both are."""
    favoured: set[Lane] = field(default_factory=set)
    most_ahead: int = 0
    _lined_up: int = 0

    def judge(self, before: State, after: State, deed: Deed) -> None:
        """Take in a transaction of `deed`."""
        gone = [
            row for row in before.events.values() if row.status == "ready" and after.events[row.id].status != "ready"
        ]
        if isinstance(deed, Take):
            for row in gone:
                self._serve(before, row)
        for row in gone:
            self._leave(before, after, row, was_served=isinstance(deed, Take))
        come = [row for row in after.ready() if row.id not in before.events or before.events[row.id].status != "ready"]
        if isinstance(deed, Free):
            self.irregular |= {row.id for row in come}
        elif isinstance(deed, Wake):
            self._line_up(come, by=lambda row: row.due_at)
        else:
            self._line_up(come, by=lambda row: row.seq)
        self._compare(after)

    def _serve(self, before: State, row: EventRow) -> None:
        lane = tenant_queue_of(before, row)
        if row.deaths:
            self.favoured.add(lane)
            return
        others = [one for one in before.ready(lane.line.stage) if not one.deaths]
        sooner = [one for one in others if tenant_queue_of(before, one).line.is_bulk < lane.line.is_bulk]
        demand(not sooner, "interactive runs go before bulk ones", row, sooner)
        if row.id in self.irregular:
            return
        own = [one for one in others if tenant_queue_of(before, one) == lane and one.id not in self.irregular]
        first = min(self.place[one.id] for one in own)
        demand(self.place[row.id] == first, "within a lane, first come first served", row, own)
        for (one, other), lead in self.ahead.items():
            if lane in (one, other):
                lead += 1 if lane == one else -1
                self.ahead[one, other] = lead
                self.most_ahead = max(self.most_ahead, abs(lead))
                demand(abs(lead) <= BOUND, f"no lane in line is served more than {BOUND} ahead", one, other, lead, row)

    def _leave(self, before: State, after: State, row: EventRow, *, was_served: bool) -> None:
        """Whoever stood behind an event that left from the middle stands one turn too far back."""
        lane = tenant_queue_of(before, row)
        line = [one for one in before.ready(row.queue) if tenant_queue_of(before, one) == lane]
        if was_served and self.place[row.id] == min(self.place[one.id] for one in line):
            return
        self.irregular |= {one.id for one in line if self.place[one.id] > self.place[row.id]}

    def _line_up(self, come: Sequence[EventRow], by: Callable[[EventRow], float | None]) -> None:
        places = {
            moment: self._lined_up + at for at, moment in enumerate(sorted({by(row) or 0 for row in come}), start=1)
        }
        self._lined_up += len(places)
        self.place |= {row.id: places[by(row) or 0] for row in come}
        self.irregular -= {row.id for row in come}

    def _compare(self, after: State) -> None:
        lanes: dict[Lane, list[EventRow]] = defaultdict(list)
        for row in after.ready():
            lanes[tenant_queue_of(after, row)].append(row)
        lines = {lane.line for lane in lanes}
        self.favoured = {lane for lane in self.favoured if lane.line in lines}
        regular = {lane for lane, rows in lanes.items() if not any(self._is_irregular(row) for row in rows)}
        judged = sorted(regular - self.favoured)
        pairs = [(one, other) for one, other in combinations(judged, 2) if one.line == other.line]
        self.ahead = {pair: self.ahead.get(pair, 0) for pair in pairs}

    def _is_irregular(self, row: EventRow) -> bool:
        return row.deaths > 0 or row.id in self.irregular


def tenant_queue_of(state: State, row: EventRow) -> Lane:
    """The lane that an event stands in."""
    run = state.runs[row.run_id]
    whose = f"corpus {run.corpus}" if run.owner == NO_KEY else f"key {run.owner}"
    return Lane(Line(row.queue, run.kind != "gate"), whose)
