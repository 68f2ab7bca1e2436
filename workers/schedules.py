"""Schedules: who may make and change them, when they run next, and the watch that begins their runs.

A run is begun in the name of the key that made the schedule, with the checks that a request of it would pass. A key
that was revoked, has ended or may not touch the corpus any more stops the schedule, which says why.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import structlog

from sluice.contracts.api import DocumentsRequest, GateRequest, RunAccepted
from sluice.contracts.base import fields_of
from sluice.contracts.errors import Forbidden, InvalidInput, NotFound, SluiceError, Unavailable
from sluice.contracts.event import new_event_id
from sluice.contracts.operations.crawling import CrawlRequest, MapRequest, ScrapeRequest
from sluice.contracts.operations.schedules import Schedule, ScheduleChange, ScheduledWork, ScheduleKind, ScheduleRequest
from sluice.ledger.ledger import Ledger
from sluice.ledger.schedules import DueSchedule
from sluice.workers.context import Context

if TYPE_CHECKING:
    from sluice.workers.service.callers import Caller

log = structlog.get_logger(__name__)

LOOK_SECONDS = 1.0
"""Seconds between two looks for schedules whose time has come: one read of a small index."""
MOST_AT_ONCE = 50
REST_SECONDS = 10.0
"""Pause of a schedule whose run there was no room for."""
MOST_REQUEST_BYTES = 100_000


def next_time(
    every: timedelta | None, cron: str | None, time_zone: str, after: datetime, due: datetime | None = None
) -> datetime | None:
    """Return the first time after `after`: of an interval, counted from `due`, or of a cron text; None if there is none
    within 50 years. Where clocks are set, cron times are those of Debian's cron.

    Raises `InvalidInput`: the time zone is not known, or the cron text cannot be read.
    """
    if every is not None:
        start = due or after
        return start + every * max(1, math.floor((after - start) / every) + 1)
    from cronsim import CronSim, CronSimError  # here, as few processes have a schedule to run

    try:
        zone = ZoneInfo(time_zone)
    except (KeyError, ValueError, OSError) as error:
        problem = f"{time_zone!r} is not known here"
        raise InvalidInput("time_zone", problem, "a name of the IANA database: Europe/Berlin") from error
    try:
        if len((cron or "").split()) != 5:  # with a sixth the library reads seconds
            raise CronSimError("it has not five fields")
        found = next(CronSim(cron or "", after.astimezone(zone)), None)
    except CronSimError as error:
        problem, remedy = f"cannot be read: {error}", "five fields: minute, hour, day, month, day of the week"
        raise InvalidInput("cron", problem, remedy) from error
    return found and found.astimezone(UTC)


class ScheduleDesk:
    """Makes, changes and begins schedules. Methods on one raise `NotFound` where there is none for the caller."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def create(self, asked: ScheduleRequest, caller: Caller) -> Schedule:
        """Make a schedule in the caller's name; it runs for the first time when its time comes.

        Raises:
            InvalidInput: a request that cannot be scheduled, a cron text without a time, or an unknown time zone.
            Forbidden: the key may not touch the corpus.
            Conflict: the key has too many.
        """
        now = datetime.now(UTC)
        columns = (
            _columns_of(asked, caller) | _timed(asked.every, asked.cron, asked.time_zone, now) | {"name": asked.name}
        )
        corpus = next(iter(asked.work.values())).corpus
        return self._context.ledger.schedules.insert("sch_" + new_event_id()[4:], caller.owner, corpus, columns)

    def some(self, caller: Caller, limit: int, after: str | None) -> Sequence[Schedule]:
        """Return the caller's schedules, the oldest first; for an operator all of its corpora."""
        owner = None if caller.role == "operator" else caller.owner
        return self._context.ledger.schedules.some(limit, after, owner=owner, corpora=caller.corpora)

    def one(self, schedule_id: str, caller: Caller) -> Schedule:
        """Return one schedule."""
        found = self._context.ledger.schedules.find(schedule_id)
        if not caller.may_see(found.corpus) or (caller.role != "operator" and caller.owner != found.owner):
            raise NotFound(f"no schedule {schedule_id}")
        return found

    def change(self, schedule_id: str, asked: ScheduleChange, caller: Caller) -> Schedule:
        """Change what is given; whatever but its name changes, the next time is the first one from now on.

        Raises as `create`.
        """
        before = self.one(schedule_id, caller)
        columns = {} if asked.name is None else {"name": asked.name}
        if asked.work:
            columns |= _columns_of(asked, caller) | {"corpus": next(iter(asked.work.values())).corpus}
        if asked.model_fields_set - {"name"}:
            is_new = asked.every is not None or asked.cron is not None
            every, cron = (asked.every, asked.cron) if is_new else (before.every, before.cron)
            timed = _timed(every, cron, asked.time_zone or before.time_zone, datetime.now(UTC))
            is_on = before.next_at is not None if asked.enabled is None else asked.enabled
            because = None if asked.enabled is not None else before.stopped_because
            columns |= timed | {"stopped_because": because} | ({} if is_on else {"due_at": None})
        return self._context.ledger.schedules.change(schedule_id, columns)

    def delete(self, schedule_id: str, caller: Caller) -> None:
        """Remove a schedule. A run that it has begun goes on."""
        self.one(schedule_id, caller)
        self._context.ledger.schedules.delete(schedule_id)

    def run(self, schedule_id: str, caller: Caller, idempotency_key: str | None = None) -> RunAccepted:
        """Begin a run of it now, in the name of its owner; its times stay.

        Raises `Forbidden` where the owner may not do this any more, and as the request itself.
        """
        found = self.one(schedule_id, caller)
        if why := refusal(found, self._context.ledger, datetime.now(UTC)):
            raise Forbidden(f"its owner may not run it: {why}")
        run = begin(found, self._context, idempotency_key and f"schedule:{schedule_id}:now:{idempotency_key}")
        self._context.ledger.schedules.change(schedule_id, {"last_run_id": run.run_id})
        return run


