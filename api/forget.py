"""Un-ingest, for operators: documents that go with every trace of them, and the negative list that keeps them out."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import ValidationError

from sluice.api.access import Operator, instance_of
from sluice.api.problems import problem_responses
from sluice.api.replays import Note
from sluice.api.tracing import request_span
from sluice.contracts.api import RunAccepted
from sluice.contracts.base import CORPUS_NAME
from sluice.contracts.errors import InvalidInput, first_problem
from sluice.contracts.operations.forget import ForgetProof, ForgetRequest, ForgottenEntry, NewEntry

router = APIRouter(prefix="/v1", tags=["forget"])

Told = Annotated[str | None, Query(min_length=1, max_length=4_096)]
CorpusOf = Annotated[str, Query(pattern=rf"^{CORPUS_NAME.pattern}$")]


@router.delete(
    "/documents",
    status_code=202,
    responses=problem_responses(429, 503, 507),
    summary="Forget documents, with every trace of them",
)
def forget(
    request: Request,
    operator: Operator,
    body: ForgetRequest | None = None,
    corpus: CorpusOf = "default",
    url: Told = None,
    url_prefix: Told = None,
    document_id: Told = None,
    run_id: Told = None,
    submitted_by: Told = None,
    keep_out: bool = True,
    note: Note = "",
) -> RunAccepted:
    """Exactly one of URL, prefix, id, run, key and filters, in the body or (but for filters) in the query.

    The run is finished when nothing of them is left, in older generations and in the journal either. Unless `keep_out`
    is false they are neither crawled nor taken in again.
    """
    if body is None:
        told = {"url": url, "url_prefix": url_prefix, "document_id": document_id, "run_id": run_id}
        body = _request(corpus=corpus, **told, submitted_by=submitted_by, keep_out=keep_out, note=note)
    with request_span(request, "DELETE /v1/documents"):
        return instance_of(request).forget.forget(body, operator)


@router.post("/forgotten/prove", responses=problem_responses(503), summary="Is anything of it left?")
def prove(request: Request, operator: Operator, body: ForgetRequest) -> ForgetProof:
    """Looks in what is served, in every generation, journal, known pages, blobs and quarantine; changes nothing."""
    return instance_of(request).forget.prove(body.corpus, body.selection, operator)


@router.get("/forgotten", responses=problem_responses(503), summary="The negative list")
def entries(request: Request, operator: Operator) -> list[ForgottenEntry]:
    """What is neither crawled nor taken in, the latest first."""
    return list(instance_of(request).forget.entries(operator))


@router.post("/forgotten", responses=problem_responses(503, 507), summary="Keep something out")
def keep_out(request: Request, operator: Operator, body: NewEntry) -> list[ForgottenEntry]:
    """Puts it on the negative list; what of it is in the corpus stays (`DELETE /v1/documents` removes it)."""
    return list(instance_of(request).forget.keep_out(body, operator))


@router.delete("/forgotten/{entry_id}", responses=problem_responses(404, 503, 507), summary="Let something in again")
def allow(request: Request, entry_id: str, operator: Operator, note: Note = "") -> ForgottenEntry:
    """Takes it off the negative list; recorded with who, when and why."""
    return instance_of(request).forget.allow(entry_id, operator, note)


def _request(**facts: Any) -> ForgetRequest:
    """What the query asks for.

    Raises:
        InvalidInput: it names none or several things.
    """
    try:
        return ForgetRequest(**facts)
    except ValidationError as error:
        raise InvalidInput(*first_problem(error)) from error
