"""Operations of an instance for every door: HTTP, command line, Python.

Accepting a request is one ledger transaction; only then are its first events published. A request
that is refused, because it is wrong or because there is no room for it, leaves nothing behind. Every method that
records something raises `DiskFull` while the disk is short of room.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from sluice.contracts.api import DocumentsRequest, FeedbackRequest, GateRequest, RunAccepted, RunKind
from sluice.contracts.base import fields_of
from sluice.contracts.budget import Allowance, Ceiling, Ceilings
from sluice.contracts.document import Document, DocumentBatch
from sluice.contracts.errors import BudgetExhausted, Conflict, InvalidInput, InvalidSetting, NotFound, PolicyRefused
from sluice.contracts.event import Event, Gap, GapFound, Next, Queue, new_run_id
from sluice.contracts.gate import Feedback, FeedbackGiven, GateOptions, GateRequested, Limits, SearchWishes
from sluice.contracts.ingest import CrawlDirected, DocumentsRemoved, DocumentsSubmitted, Render
from sluice.contracts.learning.passages import MarkedPassage, Standing
from sluice.contracts.learning.run_outcome import DEFAULT_SIGNAL
from sluice.gate.directives import compute_allowance, lower_limits, make_crawl_directives, set_rendering
from sluice.gate.profile import choose_profile
from sluice.gate.veto import lifted_by, lowest_ceilings
from sluice.ingest.search.port import SearchFilters
from sluice.ledger.events.outbox import NO_KEY, run_baggage
from sluice.ledger.learning.passage_marks import MOST_MARKS
from sluice.ledger.ledger import CreatedRun, NewRun
from sluice.memory.qdrant_schema import is_memory_corpus
from sluice.otel.context import current_traceparent
from sluice.trust.prompts.build import template_named
from sluice.trust.source_trust import weigh_marks
from sluice.workers.context import Context
from sluice.workers.runtime.backpressure import DiskRoom
from sluice.workers.runtime.negative_list import without_forgotten
from sluice.workers.service.documents import (
    SMALL_DOCUMENTS,
    batches_of,
    document_of,
    encoded,
    has_content,
    marks_of,
    may_precede_bulk,
    require_chunks_of,
    usable_url,
)
from sluice.workers.wiring.corpora import policy_of

_NO_LIMITS = Limits()


class Service:
    """Accepts work and answers reads, for one instance."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._room = DiskRoom(context.settings.data_dir)

    def ask(self, request: GateRequest, *, owner: str = NO_KEY, idempotency_key: str | None = None) -> RunAccepted:
        """Record a gate request and set it going.

        Raises:
            NotFound: there is no such corpus, and the request does not create it.
            InvalidInput: an unknown profile or prompt, an unusable seed or site.
            Conflict: the idempotency key was used for another request.
            Overloaded: its queues are full; says when to come back.
            BudgetExhausted: embedding the session costs more than is left; a question alone is never refused.
        """
        choose_profile(self._context.profiles, request.profile)
        if request.prompt is not None:
            template_named(request.prompt)
        if request.search is not None:
            _require_searchable(request.search)
        seconds = request.deadline_seconds or self._context.settings.gate.deadline_seconds
        seeds = tuple(usable_url(f"seeds.{index}", url) for index, url in enumerate(request.seeds))
        deadline_at = datetime.now(UTC) + timedelta(seconds=seconds)
        body = GateRequested(**{**fields_of(GateOptions, request), "seeds": seeds}, deadline_at=deadline_at)
        run = self.new_run(
            "gate",
            request.corpus,
            owner=owner,
            idempotency_key=idempotency_key,
            fingerprint=encoded("request", request.model_copy(update={"wait": False})),
            query=request.query,
            deadline_at=deadline_at,
            limits=request.limits,
            create_corpus=request.create_corpus,
        )
        self._context.admission.admit(run, {"query": 1})
        session = [message.content for message in request.session]
        reading = self._context.embedding.reserve(session, request.corpus, run.ceilings)
        return self._accept(run, [Next(body, reserve=reading)])

    def add_documents(
        self,
        request: DocumentsRequest,
        *,
        owner: str = NO_KEY,
        by_operator: bool = False,
        idempotency_key: str | None = None,
    ) -> RunAccepted:
        """Record documents for ingestion: content is chunked, a bare URL is crawled.

        Raises:
            NotFound: there is no such corpus, and the request does not create it.
            InvalidInput: a document that cannot be read, by its index.
            PolicyRefused: a URL is to be crawled while crawling is off, the negative list names every document, or the
                corpus is an agent's memory.
            BudgetExhausted: the run's limits or the day leave no room for its pages.
            Overloaded: its queues are full; says when to come back.
        """
        require_documents_corpus(request.corpus)
        contents = [(i, d) for i, d in enumerate(request.documents) if has_content(d)]
        urls = [
            usable_url(f"documents.{i}.url", d.url)
            for i, d in enumerate(request.documents)
            if d.url and not has_content(d)
        ]
        if not urls and not any(d.text or d.html or d.data for _, d in contents):
            raise InvalidInput("documents", "every document is empty", "give text, html or data that is not empty")
        now = datetime.now(UTC)
        submitter = None if owner == NO_KEY else owner
        keys = self._context.settings.trust.keys
        documents = [document_of(index, one, now, submitter, keys, by_operator=by_operator) for index, one in contents]
        documents, refused = without_forgotten(documents, request.corpus, "accept", self._context.ledger.forgotten)
        policy = policy_of(self._context.settings.trust, self._context.ledger, request.corpus)
        for document in documents:
            if not policy.takes(document):
                problem = f"{document.source}: the policy of corpus {request.corpus!r} does not list its source"
                raise PolicyRefused("corpus_policy", problem, "trust.corpora")
        if refused and not documents and not urls:
            raise PolicyRefused("forgotten", refused[0].detail, refused[0].lifted_by)
        batches = list(batches_of(documents))
        run = self.new_run(
            "documents" if contents else "crawl",
            request.corpus,
            owner=owner,
            idempotency_key=idempotency_key,
            fingerprint=encoded("documents", request),
            limits=request.limits,
            named_pages=len(urls),
            create_corpus=request.create_corpus,
        )
        is_small = may_precede_bulk([one.size for one in documents])
        run = replace(run, is_small=is_small and (not urls or _has_few_pages(run)))
        crawls = self._crawls(urls, run.ceilings, request.limits, request.render, screenshot=request.screenshot)
        self._context.admission.admit(run, _entering(crawls) + Counter({"chunk": len(batches)}))
        gaps = (Next(GapFound(gap=gap)) for gap in refused)
        return self._accept(run, [*map(self.submission, batches), *crawls, *gaps])

    def ingest(self, corpus: str, documents: Iterable[Document], removed: Sequence[str] = ()) -> RunAccepted:
        """Record documents that were read on this machine (`sluice ingest`), as one run.

        `removed` holds ids of documents that the source no longer has: they go in the same run. Raises `Overloaded` if
        its queues are full; the error says when to come back.
        """
        require_documents_corpus(corpus)
        run = self.new_run("documents", corpus, create_corpus=True)
        self._context.admission.require_room(run, {"chunk": 1})  # reading may take long
        sizes, events = list[int](), list[Next]()
        for batch in batches_of(documents):
            sizes += [one.size for one in batch]
            events.append(self.submission(batch))
        if removed:
            events.append(Next(DocumentsRemoved(document_ids=tuple(removed))))
        if not events:
            raise InvalidInput("path", "nothing to ingest", "name files with text in them")
        return self.begin(replace(run, is_small=may_precede_bulk(sizes)), events)

    def crawl(
        self, corpus: str, urls: Sequence[str], limits: Limits = _NO_LIMITS, by_sitemap: frozenset[str] = frozenset()
    ) -> RunAccepted:
        """Record URLs for crawling. Raises what `add_documents` does.

        URLs in `by_sitemap` are not requested if their sitemap says that they have not changed since.
        """
        require_documents_corpus(corpus)
        usable = [usable_url("url", url) for url in urls]
        run = self.new_run("crawl", corpus, limits=limits, named_pages=len(usable), create_corpus=True)
        run = replace(run, is_small=_has_few_pages(run))
        crawls = self._crawls(usable, run.ceilings, limits)
        for place, one in enumerate(crawls):
            if isinstance(one.body, CrawlDirected) and one.body.url in by_sitemap:
                crawls[place] = replace(one, body=one.body.model_copy(update={"by_sitemap": True}))
        return self.begin(run, crawls)

    def remove_document(self, corpus: str, document_id: str, *, owner: str = NO_KEY) -> RunAccepted:
        """Begin a run that removes a document.

        Raises:
            NotFound: the corpus holds no such document.
            PolicyRefused: the corpus is an agent's memory.
            Overloaded: the index's queue is full; says when to come back.
        """
        require_documents_corpus(corpus)
        if not self._context.readers.existing(corpus).has_document(document_id):
            raise NotFound(f"corpus {corpus!r} holds no document {document_id!r}")
        run = self.new_run("deletion", corpus, owner=owner, is_small=True)
        return self.begin(run, [Next(DocumentsRemoved(document_ids=(document_id,)))])

    def cancel(self, run_id: str) -> bool:
        """Cancel a run: its events are no longer worked on, and those under way do not count.

        Returns False if it had ended and nothing of it was open. Raises `NotFound` if there is no such run.
        """
        emitted = self._context.ledger.cancel(run_id)
        if emitted is None:
            return False
        with suppress(InvalidSetting):  # no broker is known, so nobody listens
            self._context.transport.tell_cancelled(run_id)
            self._context.transport.announce(emitted)
        return True

    def give_feedback(self, request: FeedbackRequest, *, owner: str = NO_KEY, is_operator: bool = False) -> bool:
        """Record feedback on an answer and on passages of it; return whether any of it is new.

        Feedback counts once for each run, `owner` and signal, and for each passage: the same again changes nothing.

        Raises:
            NotFound: no such run.
            InvalidInput: a chunk id or a citation that is not in the run's answer.
            Conflict: the owner has given other feedback on this run by the same signal, or on a passage.
        """
        self._room.require()
        ledger = self._context.ledger
        run = ledger.run(request.run_id)
        require_chunks_of(run.answer, request.chunk_ids_used)
        is_new = False
        if request.passages:
            is_asker = owner == ledger.tenancy(run.run_id)[1]
            standing: Standing = "asker" if is_asker else "operator" if is_operator else "other"
            is_new = ledger.marks.give(run.run_id, marks_of(run.answer, request.passages, owner, standing))
            self._context.doubts.drop(run.corpus)
        body = FeedbackGiven(**fields_of(Feedback, request))
        if request.passages and body == FeedbackGiven():
            return is_new
        event = Event.of(body, run_id=run.run_id, corpus=run.corpus, traceparent=run.traceparent)
        dedupe_key = f"feedback-of:{owner}"
        if request.signal != DEFAULT_SIGNAL:
            dedupe_key += f":{request.signal}"
        if ledger.add_event(event, dedupe_key=dedupe_key):
            self.send([event])
            return True
        if ledger.keyed_event(run.run_id, dedupe_key).body != body:
            raise Conflict(f"other feedback on run {run.run_id} was recorded: it is given once and stays")
        return is_new

    def marked_passages(self, corpus: str, limit: int, after: str | None = None) -> list[MarkedPassage]:
        """Return passages of a corpus that callers call bad evidence, by their ids."""
        marks = self._context.ledger.marks
        found = marks.told(corpus, weigh_marks(marks.of_corpus(corpus)))
        return [one for one in found if after is None or one.chunk_id > after][:limit]

    def clear_passage(self, corpus: str, chunk_id: str, operator: str, note: str = "") -> MarkedPassage:
        """Lift every mark on a passage of a corpus; return what stood. Raises `NotFound` if it has none."""
        self._room.require()
        stood = [one for one in self.marked_passages(corpus, MOST_MARKS) if one.chunk_id == chunk_id]
        self._context.ledger.marks.clear(corpus, chunk_id, operator, note)
        self._context.doubts.drop(corpus)
        return stood[0]

    def new_run(
        self,
        kind: RunKind,
        corpus: str,
        *,
        owner: str = NO_KEY,
        idempotency_key: str | None = None,
        fingerprint: str = "",
        query: str | None = None,
        deadline_at: datetime | None = None,
        limits: Limits = _NO_LIMITS,
        named_pages: int = 0,
        is_small: bool = False,
        create_corpus: bool | None = None,
        deletes_corpus: bool = False,
    ) -> NewRun:
        """Make an unrecorded run with the ceilings of the settings and of `limits`; a small one precedes bulk.

        With `create_corpus` the run makes the entry of its corpus, if there is none; False says that the corpus has to
        exist. Raises `NotFound` if it does not, `PolicyRefused` if it is an agent's memory that is to be made, and
        `DiskFull` if the disk is short of room.
        """
        self._room.require()
        if create_corpus:
            require_documents_corpus(corpus)
        elif create_corpus is False:
            self._context.readers.require(corpus)
        crawl_limits = self._context.crawl_limits
        return NewRun(
            run_id=new_run_id(),
            kind=kind,
            corpus=corpus,
            query=query,
            owner=owner,
            idempotency_key=idempotency_key,
            request_sha256=hashlib.sha256(f"{kind}:{fingerprint}".encode()).hexdigest(),
            deadline_at=deadline_at,
            traceparent=current_traceparent(),
            is_small=is_small,
            corpus_entry="deleted" if deletes_corpus else "made" if create_corpus else None,
            ceilings=lowest_ceilings(
                self._context.settings.budget,
                limits,
                max_pages=crawl_limits.max_pages,
                max_bytes=crawl_limits.max_bytes,
                named_pages=named_pages,
            ),
        )

    def begin(self, run: NewRun, first: Sequence[Next]) -> RunAccepted:
        """Record a run that another service has made, and set it going.

        If no broker is known, as `sluice up` does not run, the reconciler publishes its events later. Raises
        `Overloaded` if its queues are full; the error says when to come back.
        """
        self._context.admission.admit(run, _entering(first))
        return self._accept(run, first)

    def _accept(self, run: NewRun, first: Sequence[Next]) -> RunAccepted:
        if run.kind in ("documents", "crawl", "deletion"):
            self._context.truth.check(run.corpus)
        events = [(self.event_of(one, run), one) for one in first]
        return self.started(self._context.ledger.create_run(run, events))

    def started(self, created: CreatedRun) -> RunAccepted:
        """Publish the first events of a run that was just recorded, and return how to follow it."""
        if created.created:
            self.send(created.events)
        links = {"run": f"/v1/runs/{created.run_id}", "events": f"/v1/runs/{created.run_id}/events"}
        return RunAccepted(run_id=created.run_id, status=created.status, links=links)

    def send(self, events: Sequence[Event]) -> None:
        """Publish recorded events; where no broker is known yet, the reconciler publishes them later."""
        with suppress(InvalidSetting):
            self._context.transport.publish(events)

    def event_of(self, first: Next, run: NewRun) -> Event:
        """Make the event by which a run begins."""
        return Event.of(
            first.body,
            run_id=run.run_id,
            corpus=run.corpus,
            traceparent=run.traceparent,
            baggage=run_baggage(run.traceparent),
        )

    def require_crawling(self) -> None:
        """Raise `PolicyRefused` if crawling is switched off."""
        if not self._context.settings.crawl.enabled:
            raise PolicyRefused("crawl.enabled", "crawling is switched off", "crawl.enabled = true in sluice.toml")
        if not self._context.flags.enabled_now("crawl"):
            raise PolicyRefused("flag_crawl", "the flag crawl is off", "sluice flags crawl --on")

    def _crawls(
        self,
        urls: Sequence[str],
        ceilings: Ceilings,
        limits: Limits,
        render: Render | None = None,
        *,
        screenshot: bool = False,
    ) -> list[Next]:
        """Return a directive for each URL that there is room for, and a gap for each other one."""
        if not urls:
            return []
        self.require_crawling()
        pages, size = ceilings.run.pages or 0, ceilings.run.bytes or 0
        crawl_limits = set_rendering(lower_limits(self._context.crawl_limits, limits), render, screenshot=screenshot)
        crawl_limits = crawl_limits.model_copy(update={"max_pages": pages, "max_bytes": size})
        directed = make_crawl_directives(urls, compute_allowance(pages, crawl_limits, ceilings), crawl_limits)
        lifts = "; ".join(lifted_by(f"{whose}_{unit}") for whose, one in ceilings for unit in _short_of(len(urls), one))
        if not directed:
            raise BudgetExhausted(f"there is no room for a page: {lifts}")
        why = f"the run has no room for all of its {len(urls)} pages"
        left_out = (
            Gap(stage="crawl", subject=url, reason="budget_exhausted", detail=why, lifted_by=lifts)
            for url in urls[len(directed) :]
        )
        return [*directed, *(Next(GapFound(gap=gap)) for gap in left_out)]

    def submission(self, batch: Sequence[Document]) -> Next:
        """Keep a batch of documents, and return the event that submits it."""
        whole = DocumentBatch(documents=tuple(batch))
        return Next(DocumentsSubmitted.of(whole, self._context.blobs.put(encoded("documents", whole).encode())))


