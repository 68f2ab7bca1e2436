"""Routes for corpora: what there is to ask, what one holds and may take in, made, changed, deleted."""

from __future__ import annotations

from operator import attrgetter
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.responses import FileResponse
from starlette.concurrency import run_in_threadpool

from sluice.api.access import ARTEFACTS, TAR, AnyCaller, Note, Operator, instance_of
from sluice.api.lists import Cursor, paged
from sluice.api.problems import problems
from sluice.api.requests import about_run
from sluice.contracts.api import Page, RunAccepted
from sluice.contracts.base import CORPUS_NAME
from sluice.contracts.errors import InvalidInput
from sluice.contracts.operations.corpora import CorpusPatch, CorpusState, CorpusView, Generation, NewCorpus
from sluice.contracts.operations.transfer import Artefact, ArtefactId, ImportRequest

corpora = APIRouter(prefix="/v1/corpora", tags=["corpora"])
artefacts = APIRouter(prefix=ARTEFACTS, tags=["artefacts"])
ROUTERS = (corpora, artefacts)

Name = Annotated[str, Path(pattern=rf"^{CORPUS_NAME.pattern}$", max_length=63)]
GenerationName = Annotated[str, Path(max_length=200, description="As `g00000007-` and a hash")]
FILE = {TAR: {"schema": {"type": "string", "format": "binary"}}}
IfMatch = Annotated[str | None, Header(alias="If-Match", description="The `ETag` that was last seen; `*` for any")]


@corpora.get("", responses=problems(503), summary="The corpora that the key may touch")
def some(
    request: Request, caller: AnyCaller, limit: Annotated[int, Query(ge=1, le=200)] = 50, cursor: Cursor = None
) -> Page[CorpusView]:
    """Return corpora by name, with what each holds. Those of agents' memories are not among them."""
    desk = instance_of(request).corpora
    return paged(request, limit, lambda most, after: desk.some(caller, most, after), attrgetter("name"))


@corpora.post("", status_code=201, responses=problems(409, 413, 503, 507), summary="Make a corpus")
def create(request: Request, response: Response, body: NewCorpus, caller: AnyCaller) -> CorpusView:
    """Make an empty corpus with settings of its own. Only an operator may give settings but the description."""
    _require_role(caller, body)
    made = instance_of(request).corpora.create(body, caller)
    response.headers["Location"] = f"/v1/corpora/{made.name}"
    return _tagged(response, made)


@corpora.get("/{corpus}", responses=problems(404, 503), summary="One corpus: what it holds, and its settings")
def one(request: Request, response: Response, corpus: Name, caller: AnyCaller) -> CorpusView:
    """Return its figures as queries see it now, its settings, and the policy that follows from all settings."""
    return _tagged(response, instance_of(request).corpora.one(corpus, caller))


@corpora.patch("/{corpus}", responses=problems(404, 412, 413, 503, 507), summary="Change a corpus's settings")
def change(
    request: Request, response: Response, corpus: Name, body: CorpusPatch, operator: Operator, if_match: IfMatch = None
) -> CorpusView:
    """Change the named settings, by JSON merge patch; null gives one its default. With `If-Match` only if nobody
    else has changed them since (412)."""
    return _tagged(response, instance_of(request).corpora.change(corpus, body, _version(if_match), operator))


@corpora.get("/{corpus}/state", responses=problems(404, 503), summary="What is behind a corpus's figures")
def state(request: Request, corpus: Name, caller: AnyCaller) -> CorpusState:
    """Return its generations, what is not served yet, how old its documents are, and how much is held back."""
    return instance_of(request).corpora.state(corpus, caller)


@corpora.post(
    "/{corpus}/generations/{generation}/verify", responses=problems(404, 503, 507), summary="Read a generation again"
)
def verify(request: Request, corpus: Name, generation: GenerationName, operator: Operator) -> Generation:
    """Read every file of a generation and compare it with its hash. `problem` says what is wrong."""
    return instance_of(request).corpora.verify(corpus, generation, operator)


