"""Queries on dead letters: grouped by fingerprint, listed, or one in full.

Lists begin with the latest seen and continue after a position, made of a moment and an id: it stays valid while letters
are parked and purged. They leave out payloads and stacks, so ten thousand letters are ten thousand short rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, bindparam, case, func, literal_column, select

from sluice.contracts.base import shared_fields
from sluice.contracts.errors import Conflict
from sluice.contracts.operations.dead_letters import (
    HOURS_SHOWN,
    MOST_DRIFT,
    DeadLetterFilter,
    DeadLetterGroup,
    DeadLetterPage,
    DeadLetterSummary,
    DeadLetterView,
    LetterAttempt,
    PassedEvent,
    PastPayload,
    Payload,
)
from sluice.ledger.audit import actions_on
from sluice.ledger.database import LedgerPart
from sluice.ledger.events import attempts
from sluice.ledger.schema.tables import (
    AnyRow,
    behind,
    conditions_on,
    dead_letter_payloads,
    dead_letters,
    events,
    moment,
    position,
    position_of,
    runs,
)
from sluice.ledger.transaction import Transaction

_LONG = ("stack", "payload")
_BRIEF = [column for column in dead_letters.c if column.name not in _LONG]
_HISTORY = (
    select(dead_letter_payloads)
    .where(dead_letter_payloads.c.letter_id == bindparam("of_letter"))
    .order_by(dead_letter_payloads.c.seq)
)


def conditions(wanted: DeadLetterFilter) -> list[ColumnElement[bool]]:
    """Return the SQL conditions of a filter."""
    has = dead_letters.c
    # Of one run SQLite is to take the index of that, and not the one in the order of the list.
    status = has.status if wanted.run_id is None else has.status.concat("")
    equal: dict[ColumnElement[Any], str | None] = {
        status: None if wanted.status == "any" else wanted.status,
        has.stage: wanted.stage,
        has.reason: wanted.reason,
        has.kind: wanted.kind,
        has.fingerprint: wanted.fingerprint,
        has.run_id: wanted.run_id,
        has.replay_id: wanted.replay_id,
    }
    found = conditions_on(equal, has.corpus, wanted.corpora)
    if wanted.since is not None:
        found.append(has.last_seen >= wanted.since.timestamp())
    if wanted.until is not None:
        found.append(has.last_seen < wanted.until.timestamp())
    if wanted.up_to is not None:
        counted_at, highest = position_of("up_to", wanted.up_to, "the `up_to` that a dry run gave")
        found += [has.last_seen <= counted_at, has.id <= highest]
    return found


def count(connection: Transaction, meeting: Sequence[ColumnElement[bool]]) -> int:
    """Count the letters that meet these conditions."""
    return int(connection.execute(select(func.count()).select_from(dead_letters).where(*meeting)).scalar() or 0)


def require_counted(wanted: DeadLetterFilter, matching: int, expected: int) -> None:
    """Raise `Conflict` unless as many letters match as were counted: to the letter, or, for the letters up to the mark
    of a count, within `MOST_DRIFT`."""
    room = 0.0 if wanted.up_to is None else MOST_DRIFT * expected
    if abs(matching - expected) > room:
        raise Conflict(f"{matching} dead letters match now, not {expected}: look again before you act on them")


_RECENT = func.sum(case((dead_letters.c.last_seen >= bindparam("since"), 1), else_=0))
_REASONS = (
    select(dead_letters.c.reason, func.count().label("letters"), _RECENT.label("recent"))
    .where(dead_letters.c.status == "parked")
    .group_by(dead_letters.c.reason)
)


def count_reasons(connection: Transaction, since: datetime) -> dict[str, tuple[int, int]]:
    """Count the parked letters by reason: all, and those last seen since a moment. Reads one index."""
    rows = connection.execute(_REASONS, {"since": since.timestamp()})
    return {row.reason: (row.letters, row.recent) for row in rows}


class LetterReader(LedgerPart):
    """Queries that operators make on dead letters."""

    def groups(self, wanted: DeadLetterPage | None = None) -> Sequence[DeadLetterGroup]:
        """Return failures by fingerprint, latest first. Raises `InvalidInput` if the page's position is malformed."""
        wanted = wanted or DeadLetterPage()
        alike = _alike(wanted)
        example = (
            select(alike, dead_letters.c.stage, dead_letters.c.exception_type, dead_letters.c.message)
            .join(dead_letters, dead_letters.c.id == alike.c.example_id)
            .order_by(alike.c.latest.desc(), alike.c.fingerprint.desc())
        )
        with self._database.reading() as connection:
            rows = connection.execute(example).all()
            shown = [*conditions(wanted), dead_letters.c.fingerprint.in_([row.fingerprint for row in rows])]
            mixtures, hours = _mixtures(connection, shown), _hours(connection, shown, self._clock())
        return [_group(row, mixtures[row.fingerprint], hours[row.fingerprint]) for row in rows]

    def list(self, wanted: DeadLetterPage | None = None) -> Sequence[DeadLetterSummary]:
        """Return single dead letters, the latest first. Raises `InvalidInput` if the page's position is malformed."""
        wanted = wanted or DeadLetterPage()
        seen, letter_id = dead_letters.c.last_seen, dead_letters.c.id
        query = select(*_BRIEF).where(*conditions(wanted)).order_by(seen.desc(), letter_id.desc()).limit(wanted.limit)
        if wanted.cursor is not None:
            query = query.where(behind(seen, letter_id, wanted.cursor))
        return [DeadLetterSummary(**_facts(row)) for row in self._database.read(query)]

    def show(self, letter_id: str) -> DeadLetterView:
        """Return one dead letter with its payload, stack and history. Raises `NotFound` if there is none."""
        with self._database.reading() as connection:
            return show(connection, letter_id)