def require_documents_corpus(corpus: str) -> None:
    """Raise `PolicyRefused` for a corpus of an agent's memory: it is made from a journal, by memory alone."""
    if is_memory_corpus(corpus):
        problem = f"corpus {corpus} is an agent's memory: it is made from a journal, and takes and loses nothing else"
        remedy = "record, change or reject entries by /v1/memory (or `sluice memory`), or name another corpus"
        raise PolicyRefused("memory.corpus", problem, remedy)


def _has_few_pages(run: NewRun) -> bool:
    """Return whether the run may crawl no more pages than a small submission has documents."""
    return (run.ceilings.run.pages or 0) <= SMALL_DOCUMENTS


def _entering(first: Sequence[Next]) -> Counter[Queue]:
    """Count the events that enter each stage."""
    return Counter(one.body.queue for one in first if one.body.queue)


def _short_of(pages: int, ceiling: Ceiling) -> tuple[str, ...]:
    most = pages if ceiling.pages is None else ceiling.pages
    return Allowance(pages=most, bytes=ceiling.bytes, milliseconds=ceiling.milliseconds).short_of(pages)


def _require_searchable(wishes: SearchWishes) -> None:
    """Raise `InvalidInput` for a site that is no domain, as a search would only later."""
    try:
        SearchFilters.read(wishes.filters, datetime.now(UTC).date())
    except InvalidInput as error:
        raise InvalidInput("search.sites", error.problem, error.remedy) from error
