"""Builds the timeline of a run: the rows to draw, folded where they are many, and the sum of the critical chain."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from sluice.contracts.api import ENDED
from sluice.contracts.operations.timeline import Doing, Timeline, TimelineCut, TimelineRow
from sluice.ledger.schema.tables import moment
from sluice.ledger.timeline.record import EventRow, RunRecord
from sluice.ledger.timeline.stretches import Stretch, life_of
from sluice.ledger.timeline.sums import Chain, line_of, sums_of

LEAST_FOLDED = 5
"""Siblings of one kind that become one row."""
MOST_ROWS = 300
CUT_SHARE, LEAST_CUT_SECONDS = 0.2, 10.0
"""A stretch in which nothing is done becomes a cut when it is longer than this share of the whole, and this long."""
LEAST_SECONDS = 0.001
"""Waits shorter than this are no row."""
MOST_SUBJECT_CHARACTERS = 80


class Detail(NamedTuple):
    """A part of the work on an event, from its span: in the attempt with that epoch, in seconds since the epoch."""

    event_id: str
    attempt: int
    label: str
    begins: float
    ends: float
    why: str = ""


def build_timeline(record: RunRecord, now: float, details: Iterable[Detail] = ()) -> Timeline:
    """Build the timeline of a run as of `now`, in seconds since the epoch."""
    lives = {one.id: life_of(one, record, now) for one in record.events}
    chain = Chain(record, lives, now)
    pieces, total = chain.pieces(lives), chain.ends - record.created_at
    rows = _Rows(record, lives, chain, details)
    drawn, count = rows.drawn()
    sums = sums_of(pieces, total)
    ends = [one.ends for life in lives.values() for one in life]
    whole = max([chain.ends, *ends]) - record.created_at
    return Timeline(
        run_id=record.run_id,
        status=record.status,
        created_at=moment(record.created_at),
        now_ms=_ms(whole),
        is_over=record.status in ENDED,
        sum_line=line_of(sums, total, is_over=chain.is_over),
        sums=sums,
        rows=tuple(drawn),
        rows_in_all=count,
        cuts=_cuts(record.created_at, whole, [one for life in lives.values() for one in life]),
        traceparent=record.traceparent,
    )


class _Rows:
    """The rows of one run, in the order of the tree of causes."""

    def __init__(
        self, record: RunRecord, lives: Mapping[str, Sequence[Stretch]], chain: Chain, details: Iterable[Detail]
    ) -> None:
        self._began = record.created_at
        self._events, self._lives = record.events, lives
        self._critical = {event.id: until for event, until in chain.links}
        self._details: dict[tuple[str, int], list[Detail]] = defaultdict(list)
        for one in sorted(details, key=lambda one: one.begins):
            self._details[one.event_id, one.attempt].append(one)

    def drawn(self) -> tuple[list[TimelineRow], int]:
        """Return the rows to draw, and how many there are when none is folded or left out."""
        rows, count = [], 0
        ids = {one.id for one in self._events}
        children: dict[str | None, list[EventRow]] = defaultdict(list)
        for one in self._events:
            children[one.cause_id if one.cause_id in ids else None].append(one)
        groups = list(reversed([(some, 0) for some in self._grouped(children[None], is_below_fold=False)]))
        while groups:
            group, depth = groups.pop()
            if len(group) > 1:
                rows += self._folded(group, depth)
            else:
                rows += self._single(group[0], depth)
            count += sum(len(self._stretches(one)) for one in group)
            below = [child for one in group for child in children[one.id]]
            groups += reversed([(some, depth + 1) for some in self._grouped(below, is_below_fold=len(group) > 1)])
        count += sum(row.doing == "detail" for row in rows)
        return (rows if len(rows) <= MOST_ROWS else _fewer(rows)), count

    def _grouped(self, siblings: list[EventRow], *, is_below_fold: bool) -> list[list[EventRow]]:
        """Part siblings into groups, each of one row or folded to one, in the order in which they began."""
        by_kind: dict[str, list[EventRow]] = defaultdict(list)
        alone = []
        for one in siblings:
            is_plain = one.id not in self._critical and all(s.doing in ("waits", "works") for s in self._lives[one.id])
            if is_plain:
                by_kind[one.kind].append(one)
            else:
                alone.append([one])
        least = 2 if is_below_fold else LEAST_FOLDED
        folded = [some for some in by_kind.values() if len(some) >= least]
        alone += [[one] for some in by_kind.values() if len(some) < least for one in some]
        return sorted([*folded, *alone], key=lambda some: some[0].created_at)

    def _stretches(self, event: EventRow) -> list[Stretch]:
        return [
            one
            for one in self._lives[event.id]
            if one.doing != "waits" or one.seconds >= LEAST_SECONDS or one.is_under_way
        ]

    def _single(self, event: EventRow, depth: int) -> list[TimelineRow]:
        found = []
        until = self._critical.get(event.id)
        for one in self._stretches(event):
            is_critical = until is not None and one.begins < until
            found.append(self._row(one, depth, _label(one), is_critical))
            if one.doing in ("works", "failed") and one.attempt is not None:
                for part in self._details.get((event.id, one.attempt), ()):
                    shown = Stretch(event, "detail", part.begins, part.ends, part.why, one.worker, one.attempt)
                    found.append(self._row(shown, depth + 1, part.label, is_critical=False))
        return found

    def _row(self, one: Stretch, depth: int, label: str, is_critical: bool) -> TimelineRow:
        return TimelineRow(
            event_id=one.event.id,
            cause_id=one.event.cause_id,
            kind=one.event.kind,
            stage=one.event.stage,
            label=label,
            depth=depth,
            doing=one.doing,
            begins_ms=_ms(one.begins - self._began),
            took_ms=_ms(max(0.0, one.seconds)),
            why=one.why,
            worker=one.worker,
            attempt=one.attempt,
            is_critical=is_critical,
            is_under_way=one.is_under_way,
        )

    def _folded(self, group: list[EventRow], depth: int) -> list[TimelineRow]:
        found = []
        for doing in ("waits", "works"):
            by_event = {one.id: [s for s in self._lives[one.id] if s.doing == doing] for one in group}
            parts = [one for some in by_event.values() for one in some]
            lengths = [sum(one.seconds for one in some) for some in by_event.values() if some]
            if not parts or (doing == "waits" and max(lengths) < LEAST_SECONDS):
                continue
            longest = max(parts, key=lambda one: one.seconds)
            whole = longest._replace(
                begins=min(one.begins for one in parts),
                ends=max(one.ends for one in parts),
                worker=None,
                attempt=None,
                is_under_way=any(one.is_under_way for one in parts),
            )
            ends = sorted(some[-1].ends for some in by_event.values() if some and not some[-1].is_under_way)
            row = self._row(whole, depth, f"{group[0].kind} × {len(lengths):,}", is_critical=False)
            figures = {
                "folded": len(lengths),
                "shortest_ms": _ms(min(lengths)),
                "longest_ms": _ms(max(lengths)),
                "ends_ms": tuple(_ms(at - self._began) for at in ends),
            }
            found.append(row.model_copy(update=figures))
        return found


def _label(one: Stretch) -> str:
    if one.attempt is not None and one.attempt > 1:
        return f"{one.event.stage}, attempt {one.attempt}"
    subject = one.event.subject
    if len(subject) > MOST_SUBJECT_CHARACTERS:
        subject = subject[: MOST_SUBJECT_CHARACTERS - 2] + " …"
    return f"{one.event.kind} {subject}".rstrip()


def _fewer(rows: list[TimelineRow]) -> list[TimelineRow]:
    """Return the folded rows and the critical ones, and as many failures as there is room for."""
    ranks: dict[int, int] = {}
    for place, row in enumerate(rows):
        if row.is_critical and row.doing != "detail":
            ranks[place] = 0
        elif row.folded > 1:
            ranks[place] = 1
        elif row.doing in ("failed", "died", "backs_off"):
            ranks[place] = 2
    kept = sorted(ranks, key=lambda place: (ranks[place], -rows[place].took_ms))[:MOST_ROWS]
    return [rows[place] for place in sorted(kept)]


def _cuts(began: float, whole: float, stretches: Iterable[Stretch]) -> tuple[TimelineCut, ...]:
    """Return the stretches in which no event is worked on, begins or ends, if they are long enough to be cut."""
    least = max(whole * CUT_SHARE, LEAST_CUT_SECONDS)
    moments = {began, began + whole}
    busy: list[tuple[float, float]] = []
    idle: tuple[Doing, ...] = ("waits", "backs_off")
    for one in stretches:
        moments |= {one.begins, one.ends}
        if one.doing not in idle:
            busy.append((one.begins, one.ends))
    busy.sort()
    found, reached, place = [], began, 0
    for at, until in pairwise(sorted(moments)):
        while place < len(busy) and busy[place][0] <= at:
            reached, place = max(reached, busy[place][1]), place + 1
        if until - at > least and reached <= at:
            found.append(TimelineCut(begins_ms=_ms(at - began), ends_ms=_ms(until - began)))
    return tuple(found)


def _ms(seconds: float) -> float:
    return round(seconds * 1_000, 3)