def show(connection: Transaction, letter_id: str) -> DeadLetterView:
    """Return one letter with its payload, stack and history. Raises `NotFound` if there is no such letter."""
    row = found(connection, letter_id)
    return DeadLetterView(
        **_facts(row),
        stack=row.stack,
        payload=Payload.of(row.payload),
        payload_history=tuple(map(_past, connection.execute(_HISTORY, {"of_letter": letter_id}))),
        actions=actions_on(connection, letter_id),
        tries=_tries(connection, row),
        passed=_passed(connection, row),
    )


def found(connection: Transaction, letter_id: str) -> AnyRow:
    """Return the letter's row. Raises `NotFound` if there is no such letter."""
    return connection.select(dead_letters, {"id": letter_id}).found(f"dead letter {letter_id}")


def _alike(wanted: DeadLetterPage) -> Any:
    has = dead_letters.c
    latest = func.max(has.last_seen)
    query: Select[Any] = (
        select(
            has.fingerprint,
            func.count().label("letters"),
            func.min(has.first_seen).label("earliest"),
            latest.label("latest"),
            func.max(has.id).label("example_id"),
        )
        .where(*conditions(wanted))
        .group_by(has.fingerprint)
        .order_by(latest.desc(), has.fingerprint.desc())
        .limit(wanted.limit)
    )
    if wanted.cursor is not None:
        query = query.having(behind(latest, has.fingerprint, wanted.cursor))
    return query.subquery()


_MIXED = {"reason": "reasons", "kind": "kinds", "code_version": "code_versions"}
"""Columns that may differ in a group, and the group's fields that list their values."""
_Mixture = dict[str, set[str]]
_HOUR_SECONDS = 3_600.0


def _mixtures(connection: Transaction, shown: Sequence[ColumnElement[bool]]) -> dict[str, _Mixture]:
    """Return the values of the columns in `_MIXED` for each fingerprint."""
    has = dead_letters.c
    query = select(has.fingerprint, *(has[name] for name in _MIXED)).where(*shown).distinct()
    found: dict[str, _Mixture] = defaultdict(lambda: {name: set() for name in _MIXED})
    for row in connection.execute(query):
        for name in _MIXED:
            found[row.fingerprint][name] |= {getattr(row, name)} - {None}
    return found


def _hours(connection: Transaction, shown: Sequence[ColumnElement[bool]], now: float) -> dict[str, list[int]]:
    """Count the letters of each fingerprint that were last seen in each of the latest hours, the oldest first."""
    has, since = dead_letters.c, now - HOURS_SHOWN * _HOUR_SECONDS
    hour = func.round((has.last_seen - since) / _HOUR_SECONDS - 0.5).label("hour")
    query = (
        select(has.fingerprint, hour, func.count().label("letters"))
        .where(*shown, has.last_seen >= since)
        .group_by(has.fingerprint, hour)
    )
    found: dict[str, list[int]] = defaultdict(lambda: [0] * HOURS_SHOWN)
    for row in connection.execute(query):
        found[row.fingerprint][min(int(row.hour), HOURS_SHOWN - 1)] += row.letters
    return found


def _group(row: AnyRow, mixture: _Mixture, hours: Sequence[int]) -> DeadLetterGroup:
    same = ("fingerprint", "stage", "exception_type", "example_id", "message")
    return DeadLetterGroup.model_validate(
        {
            **{name: getattr(row, name) for name in same},
            **{field: tuple(sorted(mixture[name])) for name, field in _MIXED.items()},
            "position": position(row.latest, row.fingerprint),
            "count": row.letters,
            "by_hour": tuple(hours),
            "first_seen": moment(row.earliest),
            "last_seen": moment(row.latest),
        }
    )


def _facts(row: AnyRow) -> dict[str, Any]:
    """Return the fields of a summary."""
    facts = {name: value for name, value in row._asdict().items() if name not in _LONG}
    facts["position"] = position(row.last_seen, row.id)
    for name in ("first_seen", "last_seen"):
        facts[name] = moment(facts[name])
    return facts


def _past(row: AnyRow) -> PastPayload:
    return PastPayload(at=moment(row.at), operator=row.operator, sha256=row.sha256, payload=Payload.of(row.payload))


_LATEST_RUNS = 100
"""Runs of a corpus in which an event of a letter's kind is looked for that was handled."""
_PASSED = (
    select(events.c.id, events.c.run_id, events.c.payload)
    .where(
        events.c.kind == bindparam("of_kind"),
        events.c.status == "settled",
        events.c.run_id.in_(
            select(runs.c.run_id)
            .where(runs.c.corpus == bindparam("of_corpus"))
            .order_by(runs.c.run_id.desc())
            .limit(_LATEST_RUNS)
        ),
    )
    .order_by((events.c.seq + literal_column("0")).desc())  # else PostgreSQL reads the events backwards, however many
    .limit(1)
)


def _tries(connection: Transaction, letter: AnyRow) -> tuple[LetterAttempt, ...]:
    if letter.event_id is None or letter.run_id is None:
        return ()
    tries = attempts.of_event(connection, letter.run_id, letter.event_id)
    return tuple(LetterAttempt(**shared_fields(LetterAttempt, one)) for one in tries)


def _passed(connection: Transaction, letter: AnyRow) -> PassedEvent | None:
    if letter.kind is None or letter.corpus is None:
        return None
    row = connection.execute(_PASSED, {"of_kind": letter.kind, "of_corpus": letter.corpus}).first()
    if row is None or row.id == letter.event_id:
        return None
    return PassedEvent(event_id=row.id, run_id=row.run_id, payload=Payload.of(row.payload.encode()))
