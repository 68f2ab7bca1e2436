"""How long ago what an answer cites was seen: read, or found to be as it was."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import cast

from sluice.contracts.document import Provenance
from sluice.contracts.event import Event
from sluice.contracts.retrieval import RetrievedChunk
from sluice.ledger.known_pages import PageMemory
from sluice.otel import metrics
from sluice.workers.runtime.observers import count_events
from sluice.workers.steps.answer import unseen_seconds
from tests.support.evaluation_samples import chunk
from tests.support.ledger_story import answer

NOW = datetime(2031, 5, 6, 12, tzinfo=UTC)


class Memory:
    """Remembers that `page` was seen an hour ago."""

    def seen_at(self, corpus: str, document_ids: Sequence[str]) -> dict[str, datetime]:
        return {name: NOW - timedelta(hours=1) for name in document_ids if name == "page"}


def cited(document_id: str, source: str, days: float) -> RetrievedChunk:
    provenance = Provenance.model_validate({"source": source, "fetched_at": NOW - timedelta(days=days)})
    return chunk(f"chunk of {document_id}", document_id).model_copy(update={"provenance": provenance})


def test_each_document_of_the_web_counts_once_from_when_it_was_seen_last() -> None:
    chunks = (
        cited("page", "crawl", 30),
        cited("page", "crawl", 30),
        cited("shown", "search", 2),
        cited("note", "submission", 400),
        cited("file", "file", 400),
    )
    given = answer().answer.model_copy(update={"chunks": chunks})
    seconds = unseen_seconds(given, cast(PageMemory, Memory()), NOW)
    assert seconds == (3_600.0, 2 * 86_400.0)


def test_ages_are_counted_by_profile() -> None:
    def counted(profile: str) -> float:
        [family] = metrics.CITED_AGE_SECONDS.collect()
        found = (one for one in family.samples if one.name.endswith("_count") and one.labels == {"profile": profile})
        return sum(one.value for one in found)

    before = counted("marketing")
    ready = answer().model_copy(update={"profile": "marketing", "unseen_seconds": (5.0, 7.0)})
    count_events([Event.of(ready, run_id="run_1", corpus="docs")])
    assert counted("marketing") == before + 2
