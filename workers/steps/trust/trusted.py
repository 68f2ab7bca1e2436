"""What an answer may show of what was found: `apply_trust` takes one step after another over the retrieval.

Verdicts, scores and spans were computed when the texts were ingested; here they are only read.
"""

from __future__ import annotations

from collections.abc import Callable

from sluice.contracts.retrieval import Query, Retrieval, RetrievalMetadata, RetrievedChunk
from sluice.contracts.trust import Verdict
from sluice.index.search.nosnippet import hide_nosnippet_texts
from sluice.otel import metrics
from sluice.trust.confidence import Asked, judge
from sluice.trust.gates import SOURCE_TRUST, check_poisoning, check_source_trust
from sluice.trust.private.finder import build_finder
from sluice.trust.private.mask import mask_retrieval
from sluice.trust.settings import TrustSettings
from sluice.trust.snippets import shorten_snippets
from sluice.trust.top_passages import TopPassages
from sluice.workers.steps.trust.floods import mark_floods
from sluice.workers.steps.trust.graph_paths import hide_doubtful_paths


def apply_trust(
    found: Retrieval,
    query: Query,
    settings: TrustSettings,
    asked: Asked | None = None,
    top_passages: TopPassages | None = None,
) -> Retrieval:
    """What may be served of a retrieval, marked and measured. Its confidence is not judged without `asked`.

    `top_passages` remembers what the latest questions to the corpus found first.

    Blocked passages are dropped, doubtful ones marked, texts that may not be shown are left out; the gates over the
    whole retrieval come last, as they judge what is served.
    """
    found = drop_blocked(found)
    found = mark_floods(found, query.query, settings, top_passages)
    if asked:
        found = drop_unlikely(judge(found, asked), query.confidence_floor if asked.may_drop else None)
    found = hide_doubtful_paths(found, settings)
    found = hide_nosnippet_texts(found)
    found = mask_private(found, settings)
    found = shorten_snippets(found, settings.snippet_licences)  # behind the masks: a cut never leaves half a secret
    return check_gates(found)


def drop_blocked(found: Retrieval) -> Retrieval:
    """The retrieval without blocked chunks, which are counted in `guard_dropped` with those that the index left out."""
    served = keep_chunks(found, lambda chunk: chunk.inspection is None or chunk.inspection.verdict != Verdict.BLOCKED)
    dropped = len(found.chunks) - len(served.chunks)
    if not dropped:
        return found
    metadata = served.metadata.model_copy(update={"guard_dropped": found.metadata.guard_dropped + dropped})
    return served.model_copy(update={"metadata": metadata})


def drop_unlikely(found: Retrieval, floor: float | None) -> Retrieval:
    """The retrieval without the passages whose confidence is below the floor; None keeps them all."""
    if floor is None:
        return found
    kept = keep_chunks(found, lambda chunk: chunk.confidence is None or chunk.confidence >= floor)
    dropped = len(found.chunks) - len(kept.chunks)
    return kept.model_copy(update={"metadata": kept.metadata.model_copy(update={"confidence_dropped": dropped})})


def mask_private(found: Retrieval, settings: TrustSettings) -> Retrieval:
    """The retrieval with a placeholder for each value of the kinds that the settings name; counted, never kept."""
    shown, masked = mask_retrieval(found, settings.mask, build_finder(settings))
    for kind, count in masked.items():
        metrics.MASKED.labels(kind).inc(count)
    return shown


def check_gates(found: Retrieval) -> Retrieval:
    """The retrieval with the outcome of the gates I and P, and its trust scores in the order of its chunks."""
    by_chunk = {score.chunk_id: score for score in found.metadata.trust_scores}
    scores = tuple(by_chunk[chunk.chunk_id] for chunk in found.chunks if chunk.chunk_id in by_chunk)
    checks = check_source_trust(scores), check_poisoning(found.chunks, found.metadata.guard_dropped)
    metadata = found.metadata.model_copy(update={"trust_scores": scores, "checks": checks})
    return found.model_copy(update={"metadata": metadata})


def count_gates(metadata: RetrievalMetadata) -> None:
    """Add the outcome of a retrieval's gates to the metrics."""
    for check in metadata.checks:
        metrics.RETRIEVAL_GATES.labels(check.id, "passed" if check.passed else "failed").inc()
        if check.id == SOURCE_TRUST and metadata.trust_scores:
            metrics.SOURCE_TRUST.observe(check.value)
    metrics.GUARD_DROPPED.inc(metadata.guard_dropped)


def keep_chunks(found: Retrieval, keep: Callable[[RetrievedChunk], bool]) -> Retrieval:
    """The retrieval with only the chunks that `keep` admits, and their trust scores; ranks are given anew."""
    kept = [chunk for chunk in found.chunks if keep(chunk)]
    if len(kept) == len(found.chunks):
        return found
    ids = {chunk.chunk_id for chunk in kept}
    scores = tuple(score for score in found.metadata.trust_scores if score.chunk_id in ids)
    return found.model_copy(
        update={
            "chunks": tuple(chunk.model_copy(update={"rank": rank}) for rank, chunk in enumerate(kept, start=1)),
            "metadata": found.metadata.model_copy(update={"trust_scores": scores}),
        }
    )
