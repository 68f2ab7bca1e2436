"""Lists of runs, newest first, and the search for them. Every list is read along an index and ends at its limit.

A list of several statuses or corpora is as many lists, each along its own index, joined. Run ids begin with the moment
at which they were made, so the order of ids is that of creation, and a stretch of time is a stretch of ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import product
from typing import Any

from sqlalchemy import ColumnElement, CompoundSelect, Select, bindparam, literal_column, select, union_all

from sluice.contracts.api import RunKind, RunStatus
from sluice.contracts.errors import InvalidInput
from sluice.contracts.operations.overview import OpenRun
from sluice.ledger.events.finish import UNFINISHED
from sluice.ledger.events.reservations import usd
from sluice.ledger.schema import run_words
from sluice.ledger.schema.tables import AnyRow, events, moment, outcomes, perhaps_moment, runs, storable
from sluice.ledger.transaction import Transaction

CLOCK_SLACK_SECONDS = 3_600.0
"""Most by which the clock that made a run's id may differ from the ledger's."""
_RUN_ID, _EVENT_ID = re.compile(r"run_[0-9a-f]{4,28}"), re.compile(r"evt_[0-9a-f]{28}")


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run in a list."""

    run_id: str
    kind: RunKind
    corpus: str
    owner: str
    status: RunStatus
    query: str | None
    created_at: datetime
    finished_at: datetime | None
    usd: float
    plan: str | None = None
    dead_letters: int = 0
    retrying: int = 0


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Conditions on runs, all of which must hold; None: any. `unfinished`: neither finished, failed nor cancelled.

    `retrying`: an open event of it failed before. `since` and `until` are of its creation. `text`: the beginning of a
    run's id, an event's id, or words of the question. `corpora`: those that the caller may see.
    """

    corpus: str | None = None
    status: RunStatus | None = None
    owner: str | None = None
    kind: RunKind | None = None
    corpora: Iterable[str] | None = None
    since: datetime | None = None
    until: datetime | None = None
    text: str | None = None
    retrying: bool = False
    unfinished: bool = False


_SHOWN = (
    *("run_id", "kind", "corpus", "owner", "status", "query", "created_at", "finished_at", "spent_nanousd"),
    *("dead_letters", "retrying"),
)
_COLUMNS = (*(runs.c[name] for name in _SHOWN), outcomes.c.plan)
_SUMMARY = select(*_COLUMNS).select_from(runs.outerjoin(outcomes, outcomes.c.run_id == runs.c.run_id))


_NEWEST_FIRST = runs.c.run_id.desc()
_MOST_LISTS = 100
"""Lists that one statement joins; SQLite takes 500."""
_OLDEST_OPEN = (
    select(*(runs.c[name] for name in ("run_id", "kind", "corpus", "query", "created_at", "retrying")))
    .where(runs.c.status == bindparam("of_status"))
    .order_by(runs.c.run_id)
    .limit(bindparam("most"))
)


def newest(connection: Transaction, wanted: RunFilter, limit: int, before: str | None = None) -> list[RunSummary]:
    """Return runs, newest first; `before` is the last run id of the previous page.

    Raises `InvalidInput` if `text` is no id and has no word that the index knows.
    """
    conditions = _conditions(wanted, before)
    if wanted.text is not None and not (conditions_of_id := _of_id(wanted.text)):
        query: Select[Any] | CompoundSelect[Any] = _with_words(connection, wanted, conditions, before)
    else:
        conditions += conditions_of_id if wanted.text is not None else []
        statuses = UNFINISHED if wanted.unfinished and wanted.status is None else (wanted.status,)
        lists = [
            _SUMMARY.where(*conditions, *_equal(wanted, status, corpora)).order_by(_NEWEST_FIRST).limit(limit)
            for status, corpora in product(statuses, _corpora(wanted))
        ]
        if not lists:
            return []
        parts = [select(one.subquery()) for one in lists]
        query = union_all(*parts).order_by(literal_column("run_id").desc()) if len(parts) > 1 else lists[0]
    return [_summary(row) for row in connection.execute(query.limit(limit))]


def oldest_open(connection: Transaction, most: int) -> list[OpenRun]:
    """Return the runs that have been open for longest, the oldest first."""
    rows = [
        row for status in UNFINISHED for row in connection.execute(_OLDEST_OPEN, {"of_status": status, "most": most})
    ]
    return [
        OpenRun(**row._asdict() | {"created_at": moment(row.created_at)})
        for row in sorted(rows, key=lambda row: str(row.run_id))[:most]
    ]


def _conditions(wanted: RunFilter, before: str | None) -> list[ColumnElement[bool]]:
    """Return the conditions that are the same in all lists. The first makes each of them a range of an index."""
    found = [runs.c.run_id > literal_column("''")]
    if before is not None:
        found.append(runs.c.run_id < before)
    if wanted.since is not None:
        found += [runs.c.run_id >= _id_at(wanted.since, -CLOCK_SLACK_SECONDS)]
        found += [runs.c.created_at >= wanted.since.timestamp()]
    if wanted.until is not None:
        found += [runs.c.run_id < _id_at(wanted.until, CLOCK_SLACK_SECONDS)]
        found += [runs.c.created_at < wanted.until.timestamp()]
    if wanted.retrying:
        found.append(runs.c.retrying > literal_column("0"))
    return found


def _equal(
    wanted: RunFilter, status: str | None, corpora: Sequence[str] | None, *, by_index: bool = True
) -> list[ColumnElement[bool]]:
    """Return the conditions on columns with an index. Unless `by_index`, SQLite may not choose one of these."""
    column = {
        name: runs.c[name] if by_index else runs.c[name].concat("") for name in ("status", "owner", "kind", "corpus")
    }
    equal = {"status": status, "owner": wanted.owner, "kind": wanted.kind}
    found = [column[name] == value for name, value in equal.items() if value is not None]
    if corpora is not None:
        found.append(column["corpus"] == corpora[0] if len(corpora) == 1 else column["corpus"].in_(corpora))
    return found


def _seen(wanted: RunFilter) -> Sequence[str] | None:
    """Return the corpora whose runs may be listed; None for all."""
    if wanted.corpora is None:
        return None if wanted.corpus is None else (wanted.corpus,)
    return sorted(one for one in set(wanted.corpora) if wanted.corpus in (None, one))


def _corpora(wanted: RunFilter) -> list[Sequence[str] | None]:
    """Return the corpora of each list."""
    seen = _seen(wanted)
    return [seen] if seen is None or len(seen) > _MOST_LISTS // len(UNFINISHED) else [(one,) for one in seen]


def _of_id(text: str) -> list[ColumnElement[bool]]:
    """Return the conditions of an id of a run, or its beginning, or of an event; none if the text is neither."""
    if _RUN_ID.fullmatch(text):
        return [runs.c.run_id >= text, runs.c.run_id < f"{text}g"]
    if _EVENT_ID.fullmatch(text):
        return [runs.c.run_id == select(events.c.run_id).where(events.c.id == text).scalar_subquery()]
    return []


def _with_words(
    connection: Transaction, wanted: RunFilter, conditions: list[ColumnElement[bool]], before: str | None
) -> Select[Any]:
    words = storable(wanted.text or "").split()
    if not any(len(word) >= run_words.LEAST_CHARACTERS for word in words):
        problem = f"{wanted.text!r} has no word of {run_words.LEAST_CHARACTERS} letters"
        raise InvalidInput("q", problem, "give a longer word of the question, or the id of a run or an event")
    if wanted.unfinished:
        conditions.append(runs.c.status.concat("").in_(UNFINISHED))
    conditions += _equal(wanted, wanted.status, _seen(wanted), by_index=False)
    on_sqlite = connection.dialect == "sqlite"
    read = [word for word in words if not on_sqlite or len(word) < run_words.LEAST_CHARACTERS]
    conditions += [runs.c.query.ilike(_pattern(word), escape="\\") for word in read]
    if not on_sqlite:
        return _SUMMARY.where(*conditions).order_by(_NEWEST_FIRST)
    index, match = run_words.matching(words)
    numbered = index.join(runs, runs.c.run_id == index.c.run_id).outerjoin(outcomes, outcomes.c.run_id == runs.c.run_id)
    if before is not None and (number := run_words.first_number(before)) is not None:
        conditions.append(index.c.rowid <= number)
    return select(*_COLUMNS).select_from(numbered).where(match, *conditions).order_by(index.c.rowid.desc())


def _pattern(word: str) -> str:
    return "%" + re.sub(r"([%_\\])", r"\\\1", word) + "%"


def _id_at(at: datetime, more_seconds: float) -> str:
    """Return the beginning of the ids of runs that are made at that moment and so many seconds later."""
    return f"run_{max(0, int((at.timestamp() + more_seconds) * 1_000)):012x}"


def _summary(row: AnyRow) -> RunSummary:
    facts = row._asdict()
    facts |= {"usd": usd(facts.pop("spent_nanousd")), "created_at": moment(row.created_at)}
    return RunSummary(**facts | {"finished_at": perhaps_moment(row.finished_at)})
