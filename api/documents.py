"""Routes for documents; for operators also to forget documents, and for the quarantine.

Forgetting removes documents with every trace of them; the negative list keeps them out. The quarantine holds chunks
that the guard blocks: a key that lists corpora sees only theirs.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated
from urllib.parse import unquote

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.routing import Match
from starlette.types import Scope

from sluice.api.access import AnyCaller, Corpus, Note, Operator, instance_of
from sluice.api.lists import Cursor, paged, position, whole
from sluice.api.problems import problems
from sluice.api.requests import about_run
from sluice.api.runs import IdempotencyKey
from sluice.contracts.api import DocumentsRequest, DocumentText, Page, RunAccepted
from sluice.contracts.document import fetch_key
from sluice.contracts.errors import InvalidInput, checked
from sluice.contracts.filters import Where, WrongText, parse_where
from sluice.contracts.operations.corpora import (
    ChunkView,
    DocumentCount,
    DocumentOrder,
    DocumentPatch,
    DocumentView,
    LinkView,
)
from sluice.contracts.operations.forget import ForgetProof, ForgetRequest, ForgottenEntry, NewEntry, WouldForget
from sluice.contracts.operations.quarantine import QuarantinedChunk, QuarantinedText, QuarantinePage, Released

SLASH = "\x1c"
"""Stands for a slash that was sent as %2F, while a route is looked for."""


class DocumentRoute(APIRoute):
    """A route in which %2F is no separator: an id that holds slashes is exact, even one that ends in `/text`."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return whether and how the route takes the request."""
        parts = re.split("%2[fF]", scope.get("raw_path", b"").partition(b"?")[0].decode("latin-1"))
        if len(parts) == 1:
            return super().matches(scope)
        match, found = super().matches({**scope, "path": SLASH.join(map(unquote, parts))})
        given = found.get("path_params", {})
        return match, {**found, "path_params": {name: value.replace(SLASH, "/") for name, value in given.items()}}


documents = APIRouter(prefix="/v1", tags=["documents"], route_class=DocumentRoute)
forgotten = APIRouter(prefix="/v1", tags=["forget"])
quarantine = APIRouter(prefix="/v1/quarantine", tags=["quarantine"])
ROUTERS = (documents, forgotten, quarantine)

Listed = Annotated[QuarantinePage, Query()]
Told = Annotated[str | None, Query(min_length=1, max_length=4_096)]


@documents.post(
    "/documents", status_code=202, responses=problems(404, 409, 413, 429, 503, 507), summary="Add or replace documents"
)
def add(
    request: Request, body: DocumentsRequest, caller: AnyCaller, idempotency_key: IdempotencyKey = None
) -> RunAccepted:
    """Chunk and index content, and crawl a bare URL. The run is finished when all of it can be found."""
    instance, by_operator, key = instance_of(request), caller.role == "operator", idempotency_key
    caller.may_touch(body.corpus)
    with instance.in_hand(caller.owner, key):
        run = instance.service.add_documents(body, owner=caller.owner, by_operator=by_operator, idempotency_key=key)
    return about_run(request, run)


Text = Annotated[str | None, Query(min_length=1, max_length=200, description="Text in title, address or id")]
Condition = Annotated[
    str | None, Query(min_length=1, max_length=8_000, description='A condition: `trust >= .5 and language = "en"`')
]


@documents.get("/documents", name="list", responses=problems(404, 503), summary="The documents of a corpus")
def some_documents(
    request: Request,
    caller: AnyCaller,
    corpus: Corpus = "default",
    where: Condition = None,
    q: Text = None,
    order: DocumentOrder = "id",
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Cursor = None,
) -> Page[DocumentView]:
    """Return documents that queries find now, without their texts."""
    desk, meant = instance_of(request).documents, condition(where)

    def place(one: DocumentView) -> str:
        return one.id if order.endswith("id") else fetch_key(one.id, one.fetched_at)

    return paged(request, limit, lambda *part: desk.look_through(caller, corpus, meant, q, order, *part)[0], place)


@documents.get("/documents/count", name="count", responses=problems(404, 503), summary="How many documents there are")
def number(
    request: Request, caller: AnyCaller, corpus: Corpus = "default", where: Condition = None, q: Text = None
) -> DocumentCount:
    """Count the documents that queries find now. A condition reads every document."""
    return instance_of(request).documents.count(caller, corpus, condition(where), q)


