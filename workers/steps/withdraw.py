"""From a page that may no longer be in the index to the documents that go.

Asked twice: by the crawl, so that a page that was never indexed is no event, and by the index, since what it held may
have been read anew meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sluice.contracts.errors import NotFound, SluiceError
from sluice.contracts.ingest import PageWithdrawn
from sluice.contracts.known_pages import PageMemory
from sluice.ingest.crawl.crawled_page import withdrawal_in
from sluice.workers.wiring.corpora import CorpusReaders

_OF_THE_WEB = frozenset({"crawl", "search"})
"""Documents that a site has a say in. What somebody handed in under the same address is his."""


def withdrawn_pages(
    refusal: SluiceError, corpus: str, seen_at: datetime, readers: CorpusReaders, page_memory: PageMemory
) -> tuple[PageWithdrawn, ...]:
    """The event for a page that the corpus holds although the refusal says that it no longer may; none otherwise."""
    withdrawal = withdrawal_in(refusal)
    if withdrawal is None:
        return ()
    documents = withdrawable(withdrawal.document_ids, corpus, seen_at, readers, page_memory)
    if not documents:
        return ()
    return (PageWithdrawn(url=withdrawal.addresses[-1], document_ids=documents, by=withdrawal.by, seen_at=seen_at),)


def withdrawable(
    document_ids: Sequence[str], corpus: str, seen_at: datetime, readers: CorpusReaders, page_memory: PageMemory
) -> tuple[str, ...]:
    """Those of the documents that the corpus holds, that came from the web, and that were not seen since `seen_at`."""
    try:
        held = readers.existing(corpus).documents(document_ids)
    except NotFound:
        return ()
    seen_again = page_memory.seen_at(corpus, document_ids)
    return tuple(
        document_id
        for document_id, facts in held.items()
        if facts.provenance.source in _OF_THE_WEB
        and max(facts.provenance.fetched_at, seen_again.get(document_id, facts.provenance.fetched_at)) <= seen_at
    )
