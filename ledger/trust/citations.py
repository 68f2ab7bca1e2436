"""Maps documents to the answers that cite them: a row for each cited chunk, from the answer to its pruning.

A document may change while an answer that cites it is being recorded. So a row stays unchecked until the index, in a
state no older than the answer's, was seen to hold the chunk; it is unchecked again whenever its document is indexed.
`Ledger.tell_stale` deletes the rows of a citation when it records that its passage is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

from sqlalchemy import Executable, bindparam, select, update

from sluice.contracts.index import Answer, AnswerReady
from sluice.ledger.schema.tables import IS_UNCHECKED, citations
from sluice.ledger.transaction import Transaction, insert_into


@dataclass(frozen=True, slots=True)
class CitedChunk:
    """A chunk that an answer cites."""

    run_id: str
    citation: int
    """Its number in the answer."""
    chunk_id: str
    document_id: str
    checksum: str | None
    """Hash of the chunk's text; None where several chunks make the passage."""
    url: str | None
    seen_offset: int
    """Journal offset as of which the document is known to have had the chunk."""


_OF_CORPUS = citations.c.corpus == bindparam("of_corpus")
_OF_DOCUMENT = (_OF_CORPUS, citations.c.document_id == bindparam("of_document"))
_IS_CITED = select(citations.c.document_id).where(*_OF_DOCUMENT).limit(1)
_CITING = select(citations.c.profile).where(*_OF_DOCUMENT, citations.c.profile.is_not(None)).distinct()
_COLUMNS = [citations.c[name.name] for name in fields(CitedChunk)]
_UNCHECKED = (
    select(*_COLUMNS)
    .where(_OF_CORPUS, IS_UNCHECKED, citations.c.seen_offset <= bindparam("reached"))
    .limit(bindparam("most"))
)
_STAND = (
    update(citations)
    .where(_OF_CORPUS, IS_UNCHECKED, citations.c.seen_offset == bindparam("reached"))
    .values(is_checked=1)
)


def note_answer(connection: Transaction, run_id: str, ready: AnswerReady) -> None:
    """Record the citations of a run's answer. A repeated call changes nothing."""
    rows = list(_rows(run_id, ready.answer, ready.profile))
    if rows:
        connection.insert_each(_insert(connection.dialect), rows)


def uncheck(connection: Transaction, corpus: str, document_ids: Sequence[str], journal_offset: int) -> None:
    """Mark the citations of these documents as unchecked: records up to that offset changed or removed them."""
    for document_id in document_ids:
        unchecked = {"is_checked": 0, "seen_offset": journal_offset - 1}
        connection.update(citations, {"corpus": corpus, "document_id": document_id}, unchecked)


def cited_ones(connection: Transaction, corpus: str, document_ids: Sequence[str]) -> list[str]:
    """Return those of the documents that some answer cites."""
    asked = [{"of_corpus": corpus, "of_document": one} for one in dict.fromkeys(document_ids)]
    return [row.document_id for row in connection.execute_each(_IS_CITED, asked)]


def unchecked(connection: Transaction, corpus: str, journal_offset: int, most: int) -> list[CitedChunk]:
    """Return at most `most` chunks to check against an index that covers `journal_offset`."""
    asked = {"of_corpus": corpus, "reached": journal_offset, "most": most}
    return [CitedChunk(*row) for row in connection.execute(_UNCHECKED, asked)]


def pass_unchanged(connection: Transaction, corpus: str, journal_offset: int) -> None:
    """Mark as checked the chunks that were seen at exactly `journal_offset`, the index's current state."""
    connection.execute(_STAND, {"of_corpus": corpus, "reached": journal_offset})


def pass_checked(connection: Transaction, rows: Sequence[CitedChunk]) -> None:
    """Mark these rows as checked; a row that was unchecked again meanwhile stays so."""
    for row in rows:
        seen = {name: getattr(row, name) for name in ("run_id", "citation", "chunk_id", "seen_offset")}
        connection.update(citations, seen, {"is_checked": 1})


def citing_profiles(connection: Transaction, corpus: str, document_id: str) -> tuple[str, ...]:
    """Return the gate's profiles whose answers cite the document."""
    found = connection.execute(_CITING, {"of_corpus": corpus, "of_document": document_id})
    return tuple(sorted(found.scalars()))


def drop_citations(connection: Transaction, run_id: str, number: int | None = None) -> int:
    """Delete the citations of a run's answer, or the one with that number; return the number of rows."""
    return connection.delete(citations, {"run_id": run_id} | ({} if number is None else {"citation": number}))


def _rows(run_id: str, answer: Answer, profile: str | None) -> Iterator[dict[str, Any]]:
    found = {chunk.chunk_id: chunk for chunk in answer.chunks}
    for citation in answer.citations:
        chunk = found[citation.chunk_id]
        for chunk_id in dict.fromkeys(chunk.passage or (chunk.chunk_id,)):
            yield {
                "run_id": run_id,
                "citation": citation.number,
                "chunk_id": chunk_id,
                "corpus": answer.corpus,
                "document_id": chunk.document_id,
                "checksum": None if chunk.passage else chunk.checksum,
                "url": chunk.url,
                "seen_offset": answer.journal_offset,
                "profile": profile,
            }


@cache
def _insert(dialect: str) -> Executable:
    return insert_into(dialect, citations).on_conflict_do_nothing().returning(citations.c.citation)
