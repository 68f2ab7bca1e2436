"""The pipeline: one short function per event kind, and the table at the foot that is the architecture.

A handler loads what its event refers to, calls one domain function, stores what is large as a blob
and returns the next events. Every handler may run twice; what makes that harmless stands in its
first line. None of them publishes, and none settles its own event: `workers.task` does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from contracts.budget import Spend
from contracts.document import ChunkBatch, Document, DocumentBatch, sha256_text
from contracts.errors import BudgetExhausted, InvalidInput, NotFound, PolicyRefused, SluiceError
from contracts.event import Body, Event, Gap
from contracts.gate import CoverageProbed, FeedbackGiven, GateRequested
from contracts.index import AnswerDirected, AnswerReady, DocumentIndexed, SnapshotPublished
from contracts.ingest import (
    ChunkFact,
    ChunksEmbedded,
    CrawlDirected,
    DocumentChunked,
    DocumentsRemoved,
    DocumentsSubmitted,
    PageCrawled,
    PageWithdrawn,
    SearchCompleted,
    SearchDirected,
)
from contracts.outcome import CostlyFailure, Done, Next, Outcome, Postponable
from gate.budget import within
from gate.decide import decide
from gate.directives import crawl_of, crawls_of_results, directives
from ingest.chunk.chunk import Tokenized, chunk_and_tokenize
from ingest.chunk.token_ids import chunk_batch, embedding_texts, tokenized_texts
from ingest.circuit_breaker import HostUnavailable
from ingest.crawl.budget_meter import BudgetMeter
from ingest.crawl.crawler import CrawledPage, UnchangedPage, directions_from
from ingest.crawl.egress_context import egress_context
from ingest.embed.tokens import tokenizer_sha256
from ingest.extract.extract import extract_document
from ingest.search.search import SearchFailed, search
from otel import metrics
from workers.context import Context
from workers.runtime.event_counters import count_failed_search
from workers.runtime.heartbeat import check_cancelled
from workers.steps.answer import answer_question
from workers.steps.documents import document_of_page, documents_of_snippets, remembered
from workers.steps.egress_refusals import mark_refusals, refused
from workers.steps.probe import probe_coverage
from workers.steps.vector_codec import vectors_from_bytes, vectors_to_bytes
from workers.steps.withdraw import withdrawable, withdrawn_pages
from workers.wiring.observers import utc_now

Handler = Callable[[Event, Context], Outcome | Postponable]


def on_gate_requested(event: Event, context: Context) -> Outcome:
    """Probe the local corpus. A read: a second run measures again."""
    request = event.body_as(GateRequested)
    probed, spend = probe_coverage(request, event.corpus, context)
    return Done((Next(probed),), spend=spend)


def on_coverage_probed(event: Event, context: Context) -> Outcome:
    """Decide. Pure; the profile is kept under its hash, so that the decision can always be recomputed."""
    request = context.cause_of(event).body_as(GateRequested)
    profile = context.profile(request.profile)
    context.blobs.put(profile.canonical_bytes())
    decided = decide(
        request,
        event.body_as(CoverageProbed),
        profile,
        policy=context.policy,
        budget=context.budget_state(event.run_id),
        decided_at=event.occurred_at,
    )
    return Done((Next(decided), *directives(request, decided, context.crawl_limits)))


def on_search_directed(event: Event, context: Context) -> Outcome | Postponable:
    """Ask the search providers. Run twice it asks twice; only one of the answers is recorded."""
    directed = event.body_as(SearchDirected)
    try:
        egress_grant = context.egress.open("search", run_id=event.run_id)
    except PolicyRefused as refusal:
        return Done(gaps=(gap_of(refusal, "search", directed.query),))
    with egress_grant, egress_context(egress_grant.url):
        outcome = _searched(directed, context)
    report = egress_grant.report()
    mark_refusals(report)
    if not isinstance(outcome, SearchFailed):
        return replace(outcome, emits=(*outcome.emits, *refused(report)))
    count_failed_search(name for name, _ in outcome.reasons)
    is_shut_out = report.refusals and not report.hosts  # by our own rules: trying again cannot help
    if outcome.asked and not is_shut_out:
        raise outcome
    done = Done(refused(report), (gap_of(outcome, "search", directed.query),))
    return done if is_shut_out else Postponable(done, context.settings.search.breaker_reset_seconds, str(outcome))


def _searched(directed: SearchDirected, context: Context) -> Done | SearchFailed:
    """What the providers found, and the crawls of it; or that none of them answered."""
    try:
        answered = search(
            directed,
            context.search_providers,
            quota=context.search_quota,
            settings=context.settings.search,
            clock=utc_now,
            check_cancelled=check_cancelled,
            empty=context.empty_searches,
        )
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
    return Done((Next(completed), *crawls_of_results(directed, completed, context.crawl_limits.render)), gaps, spend)


def on_search_completed(event: Event, context: Context) -> Outcome:
    """Make documents of the snippets, where no page will be crawled. Ids follow from URL and content."""
    completed = event.body_as(SearchCompleted)
    documents = documents_of_snippets(completed, event.run_id) if completed.keep_snippets else ()
    return _chunk(documents, event, context)


def on_crawl_directed(event: Event, context: Context) -> Outcome | Postponable:
    """Fetch one page. Run twice it fetches twice; the run's dedupe key keeps one event per URL.

    A page that may no longer be in the index is withdrawn from it.
    """
    directed = event.body_as(CrawlDirected)
    meter = BudgetMeter(directed.allowance)
    try:
        page = context.crawler.crawl(directed, meter, corpus=event.corpus, run_id=event.run_id)
        crawled = _recorded(page, event, context)
    except (PolicyRefused, NotFound, InvalidInput, BudgetExhausted, HostUnavailable) as refusal:
        return _not_crawled(refusal, event, meter, context)
    except Exception as error:
        raise CostlyFailure(meter.spend) from error
    finally:
        mark_refusals(meter.egress)
    children = map(crawl_of, directions_from(page.links, directed, meter.spend, page_url=page.final_url))
    return Done((Next(crawled), *children, *refused(meter.egress)), spend=meter.spend)


def _not_crawled(refusal: SluiceError, event: Event, meter: BudgetMeter, context: Context) -> Outcome | Postponable:
    """A gap; and where the index holds the page although it no longer may, that it is to be withdrawn."""
    try:
        withdrawn = withdrawn_pages(refusal, event.corpus, utc_now(), context)
    except Exception as error:
        raise CostlyFailure(meter.spend) from error
    gap = gap_of(refusal, "crawl", event.body_as(CrawlDirected).url)
    done = Done((*map(Next, withdrawn), *refused(meter.egress)), (gap,), meter.spend)
    if isinstance(refusal, HostUnavailable):
        return Postponable(done, context.settings.crawl.breaker_reset_seconds, str(refusal))
    return done


def _recorded(page: CrawledPage | UnchangedPage, event: Event, context: Context) -> Body:
    """The event of a page, which is remembered, so that the next crawl need not read it again."""
    if isinstance(page, UnchangedPage):
        context.page_memory.seen_again(event.corpus, page.url, page.fetched_at)
        return page.as_event()
    picture = context.blobs.put(page.screenshot) if page.screenshot else None
    bodies = context.transient_pages.of_crawl(event.run_id, event.id) if page.noarchive else context.blobs
    crawled = page.as_event(bodies.put(page.body), picture, unarchived_by=event.id if page.noarchive else None)
    context.page_memory.remember(event.corpus, remembered(page, crawled.blob), run_id=event.run_id)
    return crawled


def on_page_crawled(event: Event, context: Context) -> Outcome:
    """Extract and chunk a page. Chunk ids follow from URL and content."""
    page = event.body_as(PageCrawled)
    unarchived_by = page.unarchived_by
    bodies = context.transient_pages.of_crawl(event.run_id, unarchived_by) if unarchived_by else context.blobs
    return _chunk((document_of_page(page, bodies.get(page.blob), event.run_id),), event, context)


def on_documents_submitted(event: Event, context: Context) -> Outcome:
    """Chunk what was handed in. Chunk ids follow from source and content."""
    submitted = event.body_as(DocumentsSubmitted)
    batch = DocumentBatch.model_validate_json(context.blobs.get(submitted.documents))
    return _chunk(batch.documents, event, context)


def on_document_chunked(event: Event, context: Context) -> Outcome:
    """Embed every chunk of the batch. Vectors follow from the texts; the cache makes a second run cheap."""
    chunked = event.body_as(DocumentChunked)
    batch = context.chunk_batch(chunked.chunks_blob)
    texts = embedding_texts(batch)
    started = time.perf_counter()
    embedded = context.embed(texts, event.corpus)
    metrics.EMBEDDING_SECONDS.observe(time.perf_counter() - started)
    metrics.EMBEDDED_TOKENS.inc(embedded.tokens)
    body = ChunksEmbedded(
        chunks_blob=chunked.chunks_blob,
        vectors_blob=context.blobs.put(vectors_to_bytes(embedded.vectors)),
        model_fingerprint=embedded.fingerprint,
        dimension=embedded.vectors.shape[1],
        chunk_count=len(texts),
        cache_hits=embedded.cache_hits,
        cost_usd=embedded.cost_usd,
    )
    return Done((Next(body),), spend=embedded.spend)


def on_chunks_embedded(event: Event, context: Context) -> Outcome:
    """Append to the journal, which takes an equal document version only once.

    Where the corpus was given another model since the vectors were made, they are made again.
    """
    embedded = event.body_as(ChunksEmbedded)
    batch = context.chunk_batch(embedded.chunks_blob)
    vectors = vectors_from_bytes(context.blobs.get(embedded.vectors_blob), embedded.dimension)
    fingerprint, spend = embedded.model_fingerprint, Spend()
    try:
        with context.writing(event.corpus) as writer:
            if writer.model and writer.model[0] != fingerprint:
                again = context.embedder.embed(embedding_texts(batch), writer.model[0])
                vectors, fingerprint, spend = again.vectors, again.fingerprint, again.spend
                metrics.EMBEDDED_TOKENS.inc(again.tokens)
            offset = writer.append(batch, vectors, fingerprint)
    except Exception as error:
        if spend == Spend():
            raise
        raise CostlyFailure(spend) from error
    ids = tuple(document.document_id for document in batch.documents)
    context.page_memory.confirm(event.corpus, ids, run_id=event.run_id)
    indexed = DocumentIndexed(document_ids=ids, chunk_count=len(vectors), journal_offset=offset)
    return Done((Next(indexed),), spend=spend)


def on_documents_removed(event: Event, context: Context) -> Outcome:
    """Append tombstones to the journal. A second removal of the same ids changes nothing."""
    ids = event.body_as(DocumentsRemoved).document_ids
    with context.writing(event.corpus) as writer:
        offset = writer.remove(ids)
    context.page_memory.forget(event.corpus, ids)  # not before: a page that is indexed meanwhile would stay remembered
    return Done((Next(DocumentIndexed(document_ids=ids, chunk_count=0, journal_offset=offset)),))


def on_page_withdrawn(event: Event, context: Context) -> Outcome:
    """Append tombstones for what the index still holds of the page. A second time there is nothing left of it."""
    page = event.body_as(PageWithdrawn)
    going = withdrawable(page.document_ids, event.corpus, page.seen_at, context)
    with context.writing(event.corpus) as writer:
        offset = writer.remove(going)
    context.page_memory.withdraw(event.corpus, page.document_ids, by=page.by, at=page.seen_at)
    return Done((Next(DocumentIndexed(document_ids=going, chunk_count=0, journal_offset=offset)),))


def on_document_indexed(event: Event, context: Context) -> Outcome:
    """Publish what the journal holds; where the current generation covers it, only say which that is."""
    with metrics.INDEX_PUBLISH_SECONDS.time(), context.writing(event.corpus) as writer:
        generation = writer.publish()
    context.shipper.ship(event.corpus, generation.name)
    published = SnapshotPublished(
        generation=generation.name,
        journal_offset=generation.journal_offset,
        document_count=generation.document_count,
        chunk_count=generation.chunk_count,
    )
    return Done((Next(published, f"generation:{generation.name}"),))


def on_answer_directed(event: Event, context: Context) -> Outcome:
    """Answer the run's question with what is there, naming what is not. A read."""
    directed = event.body_as(AnswerDirected)
    started = time.perf_counter()
    answered = answer_question(event.run_id, event.corpus, directed, context)
    ready = AnswerReady(answer=answered.answer, duration_ms=(time.perf_counter() - started) * 1e3)
    return Done((Next(ready),), answered.gaps, answered.spend)


