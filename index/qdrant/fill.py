"""Updates a collection from journal records: stores new versions, and marks replaced ones as dead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from sluice.index.generations.manifest import IdSet
from sluice.index.journal.document_facts import document_key
from sluice.index.journal.records import Record, Removal, Upsert
from sluice.index.qdrant.collection import Condition, Point
from sluice.index.qdrant.payload import (
    DOCUMENT_FIELDS,
    CollectionState,
    StoredDocument,
    find_first_rows,
    make_points,
    read_document,
    where_document_is,
    where_live,
)
from sluice.index.qdrant.server import ServerCollection
from sluice.index.terms.analysis import ENGLISH, analysis_language

_POINTS_AT_ONCE = 500
"""Points in one request: of 384 dimensions and 500 characters about 5 MB, well below what a server takes."""
BATCH_DOCUMENTS = 64
"""Documents sent at once while publishing; at 4 chunks of 384 dimensions each about 3 MB."""


class CollectionUpdate:
    """One generation being written: `base` and every record after it. Searches see it once its state is stored.

    Replaced points are marked as dead from this generation on, and stay for searches in earlier ones.
    """

    def __init__(
        self, collection: ServerCollection, number: int, base: CollectionState | None, batch_documents: int
    ) -> None:
        self._collection = collection
        self._number = number
        self._batch_documents = batch_documents
        self._ids = IdSet(base.id_set_hash) if base else IdSet()
        self.document_count = base.document_count if base else 0
        self.chunk_count = base.chunk_count if base else 0
        self.languages = set(base.languages) if base else {ENGLISH}

    @property
    def id_set_hash(self) -> str:
        """The hash of the set of all (document, chunk) ids."""
        return self._ids.hexadecimal

    def replace_all(self) -> None:
        """Mark all live points as dead from this generation on."""
        for kind in ("chunk", "document"):
            self._collection.mark(where_live(self._number - 1, kind), {"until": self._number})

    def apply(self, records: Iterable[tuple[int, Record]]) -> None:
        """Apply the records in their order."""
        following = iter(records)
        while batch := list(islice(following, self._batch_documents)):
            # A version that another one of the same batch replaces is never seen, so it is not stored.
            self._apply({_document_id(record): (offset, record) for offset, record in batch})

    def _apply(self, newest: dict[str, tuple[int, Record]]) -> None:
        self._replace(list(newest))
        arrived = [(offset, record) for offset, record in newest.values() if isinstance(record, Upsert)]
        for points in _split_into_requests(self._points(arrived)):
            self._collection.upsert(points)
        for _, record in arrived:
            chunk_ids = list(find_first_rows(record.document.chunks))
            self._ids.add(document_key(record.document.document_id), chunk_ids)
            self.document_count += 1
            self.chunk_count += len(chunk_ids)
            self.languages |= {
                analysis_language(one.language or record.document.language) for one in record.document.chunks
            }

    def _replace(self, document_ids: Sequence[str]) -> None:
        for document_id, old in read_live_documents(self._collection, self._number, document_ids).items():
            self._ids.remove(document_key(document_id), old.chunk_ids)
            self.document_count -= 1
            self.chunk_count -= len(old.chunk_ids)
        for kind in ("chunk", "document"):
            self._collection.mark(
                where_live(self._number, kind) & where_document_is(document_ids), {"until": self._number}
            )

    def _points(self, arrived: Sequence[tuple[int, Upsert]]) -> Iterator[Point]:
        for offset, record in arrived:
            yield from make_points(self._number, offset, record)


def read_live_documents(
    collection: ServerCollection, number: int, document_ids: Sequence[str]
) -> dict[str, StoredDocument]:
    """Read those of the documents that are live in the generation `number`, by id."""
    found = collection.points(where_live(number, "document") & where_document_is(document_ids), DOCUMENT_FIELDS)
    documents = (read_document(hit.payload) for hit in found)
    return {document.facts.document_id: document for document in documents}


def undo_failed_publish(collection: ServerCollection, number: int) -> None:
    """Remove and unmark what a failed publish has stored after the generation `number`."""
    collection.delete(Condition(above=(("since", number),)))
    collection.unmark(Condition(above=(("until", number),)), "until")


def delete_dead(collection: ServerCollection, number: int) -> None:
    """Delete the points that are dead in the generation `number`."""
    collection.delete(Condition(above=(("until", 0),), at_most=(("until", number),)))


def _split_into_requests(points: Iterator[Point]) -> Iterator[list[Point]]:
    while request := list(islice(points, _POINTS_AT_ONCE)):
        yield request


def _document_id(record: Record) -> str:
    return record.document_id if isinstance(record, Removal) else record.document.document_id
