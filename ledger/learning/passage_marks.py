"""Marks on passages: what callers say against single passages of answers.

The rows follow from events, by which `rebuild` makes them again: `PassageMarked` writes the row of its run, key and
passage, or deletes it where the key takes its word back; `PassageCleared` deletes those of a passage, an erasure those
of its documents. A row goes with its run. Each row is written by the transaction that records its event.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import bindparam, delete, func, or_, select

from sluice.contracts.errors import Conflict, NotFound
from sluice.contracts.event import Body, decode
from sluice.contracts.ingest import ErasureDirected
from sluice.contracts.learning.passages import MarkedPassage, PassageCleared, PassageMark, PassageMarked
from sluice.ledger.audit import ControlChange, record_control
from sluice.ledger.database import LedgerPart
from sluice.ledger.events.outbox import Entry, own_event, write
from sluice.ledger.runs import take
from sluice.ledger.schema.tables import AnyRow, events, moment, passage_marks, storable
from sluice.ledger.transaction import Transaction

MOST_MARKS = 20_000
"""Latest marks of a corpus that count."""
_HAS = passage_marks.c
_KEYED = select(events.c.payload).where(
    events.c.run_id == bindparam("of_run"), events.c.dedupe_key == bindparam("of_key")
)
_OF_CORPUS = (
    select(passage_marks).where(_HAS.corpus == bindparam("of_corpus")).order_by(_HAS.at.desc()).limit(MOST_MARKS)
)
_OF_PASSAGE = select(passage_marks).where(
    _HAS.run_id == bindparam("of_run"), _HAS.chunk_id == bindparam("of_chunk", type_=_HAS.chunk_id.type)
)
_DOCUMENTS = select(_HAS.document_id, _HAS.url).where(_HAS.corpus == bindparam("of_corpus")).distinct()
_EFFECTIVE = (
    select(events.c.payload, events.c.created_at)
    .where(
        or_(
            events.c.kind.in_((PassageMarked.kind, PassageCleared.kind)),
            (events.c.kind == ErasureDirected.kind) & (events.c.status == "settled"),
        )
    )
    .order_by(func.coalesce(events.c.settled_at, events.c.created_at), events.c.seq)
)


class PassageMarks(LedgerPart):
    """The marks of one ledger. Every method is one transaction and may raise `Unavailable`."""

    def give(self, run_id: str, marks: Sequence[PassageMarked]) -> bool:
        """Record marks on passages of a run's answer, all or none; return whether any is new.

        A key speaks once on a passage of a run, and may take that back once: the same again changes nothing.

        Raises:
            NotFound: no such run.
            Conflict: the key said something else of the passage before.
        """
        is_new = False
        with self._database.writing() as connection:
            run, now = take(connection, run_id), self._clock()
            for mark in marks:
                key = f"passage-{mark.verdict}:{mark.owner}:{mark.chunk_id}"
                if write(connection, run, [Entry(own_event(run, mark, now), key)], now):
                    _apply(connection, run.corpus, run_id, mark, now)
                    is_new = True
                elif (before := _said_before(connection, run_id, key)) != mark:
                    said = f"{before.verdict}, {before.reason}" if isinstance(before, PassageMarked) else "another word"
                    raise Conflict(
                        f"{said} was recorded of passage {mark.chunk_id}: it is said once of a run, and stays"
                    )
        return is_new

    def clear(self, corpus: str, chunk_id: str, operator: str, note: str = "") -> None:
        """Lift every mark on a passage of a corpus, as an operator's action. Raises `NotFound` if it has none."""
        body = PassageCleared(of_corpus=corpus, chunk_id=chunk_id, operator=operator, note=note)
        with self._database.writing() as connection:
            now = self._clock()
            if not _apply(connection, corpus, "", body, now):
                raise NotFound(f"no mark on a passage {chunk_id!r} of corpus {corpus!r}")
            subject = f"passage:{corpus}:{chunk_id}"
            record_control(connection, ControlChange((body,), "clear_passage", subject, operator, note), now)

    def of_corpus(self, corpus: str) -> list[PassageMark]:
        """Return the latest marks of a corpus, the last one first."""
        return [_mark(row) for row in self._database.read(_OF_CORPUS, {"of_corpus": corpus})]

    def of_passage(self, run_id: str, chunk_id: str) -> list[PassageMark]:
        """Return what is said in a run against one passage of its answer."""
        return [_mark(row) for row in self._database.read(_OF_PASSAGE, {"of_run": run_id, "of_chunk": chunk_id})]

    def told(self, corpus: str, doubts: dict[str, float]) -> list[MarkedPassage]:
        """Return the passages of a corpus that have marks, by their ids; `doubts` are theirs."""
        of_passage: defaultdict[str, list[AnyRow]] = defaultdict(list)
        for row in self._database.read(_OF_CORPUS, {"of_corpus": corpus}):
            of_passage[row.chunk_id].append(row)
        return [
            MarkedPassage(
                chunk_id=chunk_id,
                document_id=rows[0].document_id,
                url=rows[0].url,
                doubt=doubts.get(chunk_id, 0.0),
                reasons=Counter(row.reason for row in rows),
                keys=len({row.owner for row in rows}),
                last_at=moment(rows[0].at),
            )
            for chunk_id, rows in sorted(of_passage.items())
        ]

    def forget(self, corpus: str, document_ids: Collection[str]) -> None:
        """Delete the marks on passages of these documents."""
        with self._database.writing() as connection:
            _forget(connection, corpus, document_ids)

    def documents(self, corpus: str) -> dict[str, str | None]:
        """Return the documents whose passages have marks, by id, each with its URL."""
        return {row.document_id: row.url for row in self._database.read(_DOCUMENTS, {"of_corpus": corpus})}

    def rebuild(self) -> None:
        """Make every row again from the events."""
        with self._database.writing() as connection:
            connection.execute(delete(passage_marks))
            for row in connection.execute(_EFFECTIVE):
                event = decode(row.payload)
                _apply(connection, event.corpus, event.run_id, event.body, row.created_at)


