"""Ages of the text that an answer cites, with and without the run's own crawl.

*With* is the mean over the cited documents of the web of the time since each was read last or seen to be as it was,
when the answer was given. *Without* is the same mean, where a document that the run itself read, or found unchanged,
is replaced by what the gate's probe had before: that document as it was then, where the probe found it; else the
probe's best hit that stands for none yet. Where the probe has no more, the document is left out. An answer that owes
the run's own crawl nothing has both alike: a gain of nought.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple

from sluice.contracts.gate import ProbeHit
from sluice.contracts.index import AnswerReady


class CitedAges(NamedTuple):
    """Mean ages in seconds. None where no cited document is of the web, or where without the crawl there was none."""

    with_crawl: float | None = None
    without_crawl: float | None = None


def own_documents(ready: AnswerReady, run_id: str, unchanged: Collection[str]) -> frozenset[str]:
    """The cited documents that the run itself brought, or saw to be `unchanged` (ids of documents)."""
    return frozenset(
        chunk.document_id
        for chunk in ready.answer.chunks
        if chunk.provenance.run_id == run_id or chunk.document_id in unchanged
    )


def cited_ages(
    ready: AnswerReady, own: Collection[str], probed: Sequence[ProbeHit], answered_at: datetime
) -> CitedAges:
    """The ages of an answer; `own` are the documents of `own_documents`, `probed` the probe's hits, best first."""
    ages = _ages(ready)
    if not ages:
        return CitedAges()
    before = {hit.document_id: (answered_at - hit.fetched_at).total_seconds() for hit in reversed(probed) if hit.url}
    spare = [document_id for document_id in dict.fromkeys(hit.document_id for hit in probed) if document_id in before]
    free = iter([document_id for document_id in spare if document_id not in ages])
    without = []
    for document_id, age in ages.items():
        if document_id not in own:
            without.append(age)
        elif (stand_in := document_id if document_id in before else next(free, None)) is not None:
            without.append(max(0.0, before[stand_in]))
    return CitedAges(_mean(list(ages.values())), _mean(without))


def _ages(ready: AnswerReady) -> dict[str, float]:
    """The age of each cited document of the web, as the answer tells it; older answers do not."""
    documents = dict.fromkeys(
        chunk.document_id for chunk in ready.answer.chunks if chunk.provenance.source in ("crawl", "search")
    )
    if len(documents) != len(ready.unseen_seconds):
        return {}
    return dict(zip(documents, ready.unseen_seconds, strict=True))


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