def on_feedback_given(event: Event, context: Context) -> Outcome:
    """Weigh feedback against the answer that it is about. Recorded by its event; metrics may count twice."""
    feedback = event.body_as(FeedbackGiven)
    answer = context.ledger.run(event.run_id).answer
    metrics.FEEDBACK.labels(feedback.outcome).inc()
    if answer and answer.chunks:
        used = {chunk.chunk_id for chunk in answer.chunks} & set(feedback.chunk_ids_used)
        metrics.ANSWER_PRECISION.observe(len(used) / len(answer.chunks))
    return Done()


def gap_of(refusal: SluiceError, stage: str, subject: str) -> Gap:
    """What a refusal leaves out of the answer."""
    if isinstance(refusal, PolicyRefused):
        return Gap(
            stage=stage, subject=subject, reason=refusal.rule, detail=refusal.problem, lifted_by=refusal.lifted_by
        )
    return Gap(stage=stage, subject=subject, reason=refusal.code, detail=str(refusal))


def _chunk(documents: Sequence[Document], event: Event, context: Context) -> Outcome:
    """Extract and split what can be read, and hand on what its run can pay to embed; a gap for each other document."""
    chunked: list[Tokenized] = []
    gaps: list[Gap] = []
    for document in documents:
        check_cancelled()
        try:
            extracted = extract_document(document)
            result = chunk_and_tokenize(document, extracted, context.settings.chunk, context.tokenizer)
        except (InvalidInput, PolicyRefused) as refusal:
            gaps.append(gap_of(refusal, "chunk", document.source))
            continue
        if result.document.chunks:
            chunked.append(result)
        else:
            gaps.append(Gap(stage="chunk", subject=document.source, reason="no_text"))
    left = context.ledger.budget_left(event.run_id)
    tokenizer_hash = tokenizer_sha256(context.tokenizer)
    texts = ((one, tokenized_texts(one, tokenizer_hash)) for one in chunked)
    prices = ((one, context.embedding_reserve(those, event.corpus, left)) for one, those in texts)
    payable = within(left, prices, stage="embed", subject=_source_of)
    emits: tuple[Next, ...] = ()
    if payable.items:
        batch = chunk_batch(payable.items, tokenizer_hash)
        emits = (Next(_chunked(batch, context), reserve=payable.cost),)
    return Done(emits, (*gaps, *payable.gaps))


