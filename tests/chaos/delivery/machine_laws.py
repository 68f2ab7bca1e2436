"""The laws of the ledger, said without its own code.

Three kinds, all judged after every transaction:

- of a *change*: what a transaction did to the rows is what its deed may do, no less and no more. This is the diagram
  of `ledger/ledger.py`, arrow by arrow, with what happens to the counters on the way;
- of a *state*: what holds whatever was done, as "what a run has reserved is what its open events hold";
- of a *history*: what needs a memory, as "an event settles once" (`Memory`) or "lanes take turns" (`machine_turns`).

Whoever breaks one raises `Broken`, which names it.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sluice.contracts.budget import Ceiling, Spend
from sluice.contracts.event import DeadLetter, Discard, Done, GapFound, Next, Queue, Retry
from sluice.contracts.gate import CoverageProbed
from sluice.contracts.index import AnswerDirected, AnswerReady, DocumentIndexed, RunFinished
from sluice.ledger.ledger import PROBE_SECONDS, Claim, NotClaimed, WakeUp
from tests.chaos.delivery.machine_deeds import (
    Add,
    Beat,
    Begin,
    Cancel,
    Deed,
    Free,
    GiveUp,
    Lease,
    PassDeadlines,
    Pause,
    Replay,
    Resume,
    Settle,
    Take,
    Wake,
)
from tests.chaos.delivery.machine_state import (
    NOTHING,
    OPEN,
    Account,
    Amounts,
    BeatRow,
    EventRow,
    LeaseRow,
    PauseRow,
    State,
    added,
)

UNFINISHED = ("open", "answering")
NO_END = 2**62
"""Stands for a ceiling that is not there."""
ANSWERING = ("gate", "query", "search")
MOST_LEASES = 2.0
"""Leases that a stage waits for a silent worker, where no agent waits for it."""


class Broken(AssertionError):
    """A law does not hold."""


def demand(holds: bool, law: str, *facts: object) -> None:
    """The law must hold; `facts` tell what was found where it does not."""
    if not holds:
        raise Broken("\n  ".join([law, *map(_told, facts)]))


def _told(fact: object) -> str:
    """The fact without what is too long to be read."""
    match fact:
        case EventRow():
            return str(fact._replace(payload="..."))
        case dict():
            return str({key: _told(value) for key, value in fact.items()})
        case list():
            return str([_told(value) for value in fact])
    return str(fact)


class Made(NamedTuple):
    """An event that a transaction is to insert."""

    run_id: str
    kind: str
    queue: Queue | None
    dedupe_key: str | None
    reserve: Amounts


@dataclass
class Change:
    """What a transaction is to do: rows that become others, and events in the order of their making."""

    rows: dict[str, EventRow] = field(default_factory=dict)
    made: list[Made] = field(default_factory=list)


# -- of a change


def judge_change(before: State, after: State, deed: Deed, now: float) -> None:
    """What `deed` did in one transaction is what it may do."""
    demand(before.events.keys() <= after.events.keys(), "no event ever vanishes")
    new = [row for row in after.events.values() if row.id not in before.events]
    closing = [row for row in new if row.kind in (AnswerDirected.kind, RunFinished.kind)]
    expected = _expected(before, after, deed, now)
    expected.rows = {id_: row for id_, row in expected.rows.items() if before.events[id_] != row}
    rows = {id_: row for id_, row in before.events.items() if after.events[id_] != row}
    demand(rows.keys() == expected.rows.keys(), "only what the deed is about changes", deed, rows, expected.rows)
    for id_, row in expected.rows.items():
        demand(after.events[id_] == row, "a row changes as its deed says", deed, _differences(after.events[id_], row))
    made = [_made(row) for row in new if row not in closing]
    demand(made == expected.made, "what is emitted is recorded with its cause, once", deed, made, expected.made)
    _judge_closing(before, after, new, closing, deed, now)
    _judge_ceilings(before, after, now)
    demand(after.pauses == _expected_pauses(before, after, deed, now), "stages rest as they are told", deed)
    demand(after.leases == _expected_leases(before, deed, now), "a lease has one holder until it ends", deed)
    _judge_beats(before, after, deed, now)


def _judge_beats(before: State, after: State, deed: Deed, now: float) -> None:
    expected = dict(before.beats)
    if isinstance(deed, Beat):
        expected[deed.worker] = BeatRow(deed.worker, now, now + deed.lease_seconds)
    elif isinstance(deed, Free) and deed.worker is None:
        at_work = {row.worker for row in before.events.values() if row.status == "claimed"}
        for row in before.beats.values():
            if row.worker not in after.beats and row.worker not in at_work and _is_silent(row, MOST_LEASES, now):
                del expected[row.worker]
    demand(after.beats == expected, "a beat is its worker's own, and is kept for as long as it has a claim", deed)


def _is_silent(beat: BeatRow | None, leases: float, now: float) -> bool:
    return beat is not None and beat.beat_at + (beat.until - beat.beat_at) * leases <= now


def _has_run_out(row: EventRow, state: State, now: float) -> bool:
    """Whether a claim may be taken away: it was held for too long, or its worker has been silent for as long as its
    stage waits."""
    silent = _is_silent(state.beats.get(row.worker or ""), 1.0 if row.queue in ANSWERING else MOST_LEASES, now)
    return silent or (row.due_at or 0) <= now


def is_lost(claim: Claim, state: State) -> bool:
    """Whether the claim counts no more."""
    row = state.events[claim.event.id]
    return row.status != "claimed" or row.epoch != claim.epoch


def fits(before: State, deed: Begin | Settle | Replay, now: float) -> bool:
    """Whether there is room under every ceiling for what the deed asks for."""
    match deed:
        case Begin(run=run, first=first):
            asked = added(made.reserve for made in _kept(before, run.run_id, [one for _, one in first]))
            account = Account(NOTHING, NOTHING, _limits(run.ceilings.run), _limits(run.ceilings.day))
            return _has_room(account, _day(before, now), asked)
        case Settle(claim=claim, outcome=Done() as done):
            row, spent = before.events[claim.event.id], _amounts(done.spend)
            asked = added(made.reserve for made in _kept(before, row.run_id, done.emits))
            account = _booked(before.accounts[row.run_id], row, spent)
            day = _booked(_day(before, now), row if row.reserved_on == _today(now) else None, spent)
            return _has_room(account, day, asked)
        case Replay(letter_id=letter_id):
            [row] = [before.events[id_] for id_, letter in before.letters.items() if letter.id == letter_id]
            return _has_room(before.accounts[row.run_id], _day(before, now), row.reserve)
    return True


def _expected(before: State, after: State, deed: Deed, now: float) -> Change:
    match deed:
        case Begin(run=run, first=first):
            return Change(
                made=[] if _is_repeated(before, run) else _kept(before, run.run_id, [one for _, one in first])
            )
        case Add(event=event, dedupe_key=key):
            return Change(made=_kept(before, event.run_id, [Next(event.body, key)]))
        case Cancel(run_id=run_id):
            opened = {row.id: row for row in before.of_run(run_id) if row.status in OPEN}
            return Change({id_: _ended(row, "cancelled", reserved_on=None) for id_, row in opened.items()})
        case Take(worker=worker, most_seconds=seconds):
            return _expected_claim(before, after, worker, now + seconds)
        case Settle():
            demand(not is_lost(deed.claim, before), "what is done under a lost claim is fenced", deed)
            return _expected_settling(before, deed, now)
        case Free():
            return _expected_freed(before, after, deed, now)
        case Wake():
            due = [row for row in before.events.values() if row.status == "waiting" and (row.due_at or 0) <= now]
            return Change({row.id: row._replace(status="ready") for row in due})
        case Replay(letter_id=letter_id):
            [row] = [before.events[id_] for id_, letter in before.letters.items() if letter.id == letter_id]
            held_on = _today(now) if row.reserve != NOTHING else None
            revived = row._replace(status="ready", due_at=now, attempts=0, deaths=0, reserved_on=held_on)
            return Change({row.id: revived})
    return Change()


def _expected_claim(before: State, after: State, worker: str, until: float) -> Change:
    changed = [row for id_, row in before.events.items() if after.events[id_] != row]
    demand(len(changed) <= 1, "a claim takes one event", changed)
    for row in changed:
        demand(row.status == "ready", "only what is ready is claimed", row)
    taken = {"status": "claimed", "worker": worker, "due_at": until}
    return Change(
        {row.id: row._replace(epoch=row.epoch + 1, deliveries=row.deliveries + 1, **taken) for row in changed}
    )


def _expected_settling(before: State, deed: Settle, now: float) -> Change:
    row = before.events[deed.claim.event.id]
    gap = Made(row.run_id, GapFound.kind, None, None, NOTHING)
    match deed.outcome:
        case Done(emits=emits, gaps=gaps):
            made = [gap] * len(gaps) + _kept(before, row.run_id, emits)
            return Change({row.id: _ended(row, "settled")}, made)
        case Discard():
            return Change({row.id: _ended(row, "settled")})
        case Retry(after_seconds=seconds) if row.attempts + 1 < deed.max_attempts:
            waiting = row._replace(status="waiting", due_at=now + seconds, worker=None, attempts=row.attempts + 1)
            return Change({row.id: waiting})
        case Retry() | DeadLetter(reason="exhausted"):
            return Change({row.id: _ended(row, "dead", reserved_on=None, attempts=row.attempts + 1)}, [gap])
    return Change({row.id: _ended(row, "dead", reserved_on=None)}, [gap])


def _expected_freed(before: State, after: State, deed: Free, now: float) -> Change:
    changed = [row for id_, row in before.events.items() if after.events[id_] != row]
    demand(len(changed) <= 1, "events are freed one by one", changed)
    if not changed:
        return Change()
    [row] = changed
    demand(row.status == "claimed", "only a claim is freed", row)
    if deed.worker is None:
        ran_out = _has_run_out(row, before, now)
        demand(ran_out, "a claim is taken away when its lease has run out, and not before", row, now)
    else:
        demand(row.worker == deed.worker, "a worker's end frees its own claims", row)
    deaths = row.deaths + deed.died
    if deed.died and deaths >= deed.max_deliveries:
        buried = _ended(row, "dead", reserved_on=None, deaths=after.events[row.id].deaths)
        return Change({row.id: buried}, [Made(row.run_id, GapFound.kind, None, None, NOTHING)])
    return Change({row.id: row._replace(status="ready", due_at=now, worker=None, deaths=deaths)})


def _judge_closing(
    before: State, after: State, new: Sequence[EventRow], closing: Sequence[EventRow], deed: Deed, now: float
) -> None:
    """A run is answered and ended when it should be. That it *is* ended in time, the laws of a state say."""
    for row in closing:
        run, others = before.runs[row.run_id], [one for one in after.of_run(row.run_id) if one.id != row.id]
        nothing_open = not any(one.status in OPEN for one in others)
        answered = any(one.kind == AnswerReady.kind for one in new)
        demand(run.status in UNFINISHED, "a run ends once", run)
        if row.kind == RunFinished.kind:
            demand(answered or nothing_open, "a run ends when it is answered, or nothing of it is open", row, others)
            _judge_verdict(after, row, deed, answered)
        elif row.body["reason"] == "closed":
            demand(nothing_open and run.status == "open", "an answer is directed when nothing is open", row, others)
        else:
            due = run.answer_due_at is not None and run.answer_due_at <= now
            demand(isinstance(deed, PassDeadlines) and due, "an answer is directed early at its deadline only", run)


def _judge_verdict(after: State, row: EventRow, deed: Deed, answered: bool) -> None:
    run, gaps = after.runs[row.run_id], [one for one in after.of_run(row.run_id) if one.kind == GapFound.kind]
    if isinstance(deed, Cancel):
        verdict = "cancelled"
    elif run.kind == "gate":
        verdict = "finished" if answered else "failed"
    else:
        verdict = "failed" if _standing_gaps(after, row.run_id) and run.journal_offset is None else "finished"
    demand(row.body["status"] == verdict, f"this run has {verdict}", row)
    demand(row.body["missing"] == [one.body["gap"] for one in gaps], "a run's end names every gap in it", row)
    spent = _amounts(Spend.model_validate(row.body["spend"]))
    demand(spent == after.accounts[run.run_id].spent, "a run's end says what it has cost", row)


def _judge_ceilings(before: State, after: State, now: float) -> None:
    asked: dict[str, list[Amounts]] = defaultdict(list)
    for id_, row in after.events.items():
        held = id_ in before.events and before.events[id_].holds
        if row.holds and not held:
            demand(row.reserved_on == _today(now), "a reservation burdens the day on which it was made", row)
            asked[row.run_id].append(row.reserve)
    for run_id, amounts in asked.items():
        account, day = after.accounts[run_id], after.days[_today(now)]
        fitted = _has_room(account, day, added(amounts), already=True)
        demand(fitted, "reserved and spent together never pass a ceiling", account, day, amounts)


def _expected_pauses(before: State, after: State, deed: Deed, now: float) -> dict[str, PauseRow]:
    pauses = dict(before.pauses)
    match deed:
        case Pause(stage=stage, seconds=seconds, operator=operator):
            found = pauses.get(stage)
            if found is None or operator is not None:
                until = None if seconds is None else now + seconds
                pauses[stage] = PauseRow(stage, until, operator, found.probes if found else 0)
        case Resume(stage=stage, operator=operator):
            if stage in pauses and (operator is not None or pauses[stage].operator is None):
                del pauses[stage]
        case Take(stage=stage):
            found = pauses.get(stage)
            claimed = any(after.events[id_] != row for id_, row in before.events.items())
            if found is None:
                return pauses
            is_due = found.until is not None and found.until <= now
            demand(is_due or not claimed, "nobody claims from a stage that rests", found)
            if claimed or (is_due and after.pauses[stage] != found):
                pauses[stage] = found._replace(until=now + PROBE_SECONDS, probes=found.probes + 1)
    return pauses


def _expected_leases(before: State, deed: Deed, now: float) -> dict[str, LeaseRow]:
    leases = dict(before.leases)
    match deed:
        case Lease(name=name, holder=holder, seconds=seconds):
            found = leases.get(name)
            if found is None or found.holder == holder or found.until <= now:
                leases[name] = LeaseRow(name, holder, now + seconds)
        case GiveUp(name=name, holder=holder):
            if name in leases and leases[name].holder == holder:
                leases[name] = leases[name]._replace(until=0.0)
    return leases


# -- of a result


def judge_result(
    before: State, after: State, deed: Deed, result: object, announced: Sequence[WakeUp], now: float
) -> None:
    """What a deed says of itself is true. `before` is as things stood when it began."""
    told = sorted(wake_up.event_id for wake_up in announced)
    demand(told == sorted(deed.made_ready), "what becomes ready is announced", deed, told)
    if not isinstance(deed, (Free, PassDeadlines, Wake)):
        demand(deed.commits == 1, "it takes one transaction, so it happens or does not", deed)
    match deed:
        case Take():
            _judge_refusal(before, after, deed, result, now)
        case Beat(worker=worker):
            standing = {
                (row.id, row.epoch)
                for row in before.events.values()
                if row.status == "claimed" and row.worker == worker
            }
            demand(result == standing, "a beat tells which claims stand, and no other", deed, standing)
        case Free(worker=None):
            left = [row for row in after.events.values() if row.status == "claimed" and _has_run_out(row, after, now)]
            demand(not left, "every lease that ran out is noticed", left)
        case Free(worker=worker):
            left = [row for row in after.events.values() if row.worker == worker]
            demand(not left, "nothing stays with a worker that is gone", left)
        case Wake():
            left = [row for row in after.events.values() if row.status == "waiting" and (row.due_at or 0) <= now]
            demand(not left, "every retry is woken when it is due", left)
        case PassDeadlines():
            late = [run for run in after.runs.values() if run.answer_due_at is not None and run.answer_due_at <= now]
            demand(not late, "every deadline is kept", late)
        case Begin(run=run):
            demand(getattr(result, "created", None) is (not _is_repeated(before, run)), "a request makes one run", run)
        case Lease(name=name, holder=holder):
            demand(result is (after.leases[name].holder == holder), "a lease is told truly", deed)


def _judge_refusal(before: State, after: State, deed: Take, result: object, now: float) -> None:
    ready, pause = before.ready(deed.stage), before.pauses.get(deed.stage)
    is_due = pause is not None and pause.until is not None and pause.until <= now
    if isinstance(result, Claim):
        row = after.events[result.event.id]
        told = (result.epoch, result.worker, result.attempts, result.deliveries, result.deaths)
        stands = (row.epoch, row.worker, row.attempts, row.deliveries, row.deaths)
        demand(row.status == "claimed" and told == stands, "a claim says what the row says", result, row)
        demand(result.is_probe is (pause is not None), "a claim from a resting stage is a probe, no other", result)
        demand(deed.alone or row.deaths == 0, "what killed a worker is handled alone", row)
        return
    assert isinstance(result, NotClaimed)
    if not deed.alone and any(row.deaths for row in ready):
        reason = "suspects_wait"
    elif pause is not None and not is_due:
        reason = "paused"
    else:
        reason = "nothing_ready"
        demand(not ready, "whoever asks for work gets what is ready", deed, ready)
    demand(result.reason == reason, f"there is nothing because of: {reason}", result)


# -- of a state


def judge_state(before: State, after: State) -> None:
    """What holds whatever was done, for what a transaction has touched: the rest is as it was."""
    rows = [row for id_, row in after.events.items() if before.events.get(id_) is not row]
    for row in rows:
        _judge_row(row)
    touched = {row.run_id for row in rows}
    touched |= {id_ for id_, run in after.runs.items() if before.runs.get(id_) != run}
    touched |= {id_ for id_, account in after.accounts.items() if before.accounts.get(id_) != account}
    for run_id in sorted(touched):
        _judge_run(after, run_id)
    for day, account in after.days.items():
        held = added(row.reserve for row in after.events.values() if row.holds and row.reserved_on == day)
        demand(
            account.reserved == held, "a day has reserved what the open events of its making hold", day, account, held
        )
    for id_, letter in after.letters.items():
        is_dead = after.events[id_].status == "dead"
        demand((letter.status == "parked") is is_dead, "a dead letter is parked while its event is dead", letter)
    dead = {row.id for row in rows if row.status == "dead"}
    demand(dead <= after.letters.keys(), "whatever died has its letter", dead)


def _judge_row(row: EventRow) -> None:
    demand((row.due_at is not None) is (row.status in OPEN), "open is what has a moment set", row)
    demand((row.worker is not None) is (row.status == "claimed"), "a worker holds what it has claimed", row)
    demand((row.queue is None) is (row.status == "recorded"), "what no queue consumes is never open", row)
    is_held = row.reserved_on is not None
    demand(row.status not in OPEN or is_held is (row.reserve != NOTHING), "open work holds its reservation", row)


def _standing_gaps(state: State, run_id: str) -> list[EventRow]:
    """The gaps of a run, without those of an event that was replayed with success."""
    replayed = {id_ for id_ in state.letters if state.events[id_].status == "settled"}
    gaps = [row for row in state.of_run(run_id) if row.kind == GapFound.kind]
    return [row for row in gaps if json.loads(row.payload).get("cause_id") not in replayed]


def _judge_run(state: State, run_id: str) -> None:
    run, rows = state.runs[run_id], list(state.of_run(run_id))
    counted = Counter(row.kind for row in rows)
    standing = Counter(row.status for row in rows)
    ends = [row for row in rows if row.kind == RunFinished.kind]
    demand(len(ends) <= 1, "a run ends once", ends)
    probes_again = sum(row.kind == CoverageProbed.kind and "abstained" in row.body for row in rows)
    left = counted[AnswerDirected.kind] - probes_again
    demand(left <= 1, "an answer is directed once, and once more after a second probe", run)
    open_rows = [row for row in rows if row.status in OPEN]
    expected = ends[0].body["status"] if ends else "answering" if left > 0 else "open"
    indexed_or_whole = run.journal_offset is not None or not _standing_gaps(state, run_id)
    mended = counted[AnswerReady.kind] > 0 if run.kind == "gate" else indexed_or_whole
    is_mended = expected == "failed" and run.status == "finished" and mended
    demand(run.status == expected or is_mended, "a run's status is what its events say", run, expected)
    demand(bool(ends) or bool(open_rows), "a run without open events has ended", run)
    demand((run.finished_at is not None) is bool(ends), "a run that ended has its moment", run)
    due = run.deadline_at if run.kind == "gate" and run.status == "open" else None
    demand(run.answer_due_at == due, "a deadline stands until an answer is directed", run)
    demand(run.settled_events == standing["settled"], "a run counts what was settled", run, standing)
    demand(run.dead_letters == standing["dead"], "a run counts its dead letters", run, standing)
    failed = sum(row.attempts + row.deaths > 0 for row in open_rows)
    demand(run.retrying == failed, "a run counts its open events that failed", run, failed)
    keys = Counter(row.dedupe_key for row in rows if row.dedupe_key is not None)
    demand(not keys or max(keys.values()) == 1, "a dedupe key is taken once in a run", keys)
    held = added(row.reserve for row in rows if row.holds)
    demand(state.accounts[run_id].reserved == held, "a run has reserved what its open events hold", run, held)
    offsets = [row.body["journal_offset"] for row in rows if row.kind == DocumentIndexed.kind]
    demand(run.journal_offset == max(offsets, default=None), "a run knows how far it is indexed", run)


# -- of a history


@dataclass
class Memory:
    """What was seen to happen, so that nothing happens twice."""

    settled: Counter[str] = field(default_factory=Counter)
    claims: set[tuple[str, int]] = field(default_factory=set)
    spent: dict[str, Amounts] = field(default_factory=dict)
    """By run, and by day."""

    def judge(self, before: State, after: State, deed: Deed, now: float) -> None:
        """Take in a transaction of `deed`."""
        for id_, old in before.events.items():
            row = after.events[id_]
            demand(row.epoch >= old.epoch and row.deliveries >= old.deliveries, "an epoch only rises", old, row)
            if row.status == "claimed" and old.status != "claimed":
                demand((id_, row.epoch) not in self.claims, "an epoch is given once", row)
                self.claims.add((id_, row.epoch))
            if row.status == "settled" and old.status != "settled":
                self.settled[id_] += 1
                demand(self.settled[id_] == 1, "an event settles once", row)
            final = ("settled", "cancelled", "recorded")
            demand(old.status == row.status or old.status not in final, "what has ended stays as it is", old, row)
        if isinstance(deed, Settle) and isinstance(deed.outcome, Done):
            self._spend(deed, before.events[deed.claim.event.id].run_id, now)
        for whose, account in (*after.accounts.items(), *after.days.items()):
            spent = self.spent.get(whose, NOTHING)
            demand(account.spent == spent, "what was spent is booked once, for the run and the day", whose, account)

    def _spend(self, deed: Settle, run_id: str, now: float) -> None:
        assert isinstance(deed.outcome, Done)
        for whose in (run_id, _today(now)):
            self.spent[whose] = added([self.spent.get(whose, NOTHING), _amounts(deed.outcome.spend)])


# -- amounts


def _amounts(spend: Spend) -> Amounts:
    return (round(spend.usd * 1_000_000_000), spend.pages, spend.bytes, spend.tokens, round(spend.milliseconds * 1_000))


def _limits(ceiling: Ceiling) -> Amounts:
    """The ceiling's amounts, with no end where there is none."""
    amounts = _amounts(Spend(**{unit: most for unit, most in ceiling if most is not None}))
    given = (ceiling.usd, ceiling.pages, ceiling.bytes, ceiling.tokens, ceiling.milliseconds)
    return tuple(NO_END if most is None else amount for most, amount in zip(given, amounts, strict=True))


