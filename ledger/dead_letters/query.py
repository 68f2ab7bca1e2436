"""Queries on dead letters: grouped by fingerprint, listed, or one in full.

Lists begin with the latest seen and continue after a position, made of a moment and an id: it stays valid while letters
are parked and purged. They leave out payloads and stacks, so ten thousand letters are ten thousand short rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, bindparam, func, select

from sluice.contracts.operations.dead_letters import (
    DeadLetterFilter,
    DeadLetterGroup,
    DeadLetterPage,
    DeadLetterSummary,
    DeadLetterView,
    PastPayload,
    Payload,
)
from sluice.ledger.audit import actions_on
from sluice.ledger.database import LedgerPart
from sluice.ledger.schema.tables import (
    AnyRow,
    behind,
    conditions_on,
    dead_letter_payloads,
    dead_letters,
    moment,
    position,
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
    equal: dict[ColumnElement[Any], str | None] = {
        has.status: None if wanted.status == "any" else wanted.status,
        has.stage: wanted.stage,
        has.reason: wanted.reason,
        has.kind: wanted.kind,
        has.fingerprint: wanted.fingerprint,
        has.run_id: wanted.run_id,
    }
    found = conditions_on(equal, has.corpus, wanted.corpora)
    if wanted.since is not None:
        found.append(has.last_seen >= wanted.since.timestamp())
    if wanted.until is not None:
        found.append(has.last_seen < wanted.until.timestamp())
    return found


def count(connection: Transaction, meeting: Sequence[ColumnElement[bool]]) -> int:
    """Count the letters that meet these conditions."""
    return int(connection.execute(select(func.count()).select_from(dead_letters).where(*meeting)).scalar() or 0)


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
            reasons, kinds = _mixture(connection, wanted, alike)
        return [_group(row, reasons[row.fingerprint], kinds[row.fingerprint]) for row in rows]

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


_Sets = dict[str, set[str]]


def _mixture(connection: Transaction, wanted: DeadLetterPage, alike: Any) -> tuple[_Sets, _Sets]:
    """Return the reasons and the kinds of each fingerprint."""
    has = dead_letters.c
    of_the_page = has.fingerprint.in_(select(alike.c.fingerprint))
    query = select(has.fingerprint, has.reason, has.kind).where(*conditions(wanted), of_the_page).distinct()
    reasons: _Sets = defaultdict(set)
    kinds: _Sets = defaultdict(set)
    for row in connection.execute(query):
        reasons[row.fingerprint].add(row.reason)
        if row.kind is not None:
            kinds[row.fingerprint].add(row.kind)
    return reasons, kinds


def _group(row: AnyRow, reasons: set[str], kinds: set[str]) -> DeadLetterGroup:
    same = ("fingerprint", "stage", "exception_type", "example_id", "message")
    return DeadLetterGroup.model_validate(
        {
            **{name: getattr(row, name) for name in same},
            "position": position(row.latest, row.fingerprint),
            "count": row.letters,
            "reasons": tuple(sorted(reasons)),
            "kinds": tuple(sorted(kinds)),
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