def _source_of(chunked: Tokenized) -> str:
    document = chunked.document
    return document.url or document.file_path or document.document_id


def _chunked(batch: ChunkBatch, context: Context) -> DocumentChunked:
    facts = (
        ChunkFact(chunk_id=chunk.chunk_id, text_sha256=sha256_text(text))
        for document in batch.documents
        for chunk, text in zip(document.chunks, document.embedding_texts(), strict=True)
    )
    return DocumentChunked(
        chunks_blob=context.blobs.put(batch.model_dump_json().encode()),
        document_ids=tuple(document.document_id for document in batch.documents),
        chunks=tuple(facts),
        token_estimate=sum(chunk.token_estimate for document in batch.documents for chunk in document.chunks),
    )


HANDLERS: dict[str, Handler] = {
    "GateRequested": on_gate_requested,
    "CoverageProbed": on_coverage_probed,
    "SearchDirected": on_search_directed,
    "SearchCompleted": on_search_completed,
    "CrawlDirected": on_crawl_directed,
    "PageCrawled": on_page_crawled,
    "DocumentsSubmitted": on_documents_submitted,
    "DocumentChunked": on_document_chunked,
    "ChunksEmbedded": on_chunks_embedded,
    "DocumentsRemoved": on_documents_removed,
    "PageWithdrawn": on_page_withdrawn,
    "DocumentIndexed": on_document_indexed,
    "AnswerDirected": on_answer_directed,
    "FeedbackGiven": on_feedback_given,
}