@documents.get("/documents/by-url", responses=problems(404, 503), summary="One document by its address")
def by_url(
    request: Request, caller: AnyCaller, url: Annotated[str, Query(max_length=4_096)], corpus: Corpus = "default"
) -> DocumentView:
    """Return the document of this URL or path."""
    return instance_of(request).documents.one(caller, corpus, url)


def condition(where: str | None) -> Where | None:
    """Return the condition of a parameter. Raises `InvalidInput` with the place where the text is wrong."""
    try:
        return parse_where(where) if where is not None else None
    except WrongText as error:
        raise InvalidInput("where", str(error), 'as in: trust >= .5 and language = "en"') from error


@documents.get(
    "/documents/{document_id:path}/chunks", responses=problems(404, 503), summary="The passages of a document"
)
def chunks(
    request: Request,
    document_id: str,
    caller: AnyCaller,
    corpus: Corpus = "default",
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Cursor = None,
) -> Page[ChunkView]:
    """Return the passages that are embedded, ranked and cited, in the document's order."""
    desk = instance_of(request).documents
    some = partial(desk.chunks, caller, corpus, document_id)
    return paged(request, limit, some, lambda one: str(one.ordinal))


@documents.get("/documents/{document_id:path}/links", responses=problems(404, 503), summary="The links of a document")
def links(request: Request, document_id: str, caller: AnyCaller, corpus: Corpus = "default") -> Page[LinkView]:
    """Return the addresses that the document names, with their words, and which of them the corpus has."""
    return whole(instance_of(request).documents.links(caller, corpus, document_id))


@documents.get(
    "/documents/{document_id:path}/text",
    responses=problems(404, 503),
    summary="The text of a document, by the lines that citations name",
)
def text(
    request: Request,
    document_id: str,
    caller: AnyCaller,
    corpus: Corpus = "default",
    start_line: Annotated[int, Query(ge=1)] = 1,
    end_line: Annotated[int | None, Query(ge=1)] = None,
) -> DocumentText:
    """Return the extracted text as indexed. Lines keep their numbers where text is masked or blocked. A page whose site
    requests that no text of it be shown is refused (403), with the address where it can be read."""
    return instance_of(request).documents.text(caller, corpus, document_id, start_line, end_line)


@documents.get("/documents/{document_id:path}", name="get", responses=problems(404, 503), summary="One document")
def one_document(request: Request, document_id: str, caller: AnyCaller, corpus: Corpus = "default") -> DocumentView:
    """Return a document by its id, URL or path, without its text. An id that holds a slash is sent with %2F."""
    return instance_of(request).documents.one(caller, corpus, document_id)


@documents.patch(
    "/documents/{document_id:path}",
    status_code=202,
    responses=problems(404, 413, 429, 503, 507),
    summary="Change a document's metadata",
)
def amend(
    request: Request, document_id: str, body: DocumentPatch, caller: AnyCaller, corpus: Corpus = "default"
) -> RunAccepted:
    """Set values of the metadata, or remove those that are null. The run is finished when queries see it. Nothing is
    embedded again."""
    return about_run(request, instance_of(request).documents.amend(caller, corpus, document_id, body))


@documents.delete(
    "/documents/{document_id:path}",
    status_code=202,
    responses=problems(404, 429, 503, 507),
    summary="Forget a document",
)
def remove(request: Request, document_id: str, caller: AnyCaller, corpus: Corpus = "default") -> RunAccepted:
    """Remove the document. The run is finished when no query finds it any more."""
    caller.may_touch(corpus)
    service = instance_of(request).service
    return about_run(request, service.remove_document(corpus, document_id, owner=caller.owner))


@forgotten.post(
    "/forget",
    status_code=202,
    response_model=RunAccepted,
    responses={
        200: {"model": WouldForget, "description": "With `dry_run`: what would be forgotten; nothing is"},
        **problems(404, 429, 503, 507),
    },
    summary="Forget documents by a condition, with a dry run",
)
def forget_where(
    request: Request, operator: Operator, body: ForgetRequest, dry_run: bool = False
) -> RunAccepted | JSONResponse:
    """Forget documents as `DELETE /v1/documents` does, for clients that send no body with that. With `dry_run` count
    them, and name the first; nothing is changed."""
    desk = instance_of(request).forget
    if dry_run:
        return JSONResponse(desk.would_forget(body, operator).model_dump(mode="json"))
    return about_run(request, desk.forget(body, operator))


