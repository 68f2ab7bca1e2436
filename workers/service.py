"""What an agent or operator can ask for, whichever door they come through: HTTP, command line, Python.

Accepting a request is one ledger transaction; only then are its first events published. A request
that is refused leaves nothing behind.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal

from pydantic_core import PydanticSerializationError

from contracts.api import DocumentsRequest, FeedbackRequest, GateRequest, RunAccepted, SubmittedDocument
from contracts.base import Value
from contracts.budget import Ceilings
from contracts.document import Document, DocumentBatch, Provenance, document_id_for
from contracts.errors import InvalidInput, NotFound, PolicyRefused
from contracts.event import Event
from contracts.gate import FeedbackGiven, GateRequested, Limits
from contracts.ids import new_run_id
from contracts.ingest import DocumentsRemoved, DocumentsSubmitted
from contracts.outcome import Next
from gate.directives import crawl_directives, lowered
from ingest.media import media_type_for
from ingest.url import normalise_url
from otel.context import current_traceparent
from workers.ledger import NewRun
from workers.parts import Parts

RunKind = Literal["gate", "documents", "crawl", "deletion"]

DOCUMENTS_PER_EVENT = 64
"""Documents that travel together: enough to pay a hop and a publish once, few enough to lose little to a crash."""
CHARACTERS_PER_EVENT = 400_000
"""Text that travels together, unless one document is longer: some ten seconds of embedding on two cores."""


class Service:
    """Accepts work and answers reads, for one instance."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def ask(self, request: GateRequest, *, owner: str = "local", idempotency_key: str | None = None) -> RunAccepted:
        """Record a gate request and set it going.

        Raises:
            InvalidInput: an unknown profile or an unusable seed.
            Conflict: the idempotency key was used for another request.
        """
        self._parts.profile(request.profile)
        seconds = request.deadline_seconds or self._parts.settings.gate.deadline_seconds
        body = GateRequested(
            query=request.query,
            profile=request.profile,
            session=request.session,
            limits=request.limits,
            deadline_at=datetime.now(UTC) + timedelta(seconds=seconds),
            plan=request.plan,
            seeds=tuple(_usable_url(f"seeds.{index}", url) for index, url in enumerate(request.seeds)),
            top_k=request.top_k,
            max_tokens=request.max_tokens,
            filters=request.filters,
            trust_threshold=request.trust_threshold,
        )
        return self._accept(
            "gate",
            request.corpus,
            [Next(body)],
            owner=owner,
            idempotency_key=idempotency_key,
            fingerprint=_encoded("request", request.model_copy(update={"wait": False})),
            query=request.query,
            deadline_at=body.deadline_at,
            limits=request.limits,
        )

    def add_documents(
        self, request: DocumentsRequest, *, owner: str = "local", idempotency_key: str | None = None
    ) -> RunAccepted:
        """Record documents for ingestion: content is chunked, a bare URL is crawled.

        Raises:
            InvalidInput: a document that cannot be read, by its index.
            PolicyRefused: a URL is to be crawled while crawling is off.
        """
        contents = [(i, d) for i, d in enumerate(request.documents) if _has_content(d)]
        urls = [
            _usable_url(f"documents.{i}.url", d.url)
            for i, d in enumerate(request.documents)
            if d.url and not _has_content(d)
        ]
        if not urls and not any(d.text or d.html or d.data for _, d in contents):
            raise InvalidInput("documents", "every document is empty", "give text, html or data that is not empty")
        now = datetime.now(UTC)
        documents = [_document(index, submitted, now) for index, submitted in contents]
        events = [*self.submissions(documents), *self._crawls(urls, request.limits)]
        return self._accept(
            "documents",
            request.corpus,
            events,
            owner=owner,
            idempotency_key=idempotency_key,
            fingerprint=_encoded("documents", request),
            limits=request.limits,
        )

    def ingest(self, corpus: str, documents: Iterable[Document]) -> RunAccepted:
        """Record documents that were read on this machine (`sluice ingest`), as one run."""
        events = list(self.submissions(documents))
        if not events:
            raise InvalidInput("path", "nothing to ingest", "name files with text in them")
        return self._accept("documents", corpus, events)

    def submissions(self, documents: Iterable[Document]) -> Iterable[Next]:
        """Store documents as blobs, a batch at a time, and yield the events that refer to them."""
        batch: list[Document] = []
        characters = 0
        for document in documents:
            length = len(document.text or "") + len(document.data or b"")
            if batch and (len(batch) == DOCUMENTS_PER_EVENT or characters + length > CHARACTERS_PER_EVENT):
                yield self._submission(batch)
                batch, characters = [], 0
            batch.append(document)
            characters += length
        if batch:
            yield self._submission(batch)

    def crawl(self, corpus: str, urls: Sequence[str], limits: Limits | None = None) -> RunAccepted:
        """Record URLs for crawling (`sluice crawl`)."""
        usable = [_usable_url("url", url) for url in urls]
        return self._accept("crawl", corpus, self._crawls(usable, limits or Limits()), limits=limits)

    def remove_document(self, corpus: str, document_id: str, *, owner: str = "local") -> RunAccepted:
        """Record that a document is to be forgotten.

        Raises:
            NotFound: the corpus holds no such document.
        """
        if not self._parts.existing_reader(corpus).has_document(document_id):
            raise NotFound(f"corpus {corpus!r} holds no document {document_id!r}")
        return self._accept("deletion", corpus, [Next(DocumentsRemoved(document_ids=(document_id,)))], owner=owner)

    def give_feedback(self, request: FeedbackRequest, *, idempotency_key: str | None = None) -> None:
        """Record what became of an answer; the same key of the same run is recorded once.

        Raises:
            NotFound: no such run.
        """
        ledger = self._parts.ledger
        run = ledger.run(request.run_id)
        body = FeedbackGiven.model_validate(request.model_dump(exclude={"run_id"}))
        event = Event.of(body, run_id=run.run_id, corpus=run.corpus, traceparent=run.traceparent)
        dedupe_key = f"feedback:{idempotency_key}" if idempotency_key else None
        if ledger.add_event(event, dedupe_key=dedupe_key):
            self._parts.transport.publish([event])
            self._parts.transport.announce([event])

    def _accept(
        self,
        kind: RunKind,
        corpus: str,
        first: Sequence[Next],
        *,
        owner: str = "local",
        idempotency_key: str | None = None,
        fingerprint: str = "",
        query: str | None = None,
        deadline_at: datetime | None = None,
        limits: Limits | None = None,
    ) -> RunAccepted:
        run_id, traceparent = new_run_id(), current_traceparent()
        run = NewRun(
            run_id=run_id,
            kind=kind,
            corpus=corpus,
            query=query,
            owner=owner,
            idempotency_key=idempotency_key,
            request_sha256=hashlib.sha256(f"{kind}:{fingerprint}".encode()).hexdigest(),
            deadline_at=deadline_at,
            traceparent=traceparent,
            ceilings=self._ceilings(limits or Limits(), first),
        )
        events = [(Event.of(one.body, run_id=run_id, corpus=corpus, traceparent=traceparent), one) for one in first]
        created = self._parts.ledger.create_run(run, events)
        if created.created:
            self._parts.transport.publish(created.events)
            self._parts.transport.announce(created.events)
        return RunAccepted(
            run_id=created.run_id,
            status=created.status,
            links={
                "run": f"/v1/runs/{created.run_id}",
                "events": f"/v1/runs/{created.run_id}/events",
            },
        )

    def _ceilings(self, limits: Limits, first: Sequence[Next]) -> Ceilings:
        """The run's ceilings. Whoever names pages to crawl gets at least those, up to the day's ceiling."""
        budget, reach = self._parts.settings.budget, self._parts.reach
        named = sum(one.reserve.pages for one in first if one.reserve)
        run_usd = budget.run_usd if limits.max_usd is None else min(budget.run_usd, limits.max_usd)
        run_pages = max(reach.max_pages if limits.max_pages is None else min(reach.max_pages, limits.max_pages), named)
        return Ceilings(run_usd=run_usd, run_pages=run_pages, day_usd=budget.day_usd, day_pages=budget.day_pages)

    def _crawls(self, urls: Sequence[str], limits: Limits) -> list[Next]:
        if not urls:
            return []
        if not self._parts.settings.crawl.enabled:
            raise PolicyRefused("crawl.enabled", "crawling is switched off", "crawl.enabled = true in sluice.toml")
        reach = self._parts.reach
        reach = lowered(reach.model_copy(update={"max_pages": max(reach.max_pages, len(urls))}), limits)
        return list(crawl_directives(urls, reach.max_pages, reach))

    def _submission(self, batch: Sequence[Document]) -> Next:
        raw = _encoded("documents", DocumentBatch(documents=tuple(batch)))
        return Next(DocumentsSubmitted(documents=self._parts.blobs.put(raw.encode()), document_count=len(batch)))