def drop_marks(connection: Transaction, run_id: str) -> None:
    """Delete the marks that a run's feedback gave."""
    connection.delete(passage_marks, {"run_id": run_id})


def _apply(connection: Transaction, corpus: str, run_id: str, body: Body, at: float) -> int:
    """Carry out what an event says; return the number of rows that it changed."""
    match body:
        case PassageMarked():
            key = {"run_id": run_id, "chunk_id": body.chunk_id, "owner": body.owner}
            if body.verdict == "fine":
                return connection.delete(passage_marks, key)
            facts = {name: getattr(body, name) for name in ("document_id", "url", "reason", "standing")}
            connection.put(passage_marks, {**key, **facts, "corpus": corpus, "at": at}, tuple(key), (*facts, "at"))
            return 1
        case PassageCleared():
            return connection.delete(passage_marks, {"corpus": body.of_corpus, "chunk_id": body.chunk_id})
        case ErasureDirected():
            _forget(connection, corpus, body.document_ids)
    return 0


def _forget(connection: Transaction, corpus: str, document_ids: Collection[str]) -> None:
    going = set(document_ids)
    for document_id in connection.execute(_DOCUMENTS, {"of_corpus": corpus}).scalars():
        if document_id in going:
            connection.delete(passage_marks, {"corpus": corpus, "document_id": document_id})


def _said_before(connection: Transaction, run_id: str, key: str) -> Body:
    payload: Any = connection.execute(_KEYED, {"of_run": run_id, "of_key": storable(key)}).one().payload
    return decode(payload).body


def _mark(row: AnyRow) -> PassageMark:
    return PassageMark(*(getattr(row, name) for name in PassageMark._fields))