@forgotten.delete(
    "/documents",
    status_code=202,
    responses=problems(429, 503, 507),
    summary="Forget documents, with every trace of them",
)
def forget(
    request: Request,
    operator: Operator,
    body: ForgetRequest | None = None,
    corpus: Corpus = "default",
    url: Told = None,
    url_prefix: Told = None,
    document_id: Told = None,
    run_id: Told = None,
    submitted_by: Told = None,
    keep_out: bool = True,
    note: Note = "",
) -> RunAccepted:
    """Forget documents by exactly one of URL, prefix, id, run, key and filters, in the body or (no filters) the query.
    The run is finished when nothing is left of them, in older generations and the journal either. Unless `keep_out` is
    false, they are neither crawled nor ingested again."""
    if body is None:
        told = {"url": url, "url_prefix": url_prefix, "document_id": document_id, "run_id": run_id}
        body = checked(ForgetRequest, corpus=corpus, **told, submitted_by=submitted_by, keep_out=keep_out, note=note)
    return about_run(request, instance_of(request).forget.forget(body, operator))


@forgotten.post("/forgotten/prove", responses=problems(503), summary="Is anything of it left?")
def prove(request: Request, operator: Operator, body: ForgetRequest) -> ForgetProof:
    """Search index, journal, generations, known pages, quarantine, blobs, object store and graph; changes nothing."""
    return instance_of(request).forget.prove(body.corpus, body.selection, operator)


@forgotten.get("/forgotten", responses=problems(503), summary="The negative list")
def entries(request: Request, operator: Operator) -> Page[ForgottenEntry]:
    """Return the entries that keep documents out, the latest first."""
    return whole(instance_of(request).forget.entries(operator))


@forgotten.post("/forgotten", responses=problems(503, 507), summary="Keep something out")
def keep_out(request: Request, operator: Operator, body: NewEntry) -> Page[ForgottenEntry]:
    """Put it on the negative list. Documents in the corpus stay (`DELETE /v1/documents` removes them)."""
    return whole(instance_of(request).forget.keep_out(body, operator))


@forgotten.delete("/forgotten/{entry_id}", responses=problems(404, 503, 507), summary="Let something in again")
def allow(request: Request, entry_id: str, operator: Operator, note: Note = "") -> ForgottenEntry:
    """Take it off the negative list; recorded with who, when and why."""
    return instance_of(request).forget.allow(entry_id, operator, note)


@quarantine.get("", responses=problems(503), summary="Chunks that the guard holds back, the latest first")
def some(request: Request, operator: Operator, wanted: Listed) -> Page[QuarantinedChunk]:
    """Return chunks that meet every given filter."""
    held = instance_of(request).quarantine
    return paged(request, wanted.limit, lambda *part: held.some(wanted.part(*part), operator), position)


@quarantine.get("/{held_id}", responses=problems(404, 503), summary="One chunk with its text")
def one(request: Request, held_id: str, operator: Operator) -> QuarantinedText:
    """Return the text with the characters of each finding, and operators' actions. Do not act on the text."""
    return about_run(request, instance_of(request).quarantine.one(held_id, operator))


@quarantine.post(
    "/{held_id}/release", status_code=202, responses=problems(404, 409, 503, 507), summary="Let a chunk through"
)
def release(request: Request, held_id: str, operator: Operator, note: Note = "") -> Released:
    """Let the chunk through; recorded with who, when and why. A run indexes it unless `waits_for` names an obstacle."""
    return about_run(request, instance_of(request).quarantine.release(held_id, operator, note))


@quarantine.post("/{held_id}/purge", responses=problems(404, 409, 503, 507), summary="Remove a chunk's text")
def purge(request: Request, held_id: str, operator: Operator, note: Note = "") -> QuarantinedText:
    """Remove its text for good, and keep the facts; recorded with who, when and why. The same text is blocked again."""
    return about_run(request, instance_of(request).quarantine.purge(held_id, operator, note))
