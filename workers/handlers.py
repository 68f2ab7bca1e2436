"""The pipeline: one short function per event kind, and the table at the foot that is the architecture.

A handler loads what its event refers to, calls one domain function, stores what is large as a blob
and returns the next events. What it needs beside its event stands in its signature, each thing by its
name in `workers.context.Context`. Every handler may run twice; what makes that harmless stands in its
first line. None of them publishes, and none settles its own event: `workers.task` does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from contracts.budget import Spend
from contracts.document import DocumentBatch
from contracts.errors import BudgetExhausted, InvalidInput, NotFound, PolicyRefused, SluiceError
from contracts.event import Event, Gap
from contracts.gate import CoverageProbed, FeedbackGiven, GateRequested, RagDirectivesEvaluated
from contracts.index import AnswerDirected, AnswerReady, DocumentIndexed, SnapshotPublished
from contracts.ingest import (
    ChunksEmbedded,
    ChunksPartlyEmbedded,
    CrawlDirected,
    DocumentChunked,
    DocumentsRemoved,
    DocumentsSubmitted,
    ErasureDirected,
    ForgetDirected,
    PageCrawled,
    PageWithdrawn,
    SearchCompleted,
    SearchDirected,
)
from contracts.learning.judged_responses import ResponseJudgementDirected
from contracts.outcome import CostlyFailure, Done, Next, Outcome, Postponable, Retry
from gate.decide import decide, deciding_model
from gate.directives import make_crawl, make_directives, make_result_crawls
from gate.profile import choose_profile
from ingest.chunk.token_ids import embedding_texts
from ingest.circuit_breaker import PROVIDER_PAUSE_SECONDS, HostUnavailable
from ingest.crawl.budget_meter import BudgetMeter
from ingest.crawl.crawler import directions_from
from ingest.crawl.egress_context import egress_context
from ingest.search.search import SearchFailed
from ledger.learning.flags import flag_gap
from otel import metrics
from workers.runtime.event_counters import count_failed_search
from workers.runtime.negative_list import batch_without_forgotten, forgotten_page, refused_documents
from workers.steps.answer import answer_question
from workers.steps.chunk import chunk_documents
from workers.steps.documents import (
    brought_by,
    document_of_page,
    documents_of_snippets,
    first_crawled_at,
    record_page,
)
from workers.steps.egress_refusals import mark_refusals, refused
from workers.steps.embed import embed_next, load_chunks
from workers.steps.gaps import gap_of
from workers.steps.gate.control import choose_weights, read_control
from workers.steps.gate.judge import ask_judge
from workers.steps.gate.judge_response import is_sampled, judge_response
from workers.steps.gate.learned_gate import join_learned_gate
from workers.steps.gate.probe import probe_coverage
from workers.steps.trust.admit import admit
from workers.steps.trust.citation_ages import unseen_seconds
from workers.steps.trust.forget import entries_for, erase_leftovers, erase_quarantine, ids_meant, select_documents
from workers.steps.trust.inspect import inspect_batch, outdated
from workers.steps.trust.stale_answers import tell_stale_answers
from workers.steps.vector_codec import vectors_from_bytes
from workers.steps.withdraw import withdrawable, withdrawn_pages
from workers.wiring.inject import with_dependencies
from workers.wiring.limits import budget_of, policy_of
from workers.wiring.observers import utc_now

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from contracts.known_pages import PageMemory
    from contracts.trust import DocumentInspector
    from evaluation.chat_endpoint import ChatEndpoint
    from evaluation.ragas.bridge import RagasBridge
    from gate.directives import CrawlLimits
    from gate.profile import Profile
    from index.journal.document_facts import DocumentFacts
    from ingest.crawl.crawler import Crawler
    from ingest.egress.proxy import EgressProxy
    from ledger.ledger import Ledger
    from workers.context import Context
    from workers.runtime.blob_store import BlobStore
    from workers.runtime.flags import FlagReader
    from workers.runtime.gate_models import GateModels
    from workers.runtime.standing_defences import StandingDefences
    from workers.runtime.transient_pages import TransientPages
    from workers.settings import Settings
    from workers.wiring.corpora import CorpusReaders, CorpusWriters
    from workers.wiring.embedding import EmbeddingService
    from workers.wiring.searcher import Searcher
    from workers.wiring.snapshot_upload import Shipper

STILL_OPEN_SECONDS = 0.5
"""Until events of forgotten documents are looked for again: an event takes about as long."""

Handler = Callable[[Event, "Context"], Outcome | Postponable]


def on_gate_requested(
    event: Event,
    profiles: Mapping[str, Profile],
    embedding: EmbeddingService,
    readers: CorpusReaders,
    page_memory: PageMemory,
    settings: Settings,
    judge: ChatEndpoint | None,
    ledger: Ledger,
) -> Outcome:
    """Probe the local corpus. A read: a second run measures again."""
    request = event.body_as(GateRequested)
    profile = choose_profile(profiles, request.profile)

    def judged(probed: CoverageProbed, passages: Sequence[str]) -> tuple[CoverageProbed, Spend]:
        return ask_judge(probed, passages, request, profile, settings.gate, judge, event.run_id, ledger)

    probed, spend = probe_coverage(request, event.corpus, profile, embedding, readers, page_memory, judged)
    return Done((Next(probed),), spend=spend)


def on_coverage_probed(
    event: Event,
    ledger: Ledger,
    profiles: Mapping[str, Profile],
    blobs: BlobStore,
    settings: Settings,
    crawl_limits: CrawlLimits,
    standing_defences: StandingDefences,
    flags: FlagReader,
    former_profiles: Mapping[str, Profile],
    gate_models: GateModels,
) -> Outcome:
    """Decide, by the profile asked for or the one that the gate has stepped back to.

    The profile is kept under its hash, so that the decision can always be recomputed.
    """
    request = _cause_of(event, ledger).body_as(GateRequested)
    flags_off = flags.switched_off()
    wanted = choose_weights(choose_profile(profiles, request.profile), former_profiles, flags_off)
    steps_back = standing_defences.of(event.run_id, wanted)
    blobs.put(steps_back.profile.canonical_bytes())
    control = read_control(settings, flags_off, steps_back)
    control, model = join_learned_gate(control, request, event.run_id, ledger, gate_models, flags)
    decided = decide(
        request,
        event.body_as(CoverageProbed),
        steps_back.profile,
        policy=policy_of(settings),
        budget=budget_of(ledger.budget_left(event.run_id), settings),
        decided_at=event.occurred_at,
        control=control,
        model=model,
    )
    ordered = RagDirectivesEvaluated.of(request, decided, deciding_model(decided))
    return Done((Next(decided), Next(ordered), *make_directives(request, decided, crawl_limits)))


def _cause_of(event: Event, ledger: Ledger) -> Event:
    if event.cause_id is None:
        raise NotFound(f"event {event.id} has no cause")
    return ledger.event(event.cause_id)


def on_search_directed(
    event: Event, egress: EgressProxy, searcher: Searcher, crawl_limits: CrawlLimits, flags: FlagReader
) -> Outcome | Postponable:
    """Ask the search providers. Run twice it asks twice; only one of the answers is recorded."""
    directed = event.body_as(SearchDirected)
    if not flags.enabled_now("search"):
        return Done(gaps=(flag_gap("search", directed.query),))
    try:
        egress_grant = egress.open("search", run_id=event.run_id)
    except PolicyRefused as refusal:
        return Done(gaps=(gap_of(refusal, "search", directed.query),))
    with egress_grant, egress_context(egress_grant.url):
        outcome = _searched(directed, searcher, crawl_limits)
    report = egress_grant.report()
    mark_refusals(report)
    if not isinstance(outcome, SearchFailed):
        return replace(outcome, emits=(*outcome.emits, *refused(report)))
    count_failed_search(name for name, _ in outcome.reasons)
    is_shut_out = report.refusals and not report.hosts  # by our own rules: trying again cannot help
    if outcome.asked and not is_shut_out:
        raise outcome
    done = Done(refused(report), (gap_of(outcome, "search", directed.query),))
    return done if is_shut_out else Postponable(done, PROVIDER_PAUSE_SECONDS, str(outcome))


def _searched(directed: SearchDirected, searcher: Searcher, crawl_limits: CrawlLimits) -> Done | SearchFailed:
    """What the providers found, and the crawls of it; or that none of them answered."""
    try:
        answered = searcher.search(directed)
    except (PolicyRefused, BudgetExhausted, InvalidInput) as refusal:
        return Done(gaps=(gap_of(refusal, "search", directed.query),))
    except SearchFailed as failure:
        return failure
    completed = answered.model_copy(update={"keep_snippets": directed.crawl_pages == 0})
    gaps = tuple(
        Gap(stage="search", subject=directed.query, reason="search_incomplete", detail=shortfall)
        for shortfall in completed.shortfalls
    )
    if not completed.results:
        gaps += (Gap(stage="search", subject=directed.query, reason="nothing_found"),)
    spend = Spend(usd=completed.cost_usd, milliseconds=completed.elapsed_ms)
    return Done((Next(completed), *make_result_crawls(directed, completed, crawl_limits.render)), gaps, spend)


def on_search_completed(
    event: Event,
    settings: Settings,
    tokenizer: Tokenizer,
    embedding: EmbeddingService,
    ledger: Ledger,
    blobs: BlobStore,
) -> Outcome:
    """Make documents of the snippets, where no page will be crawled. Ids follow from URL and content."""
    completed = event.body_as(SearchCompleted)
    documents = documents_of_snippets(completed, event.run_id) if completed.keep_snippets else ()
    return chunk_documents(documents, event, settings.chunk, tokenizer, embedding, ledger, blobs)


def on_crawl_directed(
    event: Event,
    crawler: Crawler,
    page_memory: PageMemory,
    readers: CorpusReaders,
    ledger: Ledger,
    blobs: BlobStore,
    transient_pages: TransientPages,
    settings: Settings,
    flags: FlagReader,
) -> Outcome | Postponable:
    """Fetch one page. Run twice it fetches twice; the run's dedupe key keeps one event per URL.

    A page that may no longer be in the index is withdrawn from it.
    """
    directed = event.body_as(CrawlDirected)
    meter = BudgetMeter(directed.allowance)
    if not flags.enabled_now("crawl"):
        return Done(gaps=(flag_gap("crawl", directed.url),))
    if gap := forgotten_page(directed.url, event, ledger.forgotten):
        return Done(gaps=(gap,))
    try:
        page = crawler.crawl(directed, meter, corpus=event.corpus, run_id=event.run_id)
        if gap := forgotten_page(page.final_url, event, ledger.forgotten):
            return Done(refused(meter.egress), (gap,), meter.spend)
        crawled = record_page(page, event, page_memory, blobs, transient_pages)
    except (PolicyRefused, NotFound, InvalidInput, BudgetExhausted, HostUnavailable) as refusal:
        without_page = _not_crawled(refusal, event, meter, readers, page_memory)
        if isinstance(refusal, HostUnavailable):
            return Postponable(without_page, settings.crawl.breaker_reset_seconds, str(refusal))
        return without_page
    except Exception as error:
        raise CostlyFailure(meter.spend) from error
    finally:
        mark_refusals(meter.egress)
    children = map(make_crawl, directions_from(page.links, directed, meter.spend, page_url=page.final_url))
    return Done((Next(crawled), *children, *refused(meter.egress)), spend=meter.spend)


def _not_crawled(
    refusal: SluiceError, event: Event, meter: BudgetMeter, readers: CorpusReaders, page_memory: PageMemory
) -> Done:
    """A gap; and where the index holds the page although it no longer may, that it is to be withdrawn."""
    try:
        withdrawn = withdrawn_pages(refusal, event.corpus, utc_now(), readers, page_memory)
    except Exception as error:
        raise CostlyFailure(meter.spend) from error
    gap = gap_of(refusal, "crawl", event.body_as(CrawlDirected).url)
    return Done((*map(Next, withdrawn), *refused(meter.egress)), (gap,), meter.spend)


def on_page_crawled(
    event: Event,
    settings: Settings,
    tokenizer: Tokenizer,
    embedding: EmbeddingService,
    ledger: Ledger,
    blobs: BlobStore,
    transient_pages: TransientPages,
) -> Outcome:
    """Extract and chunk a page. Chunk ids follow from URL and content."""
    page = event.body_as(PageCrawled)
    unarchived_by = page.unarchived_by
    bodies = transient_pages.of_crawl(event.run_id, unarchived_by) if unarchived_by else blobs
    document = document_of_page(page, bodies.get(page.blob), event.run_id)
    return chunk_documents(
        (document,),
        event,
        settings=settings.chunk,
        tokenizer=tokenizer,
        embedding=embedding,
        ledger=ledger,
        blobs=blobs,
    )


def on_documents_submitted(
    event: Event,
    settings: Settings,
    tokenizer: Tokenizer,
    embedding: EmbeddingService,
    ledger: Ledger,
    blobs: BlobStore,
) -> Outcome:
    """Extract and chunk what was handed in. Chunk ids follow from source and content."""
    submitted = event.body_as(DocumentsSubmitted)
    batch = DocumentBatch.model_validate_json(blobs.get(submitted.documents))
    documents = tuple(brought_by(event.run_id, document) for document in batch.documents)
    return chunk_documents(documents, event, settings.chunk, tokenizer, embedding, ledger, blobs)


def on_document_chunked(
    event: Event,
    inspector: DocumentInspector,
    readers: CorpusReaders,
    embedding: EmbeddingService,
    ledger: Ledger,
    blobs: BlobStore,
) -> Outcome:
    """Inspect a batch and embed its first chunks. A chunk is held once; the cache makes a second run cheap.

    What the index holds of a document of which nothing is let through is removed.
    """
    chunked = event.body_as(DocumentChunked)
    inspected = inspect_batch(chunked.chunks_blob, event, inspector, ledger.quarantine, ledger.forgotten, blobs)
    gone = outdated(inspected.emptied, event.corpus, readers)
    removal = (Next(DocumentsRemoved(document_ids=gone)),) if gone else ()
    if not inspected.batch.documents:
        return Done(removal, inspected.gaps)
    fingerprint = embedding.fingerprint(event.corpus)
    begun = ChunksPartlyEmbedded(chunks_blob=inspected.blob, model_fingerprint=fingerprint)
    embedded = embed_next(begun, inspected.batch, event, readers, embedding, ledger, blobs)
    return replace(embedded, emits=(*embedded.emits, *removal), gaps=inspected.gaps)


def on_chunks_partly_embedded(
    event: Event, readers: CorpusReaders, embedding: EmbeddingService, ledger: Ledger, blobs: BlobStore
) -> Outcome:
    """Embed the next chunks of a batch, by the model of those before. Vectors follow from the texts."""
    begun = event.body_as(ChunksPartlyEmbedded)
    return embed_next(begun, load_chunks(begun.chunks_blob, blobs), event, readers, embedding, ledger, blobs)


def on_chunks_embedded(
    event: Event,
    writers: CorpusWriters,
    embedding: EmbeddingService,
    ledger: Ledger,
    page_memory: PageMemory,
    blobs: BlobStore,
) -> Outcome:
    """Append to the journal, which takes an equal document version only once.

    A submission that may not replace what has its id is left out and told. Where the corpus was given another model
    since the vectors were made, the embed stage makes them again.
    """
    embedded = event.body_as(ChunksEmbedded)
    batch = load_chunks(embedded.chunks_blob, blobs)
    vectors = vectors_from_bytes(blobs.get(embedded.vectors_blob), embedded.dimension)
    with writers.writing(event.corpus) as writer:
        if writer.model and writer.model[0] != embedded.model_fingerprint:
            anew = ChunksPartlyEmbedded(chunks_blob=embedded.chunks_blob, model_fingerprint=writer.model[0])
            reserve = embedding.reserve(embedding_texts(batch), event.corpus, ledger.budget_left(event.run_id))
            return Done((Next(anew, reserve=reserve),))
        refusals = refused_documents(batch, event.corpus, ledger.forgotten)
        kept = [chunk.document_id not in refusals for document in batch.documents for chunk in document.chunks]
        batch, gaps = batch_without_forgotten(batch, "index", refusals)
        if not batch.documents:
            return Done(gaps=gaps)
        admitted = admit(batch, vectors[kept], writer)
        offset = writer.append(admitted.batch, admitted.vectors, embedded.model_fingerprint)
        if admitted.superseded:
            offset = max(offset, writer.remove(admitted.superseded))
    checksums = {document.document_id: document.checksum for document in admitted.batch.documents}
    page_memory.confirm(event.corpus, checksums, run_id=event.run_id)
    ledger.uncheck_citations(event.corpus, admitted.superseded, offset)
    ids = tuple(checksums)
    indexed = DocumentIndexed(
        document_ids=ids,
        chunk_count=len(admitted.vectors),
        journal_offset=offset,
        crawled_at=first_crawled_at(admitted.batch),
    )
    return Done((Next(indexed),), (*gaps, *admitted.gaps))


def on_forget_directed(
    event: Event, ledger: Ledger, readers: CorpusReaders, writers: CorpusWriters, blobs: BlobStore
) -> Outcome:
    """Find what is to be forgotten, and direct its removal by ids: so a second run of what follows means the same."""
    directed = event.body_as(ForgetDirected)
    found: list[DocumentFacts] = []
    if readers.exists(event.corpus):
        with writers.writing(event.corpus) as writer:
            found = select_documents(directed.selection, writer)
    if directed.keep_out and directed.selection.named is None:
        ledger.forgotten.add(event.corpus, entries_for(found), directed.operator, directed.note)
    ids = ids_meant(directed.selection, found)
    erase_quarantine(event.corpus, ids, directed.selection, ledger, blobs)
    if not readers.exists(event.corpus):
        return Done((Next(ErasureDirected(document_ids=ids, selection=directed.selection)),))
    return Done((Next(DocumentsRemoved(document_ids=ids, erase=True, selection=directed.selection)),))


def on_erasure_directed(event: Event, ledger: Ledger, blobs: BlobStore) -> Outcome:
    """Remove known pages and blobs of what is forgotten, once no event of theirs is under way. Twice does no harm."""
    directed = event.body_as(ErasureDirected)
    is_open, gaps = erase_leftovers(event.corpus, directed.document_ids, directed.selection, ledger, blobs)
    if is_open:
        return Retry(STILL_OPEN_SECONDS, "events of forgotten documents are still under way", counts=False)
    return Done(gaps=gaps)


def on_documents_removed(event: Event, writers: CorpusWriters, page_memory: PageMemory) -> Outcome:
    """Append tombstones to the journal. A second removal of the same ids changes nothing."""
    removed = event.body_as(DocumentsRemoved)
    ids = removed.document_ids
    with writers.writing(event.corpus) as writer:
        offset = writer.remove(ids)
    indexed = DocumentIndexed(document_ids=ids, chunk_count=0, journal_offset=offset, erase=removed.erase)
    if removed.selection is not None:  # the erasure forgets the pages, as they lead to their blobs
        return Done((Next(indexed), Next(ErasureDirected(document_ids=ids, selection=removed.selection))))
    page_memory.forget(event.corpus, ids)  # not before: a page that is indexed meanwhile would stay remembered
    return Done((Next(indexed),))


def on_page_withdrawn(
    event: Event, ledger: Ledger, readers: CorpusReaders, writers: CorpusWriters, page_memory: PageMemory
) -> Outcome:
    """Append tombstones for what the index still holds of the page. A second time there is nothing left of it.

    What answers cite of it is unchecked both times: the first one may have been killed behind the tombstones.
    """
    page = event.body_as(PageWithdrawn)
    going = withdrawable(page.document_ids, event.corpus, page.seen_at, readers, page_memory)
    with writers.writing(event.corpus) as writer:
        offset = writer.remove(going)
    ledger.uncheck_citations(event.corpus, page.document_ids, offset)
    page_memory.withdraw(event.corpus, page.document_ids, by=page.by, at=page.seen_at)
    return Done((Next(DocumentIndexed(document_ids=going, chunk_count=0, journal_offset=offset)),))


def on_document_indexed(
    event: Event, ledger: Ledger, readers: CorpusReaders, writers: CorpusWriters, shipper: Shipper
) -> Outcome:
    """Publish what the journal holds; where the current generation covers it, only say which that is.

    How long crawled pages took until they are found is counted here, and again in a second run. Where something is to
    be erased, nothing but the new generation is left, here and in the object store. Answers that cite what is no longer
    so are told, each once.
    """
    indexed = event.body_as(DocumentIndexed)
    with metrics.INDEX_PUBLISH_SECONDS.time(), writers.writing(event.corpus) as writer:
        generation = writer.erase() if indexed.erase else writer.publish()
    if indexed.crawled_at:
        metrics.CRAWL_INGEST_SECONDS.observe(max(0.0, (utc_now() - indexed.crawled_at).total_seconds()))
    shipper.ship(event.corpus, generation.name, alone=indexed.erase)
    is_cited = ledger.uncheck_citations(event.corpus, indexed.document_ids, indexed.journal_offset)
    if is_cited or not indexed.document_ids:
        tell_stale_answers(event.corpus, ledger, readers, utc_now(), covering=indexed.journal_offset)
    published = SnapshotPublished(
        generation=generation.name,
        journal_offset=generation.journal_offset,
        document_count=generation.document_count,
        chunk_count=generation.chunk_count,
    )
    return Done((Next(published, f"generation:{generation.name}"),))


def on_answer_directed(
    event: Event,
    ledger: Ledger,
    readers: CorpusReaders,
    embedding: EmbeddingService,
    tokenizer: Tokenizer,
    settings: Settings,
    page_memory: PageMemory,
    profiles: Mapping[str, Profile],
) -> Outcome:
    """Answer the run's question with what is there, naming what is not. A read."""
    directed = event.body_as(AnswerDirected)
    started = time.perf_counter()
    answered = answer_question(
        event.run_id,
        event.corpus,
        directed,
        ledger=ledger,
        readers=readers,
        embedding=embedding,
        tokenizer=tokenizer,
        rerank=settings.rerank,
        trust=settings.trust,
        profiles=profiles,
    )
    duration_ms = (time.perf_counter() - started) * 1e3
    ready = AnswerReady(
        answer=answered.answer,
        duration_ms=duration_ms,
        prompt=answered.prompt,
        profile=answered.profile,
        unseen_seconds=unseen_seconds(answered.answer, page_memory, utc_now()),
    )
    return Done((Next(ready),), answered.gaps, answered.spend)


