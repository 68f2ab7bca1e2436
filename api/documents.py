"""Documents in, documents out."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request

from sluice.api.access import AnyCaller, instance_of
from sluice.api.problems import problem_responses
from sluice.api.runs import IdempotencyKey
from sluice.api.tracing import request_span
from sluice.contracts.api import DocumentsRequest, DocumentText, RunAccepted
from sluice.contracts.base import CORPUS_NAME
from sluice.workers.service.document_text import read_document_text

router = APIRouter(prefix="/v1", tags=["documents"])


@router.post(
    "/documents",
    status_code=202,
    responses=problem_responses(409, 413, 429, 503, 507),
    summary="Add or replace documents",
)
def add(
    request: Request, body: DocumentsRequest, caller: AnyCaller, idempotency_key: IdempotencyKey = None
) -> RunAccepted:
    """Content is chunked and indexed, a bare URL is crawled. The run is finished when all of it can be found."""
    caller.may_touch(body.corpus)
    service = instance_of(request).service
    with request_span(request, "POST /v1/documents"):
        return service.add_documents(body, owner=caller.owner, idempotency_key=idempotency_key)


@router.get(
    "/documents/{document_id:path}/text",
    responses=problem_responses(404, 503),
    summary="The text of a document, by the lines that citations name",
)
def text(
    request: Request,
    document_id: str,
    caller: AnyCaller,
    corpus: Annotated[str, Query(pattern=rf"^{CORPUS_NAME.pattern}$")] = "default",
    start_line: Annotated[int, Query(ge=1)] = 1,
    end_line: Annotated[int | None, Query(ge=1)] = None,
) -> DocumentText:
    """The extracted text as it is indexed. Lines keep their numbers where secrets are masked or the guard keeps text.

    A page whose site asks that no text of it be shown is refused (403), with the address where it can be read.
    """
    caller.may_touch(corpus)
    context = instance_of(request).context
    with request_span(request, "GET /v1/documents/text"):
        return read_document_text(context.readers, context.settings.trust, corpus, document_id, start_line, end_line)


@router.delete(
    "/documents/{document_id:path}",
    status_code=202,
    responses=problem_responses(404, 429, 503, 507),
    summary="Forget a document",
)
def remove(
    request: Request,
    document_id: str,
    caller: AnyCaller,
    corpus: Annotated[str, Query(pattern=rf"^{CORPUS_NAME.pattern}$")] = "default",
) -> RunAccepted:
    """The run is finished when no query finds the document any more."""
    caller.may_touch(corpus)
    service = instance_of(request).service
    with request_span(request, "DELETE /v1/documents"):
        return service.remove_document(corpus, document_id, owner=caller.owner)