def _encoded(field: str, value: Value) -> str:
    """The JSON of what was handed in; half a surrogate pair, which Python's own JSON lets in, has none."""
    try:
        return value.model_dump_json()
    except PydanticSerializationError as error:
        raise InvalidInput(field, f"holds what is not Unicode: {error}", "send valid UTF-8") from error


def _usable_url(field: str, url: str) -> str:
    try:
        return normalise_url(url)
    except InvalidInput as error:
        raise InvalidInput(field, error.problem, error.remedy) from error


def _has_content(submitted: SubmittedDocument) -> bool:
    """Whether content was handed in, be it empty: then it is the document, and its URL is not crawled."""
    return any(part is not None for part in (submitted.text, submitted.html, submitted.data))


def _document(index: int, submitted: SubmittedDocument, now: datetime) -> Document:
    url = _usable_url(f"documents.{index}.url", submitted.url) if submitted.url else None
    source = url or submitted.file_path
    data = None
    if submitted.data is not None:
        try:
            data = base64.b64decode(submitted.data, validate=True)
        except ValueError as error:
            raise InvalidInput(f"documents.{index}.data", "not base64", "send base64 (RFC 4648)") from error
    text = submitted.text if submitted.text is not None else submitted.html
    media_type = submitted.media_type or _media_type(submitted, text or "")
    return Document(
        id=submitted.id or document_id_for(source or ""),
        url=url,
        file_path=submitted.file_path,
        title=submitted.title,
        media_type=media_type,
        text=text if data is None else None,
        data=base64.b64encode(data) if data is not None else None,
        metadata=submitted.metadata,
        provenance=Provenance(
            source="submission", fetched_at=now, published_at=submitted.published_at, author=submitted.author
        ),
    )


def _media_type(submitted: SubmittedDocument, text: str) -> str:
    if submitted.html is not None:
        return "text/html"
    if submitted.file_path:
        return media_type_for(submitted.file_path, text[:512].encode())
    return "text/markdown"