class ScheduleWatch:
    """One process's watch over the schedules of its ledger."""

    def __init__(self, context: Context, clock: Callable[[], float] = time.monotonic) -> None:
        self._context, self._clock = context, clock
        self._resting: dict[str, float] = {}
        """Until when schedules rest for which there was no room."""

    def look(self) -> None:
        """Begin the runs whose time has come. What is wrong with one schedule keeps no other from its time."""
        self._resting = {name: until for name, until in self._resting.items() if until > self._clock()}
        for one in self._context.ledger.schedules.due(MOST_AT_ONCE + len(self._resting)):
            if one.schedule.id not in self._resting:
                self._use(one)

    def _use(self, one: DueSchedule) -> None:
        """Begin the run of one time, and move on. Where there is no room now, the time stays due."""
        schedule, rows, now = one.schedule, self._context.ledger.schedules, datetime.now(UTC)
        if why := refusal(schedule, self._context.ledger, now):
            rows.stop(one, why)
            log.warning("schedule_stopped", schedule_id=schedule.id, why=why)
            return
        run_id, problem = None, None
        try:
            run_id = begin(schedule, self._context, one.key).run_id
        except Unavailable as error:
            self._resting[schedule.id] = self._clock() + REST_SECONDS
            log.info("schedule_waits", schedule_id=schedule.id, error=str(error))
            return
        except Exception as error:  # a fault of one request must not stop the process that begins all
            known = isinstance(error, SluiceError)
            problem = str(error) if known else repr(error)
            log.warning("schedule_left_out", schedule_id=schedule.id, error=problem, exc_info=None if known else error)
        due = datetime.fromtimestamp(one.due_at, UTC)
        rows.ran(one, run_id, next_time(schedule.every, schedule.cron, schedule.time_zone, now, due), problem)
        log.info("schedule_ran", schedule_id=schedule.id, run_id=run_id)


def refusal(schedule: Schedule, ledger: Ledger, now: datetime) -> str | None:
    """Return why the schedule's owner may not run it any more; None if it may."""
    if not schedule.owner.startswith("key_"):  # of this machine, which needs no key
        return None
    key = ledger.keys.one(schedule.owner)
    if key is None or not key.is_in_force(now):
        return f"the key {schedule.owner} was revoked or has ended"
    if key.corpora and schedule.corpus not in key.corpora:
        return f"the key {schedule.owner} may not touch corpus {schedule.corpus!r}"
    return None


def begin(schedule: Schedule, context: Context, idempotency_key: str | None) -> RunAccepted:
    """Begin a run of the scheduled request. Raises as that request does, `NotFound` without its corpus."""
    from sluice.workers.service.crawling import CrawlDesk  # here, as few processes have a schedule to run
    from sluice.workers.service.service import Service

    service = Service(context)
    desk = CrawlDesk(context, service)
    told: dict[str, Any] = {"owner": schedule.owner, "idempotency_key": idempotency_key}
    match work := schedule.work:
        case CrawlRequest():
            return desk.crawl(work, **told)
        case MapRequest():
            return desk.map(work, **told)
        case ScrapeRequest():
            return desk.scrape(work, **told)
        case DocumentsRequest():
            return service.add_documents(work, **told)
        case GateRequest():
            return service.ask(work, **told)


def _columns_of(asked: ScheduledWork, caller: Caller) -> dict[str, Any]:
    """Return the columns of a request that may be scheduled. Raises as `ScheduleDesk.create`."""
    works: Mapping[ScheduleKind, Any] = asked.work
    [(kind, work)] = works.items()
    caller.may_touch(work.corpus)
    if kind == "gate" and work.memory is not None:
        raise InvalidInput("gate.memory", "cannot be scheduled", "leave it out")
    if kind == "documents" and any(one.url is None or one.text or one.html or one.data for one in work.documents):
        raise InvalidInput("documents.documents", "a schedule adds URLs alone", "give each document its url alone")
    request = ScheduledWork(**fields_of(ScheduledWork, asked)).model_dump_json()
    if len(request) > MOST_REQUEST_BYTES:
        raise InvalidInput(kind, f"{len(request)} characters", f"at most {MOST_REQUEST_BYTES}; make several schedules")
    return {"request": request}


def _timed(every: timedelta | None, cron: str | None, time_zone: str, now: datetime) -> dict[str, Any]:
    due = next_time(every, cron, time_zone, now)
    if due is None:
        raise InvalidInput("cron", "names no time of the next 50 years", "a day that exists")
    seconds = every and every.total_seconds()
    return {"every_seconds": seconds, "cron": cron, "time_zone": time_zone, "due_at": due.timestamp()}
