"""Documents that are to be forgotten: which they are, and the removal of every trace of them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from sluice.contracts.event import Gap
from sluice.contracts.operations.forget import ForgottenKind, Selection
from sluice.index.search.selection import is_selected
from sluice.workers.runtime.heartbeat import check_cancelled

if TYPE_CHECKING:
    from sluice.index.journal.document_facts import DocumentFacts
    from sluice.ledger.ledger import Ledger
    from sluice.workers.runtime.blob_store import BlobStore
    from sluice.workers.wiring.corpora import Writer


def select_documents(selection: Selection, writer: Writer) -> list[DocumentFacts]:
    """The facts of every document of the corpus that is meant, published or not."""
    return writer.select(lambda facts: is_selected(facts, selection))


def ids_meant(selection: Selection, found: Iterable[DocumentFacts]) -> tuple[str, ...]:
    """The ids of the documents that are meant: those found, and those that follow from the selection itself."""
    return tuple(dict.fromkeys((*(facts.document_id for facts in found), *selection.document_ids)))


def entries_for(found: Iterable[DocumentFacts]) -> list[tuple[ForgottenKind, str]]:
    """What the negative list says of documents that a filter chose: their ids, and the addresses that were crawled."""
    entries: list[tuple[ForgottenKind, str]] = []
    for facts in found:
        entries.append(("document_id", facts.document_id))
        if facts.url is not None and facts.provenance.origin == "crawled":
            entries.append(("url", facts.url))
    return entries


def erase_quarantine(
    corpus: str, document_ids: Sequence[str], selection: Selection, ledger: Ledger, blobs: BlobStore
) -> None:
    """Remove what the quarantine holds of the documents. Blobs first: a row that is left leads to its blob again."""
    held = ledger.quarantine.of(corpus, document_ids, selection)
    remove_blobs(filter(None, held.values()), blobs)
    ledger.quarantine.forget(held)


def erase_leftovers(
    corpus: str, document_ids: Sequence[str], selection: Selection, ledger: Ledger, blobs: BlobStore
) -> tuple[bool, tuple[Gap, ...]]:
    """Forget the pages of the documents and remove their blobs; whether events of theirs are still open, and gaps."""
    left = ledger.erasure.leftovers(corpus, document_ids, selection, check_cancelled)
    if left.open_events:
        return True, ()
    remove_blobs(left.removable, blobs)
    ledger.erasure.forget_pages(corpus, document_ids, selection)
    if not left.parked:
        return False, ()
    why = f"{len(left.parked)} blobs of forgotten documents are kept, as dead letters need them"
    lift = "replay or purge the letters (`sluice dead list`), then forget once more"
    return False, (Gap(stage="index", subject="blobs", reason="still_needed", detail=why, lifted_by=lift),)


def remove_blobs(hashes: Iterable[str], blobs: BlobStore) -> None:
    """Remove blobs now, however lately they were put."""
    for sha256 in hashes:
        blobs.remove_unused(sha256, since=time.time() + 1)
