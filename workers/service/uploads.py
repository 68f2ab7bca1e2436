"""Uploads: files at the door become documents of one run, and each file has its line that says what became of it.

The lines as they came are a blob of the run's first event. What has become of a document since is read from the run's
other events, so nothing is kept twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import BinaryIO, Literal, NamedTuple

from pydantic import ValidationError

from sluice.contracts.api import ENDED, Upload
from sluice.contracts.document import Document, Provenance, Scalar
from sluice.contracts.errors import InvalidInput, NotFound, first_problem
from sluice.contracts.event import Next
from sluice.contracts.index import DocumentIndexed
from sluice.contracts.ingest import FilesReceived, UploadedFile, UploadedFiles
from sluice.ingest.archive import plain_name
from sluice.ledger.events.outbox import NO_KEY
from sluice.text.batches import in_batches
from sluice.trust.settings import CorpusPolicy
from sluice.trust.source_trust import is_derived_id, submission_id_for
from sluice.workers.context import Context
from sluice.workers.runtime.backpressure import DiskRoom
from sluice.workers.runtime.negative_list import without_forgotten
from sluice.workers.runtime.observers import utc_now
from sluice.workers.service.callers import Caller
from sluice.workers.service.contents import Content, Known, contents_of, files_held, nothing_held
from sluice.workers.service.documents import DOCUMENTS_PER_EVENT, batches_of, encoded
from sluice.workers.service.service import Service, require_documents_corpus
from sluice.workers.wiring.corpora import policy_of

MOST_FILES, MOST_BYTES = 10_000, 1_000_000_000
"""Of one upload, those in archives counted: what comes after an archive that exceeds them is refused."""
_TOO_MUCH = "the files before it unpack to more than is read at once: send it by itself"
_LIST_IS_GONE = "the list of names went with a forgotten document"


class Received(NamedTuple):
    """A file of a request, which can seek."""

    name: str
    file: BinaryIO


class UploadDesk:
    """Takes files in, and tells what became of them."""

    def __init__(self, context: Context, service: Service) -> None:
        self._context, self._service = context, service

    def require_room(self) -> None:
        """Raise `DiskFull` if the disk is short of room."""
        DiskRoom(self._context.settings.data_dir).require()

    def receive(
        self,
        corpus: str,
        files: Sequence[Received],
        *,
        create_corpus: bool = False,
        document_id: str = "",
        metadata: Mapping[str, Scalar] = MappingProxyType({}),
        again: bool = False,
        owner: str = NO_KEY,
        by_operator: bool = False,
        idempotency_key: str | None = None,
    ) -> Upload:
        """Record a run that ingests what the files hold; those that cannot be read are refused in their lines.

        `document_id` is for an upload of one file that is no archive; `metadata` goes to every document. A file that
        the corpus has with the same bytes is read `again` only on demand.

        Raises:
            InvalidInput: the id is not one that may be chosen.
            PolicyRefused: the corpus is an agent's memory.
            Conflict: the idempotency key was used for another request.
            Overloaded: its queues are full; says when to come back.
        """
        require_documents_corpus(corpus)
        if is_derived_id(document_id):
            problem = f"{document_id} has the form of ids that follow from a name"
            raise InvalidInput("document_id", problem, "leave it out")
        told = (
            corpus,
            document_id,
            again,
            *sorted(metadata.items()),
            *map(_fingerprint, files if idempotency_key else ()),
        )
        run = self._service.new_run(
            "documents",
            corpus,
            owner=owner,
            idempotency_key=idempotency_key,
            fingerprint=repr(told),
            create_corpus=create_corpus,
        )
        self._context.admission.require_room(run, {"chunk": 1})
        submitter = None if owner == NO_KEY else owner
        provenance = Provenance(
            source="submission", fetched_at=utc_now(), submitted_by=submitter, by_operator=by_operator
        )
        held = nothing_held if again else files_held(self._context.readers, corpus)
        policy = policy_of(self._context.settings.trust, self._context.ledger, corpus)
        taking = _Taking(self._context, corpus, provenance, document_id, metadata, held, policy)
        submissions = [self._service.submission(batch) for batch in batches_of(taking.documents(files))]
        lists = in_batches(taking.lines, lambda _: 1, most_items=DOCUMENTS_PER_EVENT, most_size=DOCUMENTS_PER_EVENT)
        begun = self._service.begin(run, [*map(self._received, lists), *submissions])
        return self._told(begun.run_id)

    def _received(self, lines: Sequence[UploadedFile]) -> Next:
        """Keep a list of files, and return the event that names it."""
        blob = self._context.blobs.put(encoded("file", UploadedFiles(files=tuple(lines))).encode())
        ids = tuple(one.document_id for one in lines if one.document_id and one.status != "refused")
        unchanged = sum(one.status == "unchanged" for one in lines)
        return Next(FilesReceived(files=blob, document_ids=ids, unchanged_count=unchanged))

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
        lines = [line for event in received for line in self._lines(event.body_as(FilesReceived), view.corpus)]
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
        return Upload(id=upload_id, corpus=view.corpus, status=view.status, files=tuple(map(now, lines)), links=links)

    def _lines(self, received: FilesReceived, corpus: str) -> Iterator[UploadedFile]:
        """Yield the files as they came; where their list went with a forgotten document, what the corpus has."""
        try:
            yield from UploadedFiles.model_validate_json(self._context.blobs.get(received.files)).files
        except NotFound:
            held = files_held(self._context.readers, corpus)
            for one in received.document_ids:
                status: Literal["indexed", "failed"] = "indexed" if held(one) else "failed"
                yield UploadedFile(name=one, document_id=one, status=status, reason=_LIST_IS_GONE)


@dataclass
class _Taking:
    """Makes documents of the files of one upload; `lines` grows by one for each."""

    context: Context
    corpus: str
    provenance: Provenance
    document_id: str
    metadata: Mapping[str, Scalar]
    held: Known
    policy: CorpusPolicy
    lines: list[UploadedFile] = field(default_factory=list)
    _ids: set[str] = field(default_factory=set)
    _read_bytes: int = 0

    def documents(self, files: Sequence[Received]) -> Iterator[Document]:
        """Yield the documents of all files, in their order."""
        for received in files:
            name = plain_name(received.name) or "file"
            if len(self.lines) > MOST_FILES or self._read_bytes > MOST_BYTES:
                self.lines.append(UploadedFile(name=name, status="refused", reason=_TOO_MUCH))
                continue
            for content in contents_of(received.file, name):
                own_id = self.document_id if len(files) == 1 and content.name == name else None
                document_id = own_id or submission_id_for(self.provenance.submitted_by, content.name)
                self._read_bytes += content.size_bytes
                line = UploadedFile(name=content.name, sha256=content.sha256 or None, status="refused")
                try:
                    document = self._document(content, document_id)
                except ValidationError as error:
                    line = line.model_copy(update={"reason": ": ".join(first_problem(error))})
                except InvalidInput as error:
                    line = line.model_copy(update={"reason": error.problem})
                else:
                    known = {"document_id": document_id, "status": "accepted" if document else "unchanged"}
                    line = line.model_copy(update=known)
                    if document:
                        yield document
                self.lines.append(line)

    def _document(self, content: Content, document_id: str) -> Document | None:
        """Return the document of a file; None if it is unchanged. Raises InvalidInput or ValidationError."""
        if content.fields is None:
            raise InvalidInput("file", content.reason or "nothing to read")
        if document_id in self._ids:
            raise InvalidInput("file", "a second file of this name")
        self._ids.add(document_id)
        if self.held(document_id) == content.sha256:
            return None
        metadata = {**self.metadata, **content.fields.get("metadata", {})}
        provenance = self.provenance.model_copy(update={"file_sha256": content.sha256})
        fields = {**content.fields, "metadata": metadata, "provenance": provenance}
        document = Document(id=document_id, file_path=content.name, **fields)
        encoded("file", document)
        if not self.policy.takes(document):
            raise InvalidInput("file", f"the policy of corpus {self.corpus!r} does not list its source")
        _, gaps = without_forgotten([document], self.corpus, "accept", self.context.ledger.forgotten)
        if gaps:
            raise InvalidInput("file", gaps[0].detail or gaps[0].reason)
        return document


def _fingerprint(received: Received) -> tuple[str, str]:
    received.file.seek(0)
    return received.name, hashlib.file_digest(received.file, "sha256").hexdigest()  # type: ignore[arg-type]
