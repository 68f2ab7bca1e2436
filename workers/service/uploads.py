"""Uploads: files at the door become documents of one run, and each file has its line that says what became of it.

The lines as they came are a blob of the run's first event. What has become of a document since is read from the run's
other events, so nothing is kept twice.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from sluice.contracts.api import ENDED, Upload
from sluice.contracts.document import Document, Provenance, Scalar
from sluice.contracts.errors import InvalidInput, NotFound, first_problem
from sluice.contracts.event import Next
from sluice.contracts.index import DocumentIndexed
from sluice.contracts.ingest import FilesReceived, UploadedFile, UploadedFiles
from sluice.ingest.archive import plain_name
from sluice.ledger.events.outbox import NO_KEY
from sluice.trust.source_trust import is_derived_id, submission_id_for
from sluice.workers.context import Context
from sluice.workers.runtime.backpressure import DiskRoom
from sluice.workers.runtime.negative_list import without_forgotten
from sluice.workers.runtime.observers import utc_now
from sluice.workers.service.callers import Caller
from sluice.workers.service.contents import Content, contents_of, files_held
from sluice.workers.service.documents import batches_of, encoded
from sluice.workers.service.service import Service, require_documents_corpus

FOLDER = "uploads"
"""Of the data directory: what is being received. Nothing of it outlives its request."""
ABANDONED_SECONDS = 86_400.0
"""Age from which a folder is what a crash has left behind."""


class Received(NamedTuple):
    """A file of a request, on disk."""

    name: str
    path: Path
    size_bytes: int
    sha256: str


class UploadDesk:
    """Takes files in, and tells what became of them."""

    def __init__(self, context: Context, service: Service) -> None:
        self._context, self._service = context, service
        self._root = context.settings.data_dir / FOLDER

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Yield an empty folder for the files of one request, and remove it. Raises `DiskFull` if there is no room."""
        DiskRoom(self._context.settings.data_dir).require()
        self._root.mkdir(mode=0o700, exist_ok=True)
        for left in self._root.iterdir():
            if left.stat().st_mtime < time.time() - ABANDONED_SECONDS:
                shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=self._root, ignore_cleanup_errors=True) as folder:
            yield Path(folder)

    def receive(
        self,
        corpus: str,
        files: Sequence[Received],
        *,
        create_corpus: bool = False,
        document_id: str | None = None,
        metadata: Mapping[str, Scalar] | None = None,
        owner: str = NO_KEY,
        by_operator: bool = False,
        idempotency_key: str | None = None,
    ) -> Upload:
        """Record a run that ingests what the files hold; those that cannot be read are refused in their lines.

        `document_id` is for an upload of one file that is no archive; `metadata` goes to every document.

        Raises:
            InvalidInput: there is no file, or the id is not one that may be chosen.
            PolicyRefused: the corpus is an agent's memory.
            Conflict: the idempotency key was used for another request.
            Overloaded: its queues are full; says when to come back.
        """
        require_documents_corpus(corpus)
        if not files:
            raise InvalidInput("file", "there is none", "send at least one part with a filename")
        if document_id and is_derived_id(document_id):
            raise InvalidInput(
                "document_id", f"{document_id} has the form of ids that follow from a name", "leave it out"
            )
        told = [
            corpus,
            document_id or "",
            repr(sorted((metadata or {}).items())),
            *(f"{one.name}\0{one.sha256}" for one in files),
        ]
        run = self._service.new_run(
            "documents",
            corpus,
            owner=owner,
            idempotency_key=idempotency_key,
            fingerprint="\n".join(told),
            create_corpus=create_corpus,
        )
        self._context.admission.require_room(run, {"chunk": 1})
        submitter = None if owner == NO_KEY else owner
        provenance = Provenance(
            source="submission", fetched_at=utc_now(), submitted_by=submitter, by_operator=by_operator
        )
        taking = _Taking(self._context, corpus, provenance, document_id, dict(metadata or {}))
        submissions = [self._service.submission(batch) for batch in batches_of(taking.documents(files))]
        lines = UploadedFiles(files=tuple(taking.lines))
        blob = self._context.blobs.put(encoded("file", lines).encode())
        received = FilesReceived(
            files=blob,
            file_count=len(lines.files),
            accepted_count=sum(line.status == "accepted" for line in lines.files),
        )
        begun = self._service.begin(run, [Next(received), *submissions])
        return self._told(begun.run_id)

    def one(self, upload_id: str, caller: Caller) -> Upload:
        """Return an upload, each file with what has become of it. Raises `NotFound` as for runs."""
        corpus, _ = self._context.ledger.tenancy(upload_id)
        if not caller.may_see(corpus):
            raise NotFound(f"no upload {upload_id}")
        return self._told(upload_id)

    def _told(self, upload_id: str) -> Upload:
        ledger = self._context.ledger
        received = ledger.events_of_kind(upload_id, FilesReceived.kind)
        if not received:
            raise NotFound(f"run {upload_id} is no upload")
        view = ledger.run(upload_id)
        lines = UploadedFiles.model_validate_json(self._context.blobs.get(received[0].body_as(FilesReceived).files))
        indexed: set[str] = set()
        for event in ledger.events_of_kind(upload_id, DocumentIndexed.kind):
            indexed.update(event.body_as(DocumentIndexed).document_ids)
        gaps = {gap.subject: gap.detail or gap.reason for gap in view.missing}
        ended = view.status in ENDED

        def now(line: UploadedFile) -> UploadedFile:
            if line.status != "accepted":
                return line
            reason = gaps.get(line.name)
            if line.document_id in indexed:
                return line.model_copy(update={"status": "indexed", "reason": reason})
            if reason or ended:
                why = reason or ("the run was cancelled" if view.status == "cancelled" else "it gave no passage")
                return line.model_copy(update={"status": "failed", "reason": why})
            return line

        links = {"self": f"/v1/uploads/{upload_id}", "run": f"/v1/runs/{upload_id}"}
        return Upload(
            id=upload_id, corpus=view.corpus, status=view.status, files=tuple(map(now, lines.files)), links=links
        )


