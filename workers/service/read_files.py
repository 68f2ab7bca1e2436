"""Documents from files of this machine, for `sluice ingest`.

A file is one document, and so is each file of an archive. A `.jsonl` file whose first line is an object with `_id` and
`text` (the form of the BEIR collections) is one document a line; any other `.jsonl` is text. In a folder, hidden names
(version control among them), symbolic links, installed packages, virtual environments, pictures and other media, binary
and oversized files are left out, and each is reported with its reason.

Promises: documents come one at a time, in the order of their paths, and memory holds one file or line at a time and
the ids given so far. The same paths give the same ids, so reading a folder again replaces its documents.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, BinaryIO

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sluice.contracts.document import Document, Provenance, document_id_for
from sluice.contracts.errors import InvalidInput, first_problem
from sluice.contracts.trust import Signature
from sluice.ingest.extract.media_types import PLAIN
from sluice.trust.signature import SIGNATURE_SUFFIX, problem_with
from sluice.workers.service.contents import MAX_FILE_BYTES, Content, Known, contents_of, nothing_held

MOST_SIGNATURE_BYTES = 16_384
"""Bytes read of a signature, which has some hundred."""
SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__", "CVS", "_darcs"})
UNCHANGED = "unchanged"
"""Why a file is left out that the corpus has with the same content."""

OnSkip = Callable[[Path, str], None]


def documents_in(
    paths: Iterable[Path],
    *,
    now: datetime,
    on_skip: OnSkip,
    max_file_bytes: int = MAX_FILE_BYTES,
    keys: Mapping[str, str] = MappingProxyType({}),
    known: Known = nothing_held,
) -> Iterator[Document]:
    """Yield the documents in files and folders; `on_skip` gets every path that is left out, and why.

    `file_path` is relative to the path given, the name of a given folder first. `now` becomes `fetched_at`. Only
    the document itself can state when it was published: a file's time of change is that of a copy or a checkout.
    `FILE.sig` is the signature of FILE, verified by the public `keys`; a file whose signature is not valid is left out.

    The files of an archive are documents of their own. A file whose content is `known` is left out.

    A file that cannot be read, or a line (`file:line`) that is malformed or has the id of another, is left out.

    Raises:
        InvalidInput: a path is not there, or two of the paths given have a file of the same name.
    """
    reading = _Reading(now, on_skip, max_file_bytes, keys, known)
    for path in paths:
        if not path.exists():
            raise InvalidInput("path", f"no file or folder {path}")
        resolved = path.resolve()
        if resolved.is_dir():
            for found in _files_below(resolved, on_skip):
                yield from reading.documents(found, os.path.join(resolved.name, found.relative_to(resolved)))
        else:
            yield from reading.documents(resolved, path.name)


@dataclass
class _Reading:
    """The clock, limits and ids given so far of one call."""

    now: datetime
    on_skip: OnSkip
    max_file_bytes: int
    keys: Mapping[str, str]
    known: Known
    _files: set[tuple[int, int]] = field(default_factory=set)
    _ids: set[str] = field(default_factory=set)

    def documents(self, path: Path, file_path: str) -> Iterator[Document]:
        try:
            facts = path.stat()
            if not stat.S_ISREG(facts.st_mode):
                self.on_skip(path, "not a regular file")
                return
            if (facts.st_dev, facts.st_ino) in self._files:
                self.on_skip(path, "read already")
                return
            self._files.add((facts.st_dev, facts.st_ino))
            with path.open("rb") as file:
                yield from self._read(file, path, file_path)
        except OSError as error:
            self.on_skip(path, f"cannot be read: {error.strerror or error}")

    def _read(self, file: BinaryIO, path: Path, file_path: str) -> Iterator[Document]:
        if path.suffix.lower() == ".jsonl" and _is_beir(file, self.max_file_bytes):
            yield from self._lines(file, path)
        else:
            signer, problem = self._signer(file, path)
            if problem:
                self.on_skip(path, problem)
                return
            provenance = Provenance(source="file", fetched_at=self.now, signed_by=signer)
            for content in contents_of(file, file_path, self.max_file_bytes):
                found = path / content.name[len(file_path) + 1 :] if content.name != file_path else path
                if content.fields is None:
                    self.on_skip(found, content.reason or "nothing to read")
                elif document := self._document(content, found, provenance):
                    yield document

    def _document(self, content: Content, found: Path, provenance: Provenance) -> Document | None:
        """Return the document of a file; None, with the reason reported, if it is known or not valid."""
        document_id = document_id_for(content.name)
        if not self._is_new(document_id):
            raise InvalidInput(str(found), f"another file is {content.name} too", "ingest their common parent")
        if self.known(document_id) == content.sha256:
            self.on_skip(found, UNCHANGED)
            return None
        whole = provenance.model_copy(update={"file_sha256": content.sha256})
        try:
            return Document(id=document_id, file_path=content.name, provenance=whole, **(content.fields or {}))
        except ValidationError as error:
            self.on_skip(found, ": ".join(first_problem(error)))
            return None

    def _signer(self, file: BinaryIO, path: Path) -> tuple[str | None, str | None]:
        """Return the id of the key that signed the file, if any; or the defect of the signature."""
        beside = path.with_name(path.name + SIGNATURE_SUFFIX)
        if not beside.is_file():
            return None, None
        try:
            with beside.open("rb") as signed:
                signature = Signature.model_validate_json(signed.read(MOST_SIGNATURE_BYTES))
        except ValidationError:
            return None, f"its signature {beside.name} is not one that `sluice sign` wrote"
        problem = problem_with(signature, file.read(self.max_file_bytes + 1), None, self.keys)
        file.seek(0)
        return signature.key_id, f"its signature is not valid: {problem[0]} ({problem[1]})" if problem else None

    def _lines(self, file: BinaryIO, path: Path) -> Iterator[Document]:
        number = 0
        while line := file.readline(self.max_file_bytes + 1):
            number += 1
            where = Path(f"{path}:{number}")
            if len(line) > self.max_file_bytes:
                self.on_skip(where, f"longer than {self.max_file_bytes:,} bytes")
                while line and not line.endswith(b"\n"):
                    line = file.readline(self.max_file_bytes)
                continue
            if not line.strip():
                continue
            try:
                document = _beir_document(line, self.now)
            except ValidationError as error:
                self.on_skip(where, f"{': '.join(first_problem(error))}; a line is one object with _id and text")
                continue
            if document is None:
                self.on_skip(where, "empty")
            elif self._is_new(document.id):
                yield document
            else:
                self.on_skip(where, f"a second document {document.id!r}: every _id may stand once")

    def _is_new(self, document_id: str) -> bool:
        is_new = document_id not in self._ids
        self._ids.add(document_id)
        return is_new


def _files_below(folder: Path, on_skip: OnSkip) -> Iterator[Path]:
    """Yield files in the order of their paths; follow no symbolic link, so never go in circles or out of `folder`."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        on_skip(folder, f"cannot be read: {error.strerror or error}")
        return
    for entry in entries:
        path = Path(entry.path)
        reason = _left_out(entry)
        if reason:
            on_skip(path, reason)
        elif entry.is_dir(follow_symlinks=False):
            yield from _files_below(path, on_skip)
        else:
            yield path