def on_feedback_given(event: Event, ledger: Ledger, flags: FlagReader, settings: Settings) -> Outcome:
    """Weigh feedback against the answer that it is about. Recorded by its event; metrics may count twice."""
    feedback = event.body_as(FeedbackGiven)
    answer = ledger.run(event.run_id).answer
    metrics.FEEDBACK.labels(feedback.outcome).inc()
    if answer and answer.chunks:
        used = {chunk.chunk_id for chunk in answer.chunks} & set(feedback.chunk_ids_used)
        metrics.PRECISION_AT_K.observe(len(used) / len(answer.chunks))
    is_judged = feedback.response and is_sampled(event.run_id, settings.judge.sample) and flags.enabled("ragas")
    return Done((Next(ResponseJudgementDirected()),) if is_judged else ())


def on_response_judgement_directed(event: Event, ledger: Ledger, ragas: RagasBridge) -> Outcome:
    """Judge what an agent made of an answer. Run twice, only one of the judgements is recorded."""
    answer = ledger.run(event.run_id).answer
    if answer is None:
        return Done()
    return Done((Next(judge_response(_cause_of(event, ledger).body_as(FeedbackGiven), answer, ragas)),))


PIPELINE: dict[str, Callable[..., Outcome | Postponable]] = {
    "GateRequested": on_gate_requested,
    "CoverageProbed": on_coverage_probed,
    "SearchDirected": on_search_directed,
    "SearchCompleted": on_search_completed,
    "CrawlDirected": on_crawl_directed,
    "PageCrawled": on_page_crawled,
    "DocumentsSubmitted": on_documents_submitted,
    "DocumentChunked": on_document_chunked,
    "ChunksPartlyEmbedded": on_chunks_partly_embedded,
    "ChunksEmbedded": on_chunks_embedded,
    "ForgetDirected": on_forget_directed,
    "DocumentsRemoved": on_documents_removed,
    "ErasureDirected": on_erasure_directed,
    "PageWithdrawn": on_page_withdrawn,
    "DocumentIndexed": on_document_indexed,
    "AnswerDirected": on_answer_directed,
    "FeedbackGiven": on_feedback_given,
    "ResponseJudgementDirected": on_response_judgement_directed,
}

HANDLERS: dict[str, Handler] = {kind: with_dependencies(handler) for kind, handler in PIPELINE.items()}
"""Each handler with what its signature names, from the context of the process that runs it."""