class _Taking:
    """Makes documents of the files of one upload; `lines` grows by one for each."""

    def __init__(
        self,
        context: Context,
        corpus: str,
        provenance: Provenance,
        document_id: str | None,
        metadata: dict[str, Scalar],
    ) -> None:
        self.lines: list[UploadedFile] = []
        self._context, self._corpus, self._provenance = context, corpus, provenance
        self._document_id, self._metadata = document_id, metadata
        self._policy = context.settings.trust.policy_of(corpus)
        self._ids: set[str] = set()
        self._held = files_held(context.readers, corpus)

    def documents(self, files: Sequence[Received]) -> Iterator[Document]:
        """Yield the documents of all files, in their order."""
        for received in files:
            name = plain_name(received.name) or "file"
            with received.path.open("rb") as file:
                for content in contents_of(file, name, received.size_bytes):
                    own_id = self._document_id if len(files) == 1 and content.name == name else None
                    document_id = own_id or submission_id_for(self._provenance.submitted_by, content.name)
                    document, line = self._taken(content, document_id)
                    self.lines.append(line)
                    if document is not None:
                        yield document

    def _taken(self, content: Content, document_id: str) -> tuple[Document | None, UploadedFile]:
        known = {"name": content.name, "sha256": content.sha256 or None}
        if content.fields is None:
            return None, UploadedFile(**known, status="refused", reason=content.reason)
        if document_id in self._ids:
            return None, UploadedFile(**known, status="refused", reason="a second file of this name")
        self._ids.add(document_id)
        known["document_id"] = document_id
        if self._held(document_id) == content.sha256:
            return None, UploadedFile(**known, status="unchanged")
        try:
            document = Document(
                id=document_id,
                file_path=content.name,
                provenance=self._provenance.model_copy(update={"file_sha256": content.sha256}),
                **{**content.fields, "metadata": {**self._metadata, **content.fields.get("metadata", {})}},
            )
            encoded("file", document)
        except ValidationError as error:
            return None, UploadedFile(**known, status="refused", reason=": ".join(first_problem(error)))
        except InvalidInput as error:
            return None, UploadedFile(**known, status="refused", reason=error.problem)
        if not self._policy.takes(document):
            why = f"the policy of corpus {self._corpus!r} does not list its source"
            return None, UploadedFile(**known, status="refused", reason=why)
        _, gaps = without_forgotten([document], self._corpus, "accept", self._context.ledger.forgotten)
        if gaps:
            return None, UploadedFile(**known, status="refused", reason=gaps[0].detail or gaps[0].reason)
        return document, UploadedFile(**known, status="accepted")
