"""Reports answers whose citations no longer hold at their source.

The check reads what the index holds now: however a document changed or went, and however often this is done, a citation
is reported exactly if its chunk is not in its document any more. A chunk that only moved within its document stands.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

import structlog

from sluice.contracts.base import shared_fields
from sluice.contracts.errors import SluiceError
from sluice.contracts.index import Answer, StaleCitation
from sluice.ledger.known_pages import PageMemory
from sluice.ledger.ledger import Ledger
from sluice.ledger.trust.citations import CitedChunk
from sluice.otel import metrics
from sluice.workers.wiring.corpora import CorpusReaders

if TYPE_CHECKING:
    from sluice.workers.wiring.corpora import Reader

log = structlog.get_logger(__name__)

AT_ONCE = 1_000
"""Cited chunks that are checked between two reads of the ledger."""


class _Held(NamedTuple):
    """A document in the index: the ids of its chunks and the checksums of their texts."""

    ids: frozenset[str]
    checksums: frozenset[str]
    fetched_at: datetime | None
    """None if the index does not hold the document."""

    def has(self, cited: CitedChunk) -> bool:
        """Return whether the cited text stands in the document."""
        return cited.chunk_id in self.ids or (cited.checksum is not None and cited.checksum in self.checksums)


def tell_stale_answers(
    corpus: str, ledger: Ledger, readers: CorpusReaders, now: datetime, *, covering: int = 0
) -> tuple[str, ...]:
    """Record stale citations on the runs whose answers have them; return these runs' ids. May be done at any time.

    The index is read once it covers the journal offset `covering`. If that cannot be done now, a warning is logged, and
    the next call does it.
    """
    told: list[str] = []
    try:
        reader, second = readers.existing(corpus), readers.fallback(corpus)
        served_offset = max(reader.journal_offset, covering)
        while due := ledger.unchecked_citations(corpus, served_offset, most=AT_ONCE):
            told += _tell(due, ledger, _held(due, reader, second, covering), now)
            if len(due) < AT_ONCE:
                break
    except SluiceError as error:
        log.warning("stale_answers_not_told", corpus=corpus, error=repr(error))
    return tuple(told)


def _held(due: Iterable[CitedChunk], own: Reader, second: Reader | None, covering: int) -> Mapping[str, _Held]:
    """Read the cited documents in the index; those that still wait for the corpus's model in its second one."""
    found: dict[str, _Held] = {}
    for document_id in {cited.document_id for cited in due}:
        chunks, facts = own.chunks(document_id, covering), own.document(document_id)
        if facts is None and second is not None:
            chunks, facts = second.chunks(document_id), second.document(document_id)
        found[document_id] = _Held(
            frozenset(chunk.chunk_id for chunk in chunks),
            frozenset(chunk.checksum for chunk in chunks),
            facts.provenance.fetched_at if facts else None,
        )
    return found


def _tell(due: Iterable[CitedChunk], ledger: Ledger, held: Mapping[str, _Held], now: datetime) -> Iterable[str]:
    standing: list[CitedChunk] = []
    stale: defaultdict[str, dict[int, StaleCitation]] = defaultdict(dict)
    for cited in due:
        document = held[cited.document_id]
        if document.has(cited):
            standing.append(cited)
        else:
            stale[cited.run_id].setdefault(cited.citation, _stale(cited, document, now))
    ledger.pass_citations(standing)
    for run_id, citations in stale.items():
        event = ledger.tell_stale(run_id, tuple(citations.values()))
        if event is not None:
            yield run_id
            for one in citations.values():
                metrics.STALE_CITATIONS.labels(one.what).inc()


def _stale(cited: CitedChunk, document: _Held, now: datetime) -> StaleCitation:
    what = "gone" if document.fetched_at is None else "changed"
    facts = shared_fields(StaleCitation, cited)
    return StaleCitation(what=what, changed_at=document.fetched_at or now, **facts)


def unseen_seconds(answer: Answer, page_memory: PageMemory, now: datetime) -> tuple[float, ...]:
    """Return, for each cited document of the web, the seconds since it was last read or seen unchanged.

    Submitted documents and files have no source that could be requested again.
    """
    read_at = {
        chunk.document_id: chunk.provenance.fetched_at
        for chunk in answer.chunks
        if chunk.provenance.source in ("crawl", "search")
    }
    seen_at = page_memory.seen_at(answer.corpus, tuple(read_at))
    latest = (max(moment, seen_at.get(document_id, moment)) for document_id, moment in read_at.items())
    return tuple(round(max(0.0, (now - moment).total_seconds()), 3) for moment in latest)
