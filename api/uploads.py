"""Routes for uploads: files as `multipart/form-data`, written to the disk while they come.

No part is kept in memory but the few small fields, and none goes to the system's folder for temporary files.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, BinaryIO

from fastapi import APIRouter, HTTPException, Request, Response
from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.concurrency import run_in_threadpool

from sluice.api.access import UPLOADS, AnyCaller, instance_of
from sluice.api.problems import problems
from sluice.api.runs import IdempotencyKey
from sluice.contracts.api import Upload
from sluice.contracts.base import CORPUS_NAME
from sluice.contracts.document import Scalar
from sluice.contracts.errors import InvalidInput
from sluice.workers.service.uploads import Received

uploads = APIRouter(prefix=UPLOADS, tags=["uploads"])
ROUTERS = (uploads,)

MOST_FILES = 1_000
MOST_FIELD_BYTES = 100_000
"""Of all fields that are no file together."""
FIELDS = ("corpus", "create_corpus", "document_id", "metadata")
FORM: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {
                        "file": {
                            "type": "array",
                            "items": {"type": "string", "format": "binary"},
                            "description": "Files and archives; each part has a filename, its folders with slashes",
                        },
                        "corpus": {"type": "string", "default": "default", "pattern": f"^{CORPUS_NAME.pattern}$"},
                        "create_corpus": {
                            "type": "boolean",
                            "default": False,
                            "description": "Make it if it is not there",
                        },
                        "document_id": {"type": "string", "description": "Id of the document, if it is one file"},
                        "metadata": {"type": "string", "description": "A JSON object, for every document"},
                    },
                }
            }
        },
    }
}


@uploads.post(
    "",
    status_code=202,
    responses=problems(409, 413, 415, 429, 503, 507),
    openapi_extra=FORM,
    summary="Upload files and archives",
)
async def add(
    request: Request, response: Response, caller: AnyCaller, idempotency_key: IdempotencyKey = None
) -> Upload:
    """Take PDF, DOCX, PPTX, XLSX, ODT, EPUB, HTML, Markdown, reStructuredText, CSV, notebooks, text and source code,
    and zip, tar and gzip of them. One line for each file says what became of it; one that cannot be read costs no
    other."""
    kind, options = parse_options_header(request.headers.get("content-type"))
    if kind != b"multipart/form-data" or not options.get(b"boundary"):
        raise HTTPException(415, "send multipart/form-data with a boundary")
    desk = instance_of(request).uploads
    with desk.folder() as folder:
        form = Form(folder, options[b"boundary"])
        try:
            async for part in request.stream():
                await run_in_threadpool(form.write, part)
            form.end()
        except MultipartParseError as error:
            raise InvalidInput("body", f"no multipart/form-data: {error}", "end it with its boundary") from error
        finally:
            form.close()
        corpus, creates = form.corpus, form.creates_corpus
        instance_of(request).corpora.require(corpus, caller, creates=creates)
        upload = await run_in_threadpool(
            desk.receive,
            corpus,
            form.files,
            create_corpus=creates,
            document_id=form.fields.get("document_id") or None,
            metadata=form.metadata,
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


class Form:
    """A form as it comes: files go to `folder`, numbered; `fields` holds the rest."""

    def __init__(self, folder: Path, boundary: bytes) -> None:
        self.files: list[Received] = []
        self.fields: dict[str, str] = {}
        self._folder = folder
        self._file: BinaryIO | None = None
        self._header = self._value = b""
        self._told: dict[bytes, bytes] = {}
        self._content = bytearray()
        self._field_bytes = 0
        self._is_ended = False
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin,
                "on_header_field": self._on_header,
                "on_header_value": self._on_value,
                "on_header_end": self._end_header,
                "on_headers_finished": self._end_headers,
                "on_part_data": self._on_data,
                "on_part_end": self._end_part,
                "on_end": self._on_end,
            },
        )

    def write(self, data: bytes) -> None:
        """Take the next bytes of the body."""
        self._parser.write(data)

    def end(self) -> None:
        """Check that the body was whole. Raises InvalidInput if not."""
        self._parser.finalize()
        if not self._is_ended:
            raise InvalidInput("body", "the form ends in the middle", "send it whole, to its last boundary")

    def close(self) -> None:
        """Close the file that an unfinished body leaves open."""
        if self._file is not None:
            self._file.close()
            self._file = None

    @property
    def corpus(self) -> str:
        """The field `corpus`. Raises InvalidInput if that is no name."""
        corpus = self.fields.get("corpus") or "default"
        if not CORPUS_NAME.fullmatch(corpus):
            raise InvalidInput("corpus", f"{corpus[:80]!r} is no name of a corpus", f"match {CORPUS_NAME.pattern}")
        return corpus

    @property
    def creates_corpus(self) -> bool:
        """The field `create_corpus`. Raises InvalidInput if that is neither `true` nor `false`."""
        told = self.fields.get("create_corpus") or "false"
        if told not in ("true", "false"):
            raise InvalidInput(
                "create_corpus", f"{told[:80]!r} is neither true nor false", "send true, or leave it out"
            )
        return told == "true"

    @property
    def metadata(self) -> dict[str, Scalar]:
        """The field `metadata`. Raises InvalidInput if that is no JSON object of texts, numbers and booleans."""
        try:
            told = json.loads(self.fields.get("metadata") or "{}")
        except (ValueError, RecursionError) as error:
            raise InvalidInput("metadata", f"no JSON: {error}", 'send an object such as {"team": "x"}') from error
        if not isinstance(told, dict) or not all(isinstance(one, str | int | float | bool) for one in told.values()):
            raise InvalidInput("metadata", "no object of texts, numbers and booleans", 'send {"team": "x"}')
        return told

    def _begin(self) -> None:
        self._told = {}

    def _on_header(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _on_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _end_header(self) -> None:
        if self._header.lower() == b"content-disposition":
            _, self._told = parse_options_header(self._value)
        self._header = self._value = b""

    def _end_headers(self) -> None:
        if b"filename" in self._told:
            if len(self.files) == MOST_FILES:
                raise InvalidInput("file", f"there are more than {MOST_FILES:,}", "send fewer at once, or an archive")
            self._file = (self._folder / str(len(self.files))).open("xb")
            self._hash = hashlib.sha256()
        elif self._name not in FIELDS:
            raise InvalidInput(self._name or "body", "is no field of this form", f"fields: file, {', '.join(FIELDS)}")
        self._content.clear()

    def _on_data(self, data: bytes, start: int, end: int) -> None:
        if self._file is not None:
            self._file.write(data[start:end])
            self._hash.update(data[start:end])
            return
        self._field_bytes += end - start
        if self._field_bytes > MOST_FIELD_BYTES:
            raise InvalidInput(self._name, f"fields have more than {MOST_FIELD_BYTES:,} bytes", "send files as files")
        self._content += data[start:end]

    def _end_part(self) -> None:
        if self._file is None:
            self.fields[self._name] = self._content.decode("utf-8", "replace")
            return
        size, path = self._file.tell(), Path(self._file.name)
        self.close()
        name = self._told[b"filename"].decode("utf-8", "replace")
        self.files.append(Received(name, path, size, self._hash.hexdigest()))

    def _on_end(self) -> None:
        self._is_ended = True

    @property
    def _name(self) -> str:
        return self._told.get(b"name", b"").decode("utf-8", "replace")
