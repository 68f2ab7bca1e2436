"""The chain of causes that ends a run, and the one line that says where its time went along it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple, get_args

from sluice.contracts.event import AFTERWARDS
from sluice.contracts.operations.timeline import Doing, SumName, TimelineSum
from sluice.ledger.timeline.record import EventRow, RunRecord
from sluice.ledger.timeline.stretches import Stretch

NAMES: dict[Doing, SumName] = {
    "waits": "waiting",
    "works": "working",
    "backs_off": "backing off",
    "failed": "failing",
    "died": "lost to dead workers",
}
MOST_PARTS, MOST_WHY_CHARACTERS = 6, 90
"""Parts of a sum that the line names one by one, and what it says of a reason."""


class Link(NamedTuple):
    """An event of the chain: what counts of it lies between its creation and `until`, where the next one begins."""

    event: EventRow
    until: float


class Chain:
    """The events that the run's end waited for, the first one first.

    Walks back from `RunFinished` by `cause_id`. Where the ledger itself caused an event (a deadline, a cancellation,
    the death of a worker), it goes on with the event that ended in that moment, else with the one open longest.
    """

    def __init__(self, record: RunRecord, lives: Mapping[str, Sequence[Stretch]], now: float) -> None:
        self.begins = record.created_at
        closing = next((one for one in record.events if one.kind == "RunFinished"), None)
        self.is_over = record.finished_at is not None
        self.ends = record.finished_at if record.finished_at is not None else now
        by_id = {one.id: one for one in record.events}
        ended = {one.id: lives[one.id][-1].ends for one in record.events if one.stage and lives[one.id]}
        self.links: list[Link] = []
        at, event = self.ends, by_id.get(closing.cause_id or "") if closing and self.is_over else None
        seen: set[str] = set()
        while at > self.begins or event is not None:
            if event is None or event.id in seen or event.stage is None:
                event = _held_by(record, lives, ended, at, seen)
            if event is None:
                break
            seen.add(event.id)
            self.links.append(Link(event, at))
            at, event = event.created_at, by_id.get(event.cause_id or "")
        self.unexplained_until = at
        self.links.reverse()

    def pieces(self, lives: Mapping[str, Sequence[Stretch]]) -> list[Stretch]:
        """Return the stretches along the chain; together they last from the run's beginning to its end."""
        found: list[Stretch] = []
        at = self.begins
        for event, until in self.links:
            if event.created_at != at:
                found.append(Stretch(event, "waits", at, event.created_at, "for its cause"))
            at = event.created_at
            for one in lives[event.id]:
                ends = min(one.ends, until)
                if one.begins < until or one.seconds < 0:
                    found.append(one._replace(begins=at, ends=ends))
                    at = ends
            if at != until:
                found.append(Stretch(event, "waits", at, until, "for what follows"))
                at = until
        return found


def _held_by(
    record: RunRecord, lives: Mapping[str, Sequence[Stretch]], ended: Mapping[str, float], at: float, seen: set[str]
) -> EventRow | None:
    """Return the event that ended at that very moment, else the one that was open longest then."""
    began = [
        one for one in record.events if one.id in ended and one.id not in seen and one.created_at < at <= ended[one.id]
    ]
    awaited = [one for one in began if one.stage not in AFTERWARDS] or began
    return min(awaited, key=lambda one: (ended[one.id] != at, one.created_at), default=None)


def sums_of(pieces: Sequence[Stretch], total: float) -> tuple[TimelineSum, ...]:
    """Add the pieces up by what was done, and by stage and reason; the sums are exactly `total` seconds."""
    by_name: dict[SumName, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for one in pieces:
        by_name[NAMES[one.doing]][_part(one)] += one.seconds
    names = [name for name in get_args(SumName) if name in by_name]
    micros = _apportioned([sum(by_name[name].values()) for name in names], 1e6, round(total * 1e6))
    found = []
    for name, whole in zip(names, micros, strict=True):
        parts = by_name[name]
        shares = _apportioned(list(parts.values()), 1e6, whole)
        told = {part: share / 1_000 for part, share in zip(parts, shares, strict=True) if share}
        if whole:
            found.append(TimelineSum(name=name, ms=whole / 1_000, parts=told))
    return tuple(found)


def _part(one: Stretch) -> str:
    why = " ".join(one.why.split())
    if len(why) > MOST_WHY_CHARACTERS:
        why = why[: MOST_WHY_CHARACTERS - 2] + " …"
    return f"{one.event.stage} ({why})" if why and one.doing != "works" else str(one.event.stage)


def line_of(sums: Sequence[TimelineSum], total: float, *, is_over: bool = True) -> str:
    """Return the sum as one line. The figures in it add up exactly, those between brackets too."""
    places = 3 if total < 1 else 2
    scale = 10**places
    whole = round(total * scale)
    terms = []
    for one, units in zip(sums, _apportioned([one.ms for one in sums], scale / 1e3, whole), strict=True):
        parts = dict(zip(one.parts, _apportioned(list(one.parts.values()), scale / 1e3, units), strict=True))
        ordered = sorted((part for part in parts if parts[part]), key=lambda part: -abs(parts[part]))
        told = [f"{part} {_figure(parts[part], places)}" for part in ordered[:MOST_PARTS]]
        if rest := sum(parts[part] for part in ordered[MOST_PARTS:]):
            told.append(f"{len(ordered) - MOST_PARTS} more {_figure(rest, places)}")
        if units:
            terms.append(f"{_figure(units, places)} {one.name}" + (f" ({', '.join(told)})" if told else ""))
    figure = f"{whole / scale:,.{places}f} s" + ("" if is_over else " so far")
    return f"{figure} = {' + '.join(terms)}" if terms else figure


def _figure(units: int, places: int) -> str:
    text = f"{units / 10**places:,.{places}f}"
    return text.removeprefix("0") if text.startswith("0.") else text.replace("-0.", "-.", 1)


def _apportioned(values: Sequence[float], scale: float, whole: int) -> list[int]:
    """Round `values` times `scale` to integers that add up to `whole` (largest remainders; Hamilton, 1792)."""
    exact = [value * scale for value in values]
    shares = [math.floor(one) for one in exact]
    order = sorted(range(len(exact)), key=lambda place: shares[place] - exact[place])
    short = whole - sum(shares)
    for turn in range(abs(short)) if order else ():
        shares[order[turn % len(order)] if short > 0 else order[-1 - turn % len(order)]] += 1 if short > 0 else -1
    return shares