def _day(state: State, now: float) -> Account:
    return state.days.get(_today(now), Account(NOTHING, NOTHING))


def _today(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).date().isoformat()


def _booked(account: Account, freed: EventRow | None, spent: Amounts) -> Account:
    """The account after an event let go what it holds and booked what it spent."""
    less = freed.reserve if freed is not None and freed.holds else NOTHING
    reserved = tuple(held - gone for held, gone in zip(account.reserved, less, strict=True))
    return account._replace(reserved=reserved, spent=added([account.spent, spent]))


def _has_room(run: Account, day: Account, asked: Amounts, *, already: bool = False) -> bool:
    """Whether what is asked fits, unit by unit; `already`: the accounts hold it by now."""
    more = NOTHING if already else asked
    for unit, amount in enumerate(asked):
        of_run = run.reserved[unit] + run.spent[unit] + more[unit]
        of_day = day.reserved[unit] + day.spent[unit] + more[unit]
        if amount and (of_run > run.most[unit] or of_day > run.most_per_day[unit]):
            return False
    return True


# -- rows


def _ended(row: EventRow, status: str, **changes: Any) -> EventRow:
    return row._replace(status=status, due_at=None, worker=None, **changes)


def _kept(before: State, run_id: str, wanted: Iterable[Next]) -> list[Made]:
    """What is left of these events of a run once second ones are dropped."""
    taken = {row.dedupe_key for row in before.of_run(run_id)} - {None}
    kept = []
    for one in wanted:
        if one.dedupe_key is None or one.dedupe_key not in taken:
            reserve = _amounts(one.reserve) if one.reserve else NOTHING
            kept.append(Made(run_id, one.body.kind, one.body.queue, one.dedupe_key, reserve))
            taken.add(one.dedupe_key)
    return kept


def _made(row: EventRow) -> Made:
    return Made(row.run_id, row.kind, row.queue, row.dedupe_key, row.reserve)


def _is_repeated(before: State, run: Any) -> bool:
    if run.idempotency_key is None:
        return False
    return any((one.owner, one.idempotency_key) == (run.owner, run.idempotency_key) for one in before.runs.values())


def _differences(found: EventRow, expected: EventRow) -> dict[str, tuple[Any, Any]]:
    pairs = zip(EventRow._fields, found, expected, strict=True)
    return {name: (is_, should_be) for name, is_, should_be in pairs if is_ != should_be}
