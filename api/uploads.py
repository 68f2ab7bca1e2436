"""Routes for uploads: files as `multipart/form-data`, which go to the data directory's disk while they come."""

from __future__ import annotations

import resource
import tempfile
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Form, Request, Response, UploadFile
from fastapi.concurrency import run_in_threadpool
from pydantic import Field, Json
from starlette.formparsers import MultiPartParser

from sluice.api.access import UPLOADS, AnyCaller, instance_of
from sluice.api.problems import problems
from sluice.api.runs import IdempotencyKey
from sluice.contracts.api import Upload
from sluice.contracts.base import CorpusName, Value
from sluice.contracts.document import Scalar
from sluice.workers.service.uploads import Received

uploads = APIRouter(prefix=UPLOADS, tags=["uploads"])
ROUTERS = (uploads,)

FOLDER = "uploads"
"""Of the data directory."""
SPOOLED_BYTES = 65_536
"""A smaller file stays in memory: of the most files at once these are 64 MB."""
MOST_DESCRIPTORS = 65_536


class UploadForm(Value):
    """`POST /v1/uploads`: files with the corpus that they are for."""

    file: Annotated[list[UploadFile], Field(min_length=1)]
    """Files and archives. Each part has a filename, in which its folders stand with slashes."""
    corpus: CorpusName = "default"
    create_corpus: bool = False
    """Whether to make the corpus if it is not there."""
    document_id: str = ""
    """Id of the document, for an upload of one file that is no archive."""
    metadata: Annotated[Json[dict[str, Scalar]], Field(default_factory=dict)]
    """A JSON object of texts, numbers and booleans, for every document."""
    again: bool = False
    """Whether to read files too that the corpus has with the same bytes."""


def spool_to(folder: Path) -> None:
    """Have this process write what it receives to nameless files in `folder`, of which a crash leaves nothing."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    tempfile.tempdir = str(folder)
    MultiPartParser.spool_max_size = SPOOLED_BYTES
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, MOST_DESCRIPTORS), most))


@uploads.post(
    "",
    status_code=202,
    responses=problems(404, 409, 413, 415, 429, 503, 507),
    form_limits={"max_files": 1_000, "max_fields": 20, "max_part_size": 100_000},
    summary="Upload files and archives",
)
async def add(
    request: Request,
    response: Response,
    caller: AnyCaller,
    form: Annotated[UploadForm, Form(media_type="multipart/form-data")],
    idempotency_key: IdempotencyKey = None,
) -> Upload:
    """Take PDF, DOCX, PPTX, XLSX, ODT, EPUB, HTML, Markdown, reStructuredText, CSV, notebooks, text and source code,
    and zip, tar and gzip of them. One line for each file says what became of it; one that cannot be read costs no
    other."""
    caller.may_touch(form.corpus)
    upload = await run_in_threadpool(
        instance_of(request).uploads.receive,
        form.corpus,
        [Received(one.filename or "", one.file) for one in form.file],
        create_corpus=form.create_corpus,
        document_id=form.document_id,
        metadata=form.metadata,
        again=form.again,
        owner=caller.owner,
        by_operator=caller.role == "operator",
        idempotency_key=idempotency_key,
    )
    request.scope["run_id"] = upload.id
    response.headers["Location"] = upload.links["self"]
    return upload


@uploads.get("/{upload_id}", responses=problems(404, 503), summary="What became of each file")
def one(request: Request, upload_id: str, caller: AnyCaller) -> Upload:
    """Return one line for each file: its name, hash and document, whether it can be found, and why not."""
    return instance_of(request).uploads.one(upload_id, caller)
