"""What a file holds for a corpus: the same for uploads, `sluice ingest` and repositories.

An archive is unpacked, and each of its files is one of its own. The bytes of a file say what it is, then its name; one
whose bytes contradict its name is refused. Whatever cannot be read is refused by name and costs no other file.
"""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import Any, BinaryIO, NamedTuple

from sluice.contracts.errors import InvalidInput
from sluice.ingest.archive import is_archive, unpacked, zip_kind
from sluice.ingest.extract.charset import decode
from sluice.ingest.extract.media_types import (
    ARCHIVES,
    BINARY,
    OFFICE,
    PDF,
    PLAIN,
    XML,
    ZIP,
    is_textual,
    media_type_for,
    named_type,
    signature,
)
from sluice.ingest.extract.office import missing_library
from sluice.ingest.repository.facts import FACTS_KEY, TESTS, parse_report, write_failing_tests
from sluice.workers.wiring.corpora import CorpusReaders

MAX_FILE_BYTES = 10_000_000
"""Largest file, or line of a BEIR file: as large as a crawled page may be. Documentation is far smaller."""
HEAD_BYTES = 4_096
"""Bytes at the head of a file that tell text from binary."""
CONTROL_SHARE = 0.05
"""Share of control characters above which bytes are no text: text has hardly any, machine code and samples a tenth."""
_BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")
_CONTROLS = bytes(set(range(32)) - {8, 9, 10, 12, 13, 27}) + b"\x7f"
_SIGNED = frozenset({PDF, ZIP, "application/gzip", *OFFICE})
"""Types whose files always have their signature."""


Known = Callable[[str], str | None]
"""From a document's id to the SHA-256 of the file that the corpus has of it; None where it has none."""


class Content(NamedTuple):
    """A file as a document: its path, the SHA-256 of its bytes, and a `Document`'s fields, or why there are none."""

    name: str
    sha256: str
    fields: dict[str, Any] | None = None
    reason: str | None = None
    size_bytes: int = 0


def contents_of(file: BinaryIO, name: str, max_file_bytes: int = MAX_FILE_BYTES) -> Iterator[Content]:
    """Yield the content of a file that can seek, or those of the files in it if it is an archive, one at a time."""
    size_bytes = file.seek(0, 2)
    file.seek(0)
    head = file.read(HEAD_BYTES)
    file.seek(0)
    try:
        is_packed = _is_archive(file, head, name)
    except InvalidInput as error:
        yield Content(name, _hash_of(file), reason=error.problem)
        return
    if is_packed:
        for one in unpacked(file, name, size_bytes, max_file_bytes):
            path = f"{name}/{one.name}" if one.name else name
            yield Content(path, "", reason=one.reason) if one.reason else content_of(one.body, path)
    elif size_bytes > max_file_bytes:
        yield Content(name, _hash_of(file), reason=f"larger than {max_file_bytes:,} bytes")
    else:
        yield content_of(file.read(max_file_bytes + 1), name)


def nothing_held(_document_id: str) -> None:
    """Have no file of any document."""


def files_held(readers: CorpusReaders, corpus: str) -> Known:
    """Return a function from a document's id to the SHA-256 of the file that the corpus has of it, None for none.

    So the corpus itself is the memory of what was read: what broke off goes on from there.
    """
    reader = readers.reader(corpus) if readers.exists(corpus) else None

    def held(document_id: str) -> str | None:
        facts = reader.documents([document_id]).get(document_id) if reader else None
        return facts.provenance.file_sha256 if facts else None

    return held


def content_of(body: bytes, name: str) -> Content:
    """Return the content of a file that is no archive."""
    return Content(name, hashlib.sha256(body).hexdigest(), *read_content(body, name), len(body))


def read_content(body: bytes, file_path: str) -> tuple[dict[str, Any] | None, str | None]:
    """Return a `Document`'s fields from a file's content, or why there are none. A test report gives failing tests."""
    try:
        return _read_content(body, file_path)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is this file's alone, and reported
        return None, f"cannot be read: {error!r}"[:500]


def _read_content(body: bytes, file_path: str) -> tuple[dict[str, Any] | None, str | None]:
    if not body.strip():
        return None, "empty"
    named, signed = named_type(file_path), signature(body[:HEAD_BYTES])
    if signed == ZIP:
        signed = zip_kind(io.BytesIO(body))
    media_type = signed or media_type_for(file_path, body[:HEAD_BYTES])
    if problem := _contradiction(named, signed):
        return None, problem
    if media_type in OFFICE and (why := missing_library()):
        return None, why
    if media_type == PDF or media_type in OFFICE:
        return {"media_type": media_type, "data": base64.b64encode(body)}, None
    if not is_textual(media_type) or is_binary(body[:HEAD_BYTES]):
        return None, "binary" if media_type == BINARY or is_textual(media_type) else f"{media_type}, not text"
    try:
        text = decode(body, None)
    except InvalidInput:
        return None, "binary"
    report = parse_report(text) if media_type == XML else None
    if report is None:
        return {"media_type": media_type, "text": text}, None
    told = write_failing_tests(file_path, report.failing, report.total)
    return {"media_type": PLAIN, "text": told, "metadata": {FACTS_KEY: TESTS}}, None


def _contradiction(named: str | None, signed: str | None) -> str | None:
    """Return why the name of a file and its bytes do not agree; None where they do."""
    if signed == "application/x-ole-storage":
        return "an office file with a password, or of a format before 2007: save it anew"
    if named in _SIGNED and signed != named:
        return f"its name says {named}, its bytes say {signed or 'something else'}"
    if signed in {PDF, *OFFICE} and named is not None and named != signed:
        return f"its name says {named}, its bytes say {signed}"
    return None


def is_binary(head: bytes) -> bool:
    """Return whether the first bytes of a file are no text."""
    if head.startswith(_BYTE_ORDER_MARKS):
        return False
    controls = len(head) - len(head.translate(None, _CONTROLS))
    return controls > CONTROL_SHARE * len(head)


def _is_archive(file: BinaryIO, head: bytes, name: str) -> bool:
    """Return whether to unpack the file: an archive by its bytes that no name makes something else, as `.jar` does."""
    if not is_archive(head) or (head.startswith(b"PK") and zip_kind(file) != ZIP):
        return False
    named = named_type(name)
    return named in ARCHIVES or (named is None and not PurePosixPath(name).suffix)


def _hash_of(file: BinaryIO) -> str:
    file.seek(0)
    return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
