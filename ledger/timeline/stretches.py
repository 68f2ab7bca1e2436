"""The life of one event as stretches of time: it waits, is worked on, fails, loses its worker, backs off.

Stretches of one event follow each other without a gap, from its creation to its end. Clocks of two machines may differ:
then a claim seems to come before its event, and the stretch between is shorter than nothing, so that sums stay exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from sluice.contracts.operations.timeline import Doing
from sluice.ledger.events.attempts import Attempt
from sluice.ledger.timeline.record import EventRow, Rest, RunRecord

FAILED = ("retried", "parked", "released")


class Stretch(NamedTuple):
    """One stretch, in seconds since the epoch. `attempt` is the epoch of the claim in it."""

    event: EventRow
    doing: Doing
    begins: float
    ends: float
    why: str = ""
    worker: str | None = None
    attempt: int | None = None
    is_under_way: bool = False

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.ends - self.begins


def life_of(event: EventRow, record: RunRecord, now: float) -> list[Stretch]:
    """Return the stretches of an event. One that nobody handles has none, but for a gap, which is a failure."""
    if event.stage is None:
        at = event.created_at
        return [Stretch(event, "failed", at, at, event.why)] if event.kind == "GapFound" else []
    found: list[Stretch] = []
    last: Attempt | None = None
    for one in record.attempts.get(event.id, ()):
        found += _before(event, last, one, record)
        found += _during(event, one, now)
        last = one
    return [*found, *_afterwards(event, last, record, now)]


def _before(event: EventRow, last: Attempt | None, one: Attempt, record: RunRecord) -> Iterator[Stretch]:
    since = event.created_at if last is None else _end(last, one.ready_at)
    left_out = one.epoch - (last.epoch if last else 0) - 1
    if left_out:
        why = f"{left_out} attempts on the way, of which nothing is kept"
        yield Stretch(event, "backs_off", since, one.ready_at, why)
    elif one.ready_at != since:
        yield _idle(event, last, since, one.ready_at, record)
    yield from _waits(event, one.ready_at, one.claimed_at, _otherwise(last, one.behind), record)


def _otherwise(last: Attempt | None, behind: int) -> str:
    """Return why an event waits while its stage takes events."""
    if behind:
        return f"behind {behind:,} of this tenant"
    return "for another worker" if last is not None and last.ending in ("died", "released") else ""


def _during(event: EventRow, one: Attempt, now: float) -> Iterator[Stretch]:
    ends = _end(one, now)
    doing: Doing = "died" if one.ending == "died" else "failed" if one.ending in FAILED else "works"
    why = one.why or ("given back as its worker stopped" if one.ending == "released" else "")
    is_under_way = one.ended_at is None and event.status == "claimed"
    whole = Stretch(event, doing, one.claimed_at, ends, why, one.worker, one.epoch, is_under_way)
    if waited := min(one.waited_ms / 1_000, max(0.0, whole.seconds)):
        yield whole._replace(doing="waits", ends=one.claimed_at + waited)
        whole = whole._replace(begins=one.claimed_at + waited, why="")
    yield whole


def _afterwards(event: EventRow, last: Attempt | None, record: RunRecord, now: float) -> Iterator[Stretch]:
    since = event.created_at if last is None else _end(last, now)
    due = max(since, event.due_at or since)
    match event.status:
        case "waiting":
            left = f"{event.why}; again in {due - now:.1f} s" if due > now else event.why
            yield Stretch(event, "backs_off", since, min(due, now), left, is_under_way=due > now)
            if due < now:
                yield Stretch(event, "waits", due, now, "to be made ready again", is_under_way=True)
        case "ready":
            if due > since:
                yield _idle(event, last, since, due, record)
            *before, latest = _waits(event, due, now, _otherwise(last, event.behind), record)
            yield from (*before, latest._replace(is_under_way=True))
        case "cancelled" if event.settled_at is not None and (last is None or last.ending != "cancelled"):
            yield from _waits(event, since, event.settled_at, "", record)
        case "claimed" | "settled" if last is None:
            ends = event.settled_at or now
            yield Stretch(event, "works", since, ends, "its attempts were not recorded", is_under_way=ends == now)


def _idle(event: EventRow, last: Attempt | None, begins: float, ends: float, record: RunRecord) -> Stretch:
    if last is not None and last.ending == "retried":
        return Stretch(event, "backs_off", begins, ends, last.why or "")
    by = record.replayed_by.get(event.id)
    is_parked = last is not None and last.ending in ("parked", "died")
    why = f"parked until {by or 'somebody'} replayed it" if is_parked else ""
    return Stretch(event, "waits", begins, ends, why)


def _waits(event: EventRow, begins: float, ends: float, otherwise: str, record: RunRecord) -> Iterator[Stretch]:
    """Yield the wait from `begins` to `ends`, parted where its stage began or ceased to take events."""
    if ends < begins:
        otherwise = f"clocks differ by {begins - ends:.3f} s"
    own = [one for one in record.rests if one.stage == event.stage and one.begins < ends and _open(one, ends) > begins]
    moments = sorted(
        {begins, ends, *(at for one in own for at in (one.begins, _open(one, ends)) if begins < at < ends)}
    )
    pending: Stretch | None = None
    for at, until in pairwise(moments) if ends >= begins else ((begins, ends),):
        why = next((one.why for one in own if one.begins <= at and _open(one, ends) >= until), otherwise)
        if pending is not None and pending.why == why:
            pending = pending._replace(ends=until)
            continue
        if pending is not None:
            yield pending
        pending = Stretch(event, "waits", at, until, why)
    yield pending or Stretch(event, "waits", begins, ends, otherwise)


def _open(rest: Rest, now: float) -> float:
    return now if rest.ends is None else rest.ends


def _end(one: Attempt, now: float) -> float:
    return now if one.ended_at is None else one.ended_at