def _left_out(entry: os.DirEntry[str]) -> str | None:
    if entry.name.startswith("."):
        return "hidden"
    if entry.is_symlink():
        return "a symbolic link"
    if entry.name.endswith(SIGNATURE_SUFFIX) and os.path.exists(entry.path.removesuffix(SIGNATURE_SUFFIX)):
        return "a signature"
    if entry.is_dir():
        if entry.name in SKIPPED_FOLDERS:
            return "not the author's own"
        if os.path.exists(os.path.join(entry.path, "pyvenv.cfg")):
            return "a virtual environment"
    return None


def _is_beir(file: BinaryIO, max_bytes: int) -> bool:
    """Return whether the first line that is not blank is a BEIR document; leaves the file at its beginning."""
    line = b"\n"
    while line and not line.strip():
        line = file.readline(max_bytes)
    file.seek(0)
    try:
        first = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(first, dict) and "_id" in first and "text" in first


class _BeirLine(BaseModel):
    """A document of a BEIR collection. Further fields are ignored."""

    model_config = ConfigDict(strict=True)

    id: Annotated[str | int, Field(alias="_id")]
    text: str
    title: str | None = None
    metadata: Any = None


def _beir_document(line: bytes, now: datetime) -> Document | None:
    """Return the document of one line; None when it has neither text nor title. Raises `ValidationError`."""
    read = _BeirLine.model_validate_json(line)
    title = (read.title or "").strip()
    if not read.text.strip() and not title:
        return None
    metadata = read.metadata if isinstance(read.metadata, dict) else {}
    return Document(
        id=str(read.id),
        title=title or None,
        media_type=PLAIN,
        text=read.text if read.text.strip() else title,
        metadata={key: value for key, value in metadata.items() if isinstance(value, str | int | float | bool)},
        provenance=Provenance(source="file", fetched_at=now),
    )