@corpora.post(
    "/{corpus}/generations/{generation}/serve", responses=problems(404, 503, 507), summary="Serve another generation"
)
def serve(
    request: Request, corpus: Name, generation: GenerationName, operator: Operator, note: Note = ""
) -> Generation:
    """Verify a generation and serve it, until there are new records to publish; recorded with who, when and why."""
    return instance_of(request).corpora.roll_back(corpus, generation, operator, note)


@corpora.post(
    "/{corpus}/recheck", status_code=202, responses=problems(403, 404, 429, 503, 507), summary="Ask for due pages again"
)
def recheck(request: Request, corpus: Name, operator: Operator) -> RunAccepted:
    """Begin a run that requests the pages that are due again. Without any there is none (404)."""
    return about_run(request, instance_of(request).corpora.recheck(corpus, operator))


@corpora.delete("/{corpus}", status_code=202, responses=problems(404, 429, 503, 507), summary="Delete a corpus")
def delete(request: Request, corpus: Name, operator: Operator, note: Note = "") -> RunAccepted:
    """Forget every document of the corpus, with every trace of it. From now on the corpus does not exist; the run is
    finished when nothing is left. Its open runs are cancelled. It may be made anew."""
    return about_run(request, instance_of(request).corpora.delete(corpus, operator, note))


@corpora.post("/{corpus}/export", status_code=202, responses=problems(404, 429, 503, 507), summary="Export a corpus")
def export(request: Request, corpus: Name, operator: Operator) -> RunAccepted:
    """Write documents, passages and vectors, as they are served when the run is handled, to a file. The run's link
    `artefact` has it once the run is finished."""
    return about_run(request, instance_of(request).corpora.export(corpus, operator))


@corpora.post(
    "/{corpus}/import", status_code=202, responses=problems(404, 413, 429, 503, 507), summary="Import a corpus"
)
def bring_in(request: Request, corpus: Name, body: ImportRequest, operator: Operator) -> RunAccepted:
    """Write an artefact's documents to a corpus that exists. Those that this instance exported with vectors of the
    corpus's model come without embedding; all others are embedded, and what was uploaded is inspected too. What the
    negative list names is left out, and named as a gap."""
    return about_run(request, instance_of(request).corpora.bring_in(corpus, body.artefact_id, operator))


@artefacts.post(
    "",
    status_code=201,
    responses=problems(413, 415, 503, 507),
    openapi_extra={"requestBody": {"required": True, "content": FILE}},
    summary="Upload an exported corpus",
)
async def upload(request: Request, response: Response, operator: Operator) -> Artefact:
    """Take the file that another instance has exported. It is kept until `sluice prune` removes it."""
    desk = instance_of(request).corpora
    with desk.receiving() as file:
        async for part in request.stream():
            await run_in_threadpool(file.write, part)
        kept = await run_in_threadpool(desk.take_in, file)
    response.headers["Location"] = f"{ARTEFACTS}/{kept.id}"
    return kept


@artefacts.get(
    "/{artefact_id}",
    response_class=FileResponse,
    responses={200: {"content": FILE, "description": "The file"}, **problems(404, 503)},
    summary="An exported corpus",
)
def artefact(request: Request, artefact_id: ArtefactId, operator: Operator) -> FileResponse:
    """Return the file: a tar of `manifest.json`, `documents.jsonl.zst` and `vectors.f32.zst`."""
    path = instance_of(request).corpora.artefact(artefact_id, operator)
    return FileResponse(path, media_type=TAR, filename=path.name)


def _require_role(caller: AnyCaller, wanted: NewCorpus) -> None:
    if wanted.model_fields_set - {"name", "description"}:
        caller.may_operate()


def _tagged(response: Response, view: CorpusView) -> CorpusView:
    response.headers["ETag"] = f'"{view.version}"'
    return view


def _version(if_match: str | None) -> int | None:
    told = (if_match or "*").strip()
    if told == "*":
        return None
    digits = told.removeprefix("W/").strip('"')
    if not digits.isdecimal():
        raise InvalidInput("If-Match", f"{told!r} is no ETag of a corpus", 'send the ETag that was last seen, as "3"')
    return int(digits)
