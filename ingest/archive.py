"""Unpacks zip, tar and gzip files within limits, one file at a time and never to a path that an archive names.

Sizes in headers lie, so bytes are counted while they are unpacked. An archive in an archive is not opened. What cannot
be had of one file costs that file alone; a limit of the whole archive ends it, and its last line says so.
"""

from __future__ import annotations

import gzip
import io
import re
import tarfile
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from tempfile import SpooledTemporaryFile
from typing import Any, BinaryIO, NamedTuple

from sluice.contracts.errors import InvalidInput
from sluice.ingest.extract.media_types import OFFICE, ZIP

MOST_ENTRIES = 1_000
MOST_UNPACKED_BYTES = 200_000_000
"""Of all files of an archive together."""
MOST_RATIO = 100
"""Unpacked bytes to packed ones. Text packs to a fifth; deflate's utmost is 1 to 1,032."""
RATIO_FROM_BYTES = 1_000_000
"""The ratio counts from here: a small file of equal lines is no harm."""
MOST_NAME_CHARACTERS = 1_000
_CHUNK_BYTES, _SPOOLED_BYTES = 65_536, 1_000_000
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
_END_BYTES = 65_557
"""The end record of a zip with the longest comment."""
_MOST_DIRECTORY_BYTES = 4_000_000
_OOXML = "application/vnd.openxmlformats-officedocument."
_BY_PART = {
    "word/document.xml": f"{_OOXML}wordprocessingml.document",
    "ppt/presentation.xml": f"{_OOXML}presentationml.presentation",
    "xl/workbook.xml": f"{_OOXML}spreadsheetml.sheet",
}
_METHODS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_UNREADABLE = (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, OSError, ValueError, NotImplementedError)
"""What the standard library raises for a damaged archive. (ValueError: names and numbers in headers)"""


class Packed(NamedTuple):
    """A file of an archive: its path there, and its content, or why there is none."""

    name: str
    body: bytes = b""
    reason: str | None = None


class _TooMuch(Exception):
    """A limit of the whole archive; `str()` says which."""


@dataclass
class _Meter:
    """Counts what one archive has unpacked to."""

    most_file_bytes: int
    entries: int = 0
    unpacked_bytes: int = 0
    names: set[str] = field(default_factory=set)

    def parts(self, file: BinaryIO, packed_bytes: int, most_bytes: int) -> Iterator[bytes]:
        """Yield the content of a file. Raises InvalidInput if it is too large itself, _TooMuch if all are."""
        size = 0
        while part := file.read(_CHUNK_BYTES):
            size += len(part)
            self.unpacked_bytes += len(part)
            if self.unpacked_bytes > MOST_UNPACKED_BYTES:
                raise _TooMuch(f"it unpacks to more than {MOST_UNPACKED_BYTES:,} bytes")
            if size > max(RATIO_FROM_BYTES, MOST_RATIO * packed_bytes):
                raise InvalidInput("file", f"unpacks to more than {MOST_RATIO} times its size")
            if size > most_bytes:
                raise InvalidInput("file", f"larger than {most_bytes:,} bytes")
            yield part

    def read(self, name: str, file: BinaryIO, packed_bytes: int) -> Packed:
        """Return a file with its content, or with the reason if that is too large or an archive again."""
        try:
            body = b"".join(self.parts(file, packed_bytes, self.most_file_bytes))
            is_inner = is_archive(body[:512]) and (not body.startswith(b"PK") or zip_kind(io.BytesIO(body)) == ZIP)
        except InvalidInput as error:
            return Packed(name, reason=error.problem)
        return Packed(name, reason="an archive in an archive") if is_inner else Packed(name, body)

    def enter(self, name: str) -> tuple[str, str | None]:
        """Count an entry; return its name in plain form, and why it is left out."""
        self.entries += 1
        if self.entries > MOST_ENTRIES:
            raise _TooMuch(f"it has more than {MOST_ENTRIES:,} files")
        plain = plain_name(name)
        if not plain:
            return name[:MOST_NAME_CHARACTERS], "has no name"
        if plain in self.names:
            return plain, "a second file of this name"
        self.names.add(plain)
        is_hidden = any(part.startswith(".") or part == "__MACOSX" for part in plain.split("/"))
        return plain, "hidden" if is_hidden else None


def plain_name(name: str) -> str:
    """Return a path without drive, root, `.`, `..`, backslashes and control characters; empty if nothing is left."""
    parts = _CONTROLS.sub("", unicodedata.normalize("NFC", name).replace("\\", "/")).split("/")
    kept = [part for part in parts if part.strip() not in ("", ".", "..") and not re.fullmatch("[A-Za-z]:", part)]
    return "/".join(kept)[:MOST_NAME_CHARACTERS]


def zip_kind(file: BinaryIO) -> str:
    """Return the media type of a zip file by what is in it: an office file, a book, or just a zip.

    Leaves the file at its beginning. Raises InvalidInput if its directory is larger than that of any it should be: the
    library would make an object of each of its millions of entries.
    """
    file.seek(0, 2)
    file.seek(-min(file.tell(), _END_BYTES), 2)
    _, found, end = file.read().rpartition(b"PK\x05\x06")
    if found and int.from_bytes(end[8:12], "little") > _MOST_DIRECTORY_BYTES:
        raise InvalidInput("file", f"has more than {MOST_ENTRIES:,} files")
    file.seek(0)
    try:
        with zipfile.ZipFile(file) as archive:
            names = archive.NameToInfo
            if "mimetype" in names:
                with archive.open("mimetype") as content:
                    told = content.read(100).decode("ascii", "replace").strip()
                return told if told in OFFICE else ZIP
            return next((kind for name, kind in _BY_PART.items() if name in names), ZIP)
    except _UNREADABLE:
        return ZIP
    finally:
        file.seek(0)


def is_archive(head: bytes) -> bool:
    """Return whether a file with these first bytes may be an archive: zip, gzip or tar."""
    return head.startswith((b"PK\x03\x04", b"PK\x05\x06", b"\x1f\x8b")) or head[257:262] == b"ustar"


def unpacked(file: BinaryIO, name: str, packed_bytes: int, most_file_bytes: int) -> Iterator[Packed]:
    """Yield the files of the archive `file`, which is called `name` and can seek.

    A gzip of a tar counts as one archive. Each file is named by its path in the archive, that of a plain gzip by `name`
    without its ending. A defect of the whole archive comes last, under an empty name.
    """
    meter = _Meter(most_file_bytes)
    head = file.read(512)
    file.seek(0)
    try:
        if head.startswith(b"\x1f\x8b"):
            yield from _gunzipped(file, name, packed_bytes, meter)
        elif head[257:262] == b"ustar":
            yield from _tarred(file, meter)
        else:
            yield from _zipped(file, meter)
    except (InvalidInput, _TooMuch) as error:
        why = error.problem if isinstance(error, InvalidInput) else f"{error}: the rest of it was left out"
        yield Packed("", reason=why)
    except _UNREADABLE as error:
        yield Packed("", reason=f"the archive is damaged: {error}"[:300])


def _zipped(file: BinaryIO, meter: _Meter) -> Iterator[Packed]:
    with zipfile.ZipFile(file) as archive:
        for entry in archive.infolist():
            if entry.is_dir():
                continue
            name, reason = meter.enter(entry.filename)
            if (entry.external_attr >> 16) & 0o170000 == 0o120000:
                reason = "a link"
            elif entry.flag_bits & 1:
                reason = "encrypted"
            elif entry.compress_type not in _METHODS:
                reason = "packed by another method than deflate"
            if reason:
                yield Packed(name, reason=reason)
                continue
            try:
                with archive.open(entry) as content:
                    yield meter.read(name, content, entry.compress_size)  # type: ignore[arg-type]
            except _UNREADABLE as error:
                yield Packed(name, reason=f"damaged: {error}"[:300])


def _tarred(file: BinaryIO, meter: _Meter) -> Iterator[Packed]:
    bounded: Any = _Bounded(file, meter.most_file_bytes)
    with tarfile.open(fileobj=bounded, mode="r:") as archive:
        for entry in archive:
            if entry.isdir():
                continue
            name, reason = meter.enter(entry.name)
            if entry.issym() or entry.islnk():
                reason = "a link"
            elif not entry.isreg() or entry.issparse():
                reason = "not a regular file"
            content: Any = archive.extractfile(entry) if reason is None else None
            if content is None:
                yield Packed(name, reason=reason or "not a regular file")
                continue
            yield meter.read(name, content, entry.size)


def _gunzipped(file: BinaryIO, name: str, packed_bytes: int, meter: _Meter) -> Iterator[Packed]:
    with gzip.GzipFile(fileobj=file, mode="rb") as content, SpooledTemporaryFile(_SPOOLED_BYTES) as spooled:
        whole: Any = spooled
        whole.writelines(_Meter(0).parts(content, packed_bytes, MOST_UNPACKED_BYTES))  # type: ignore[arg-type]
        whole.seek(0)
        head = whole.read(512)
        whole.seek(0)
        if head[257:262] == b"ustar":
            yield from _tarred(whole, meter)
            return
        inner = name.rpartition("/")[2]
        yield meter.read(inner[:-3] if inner.lower().endswith(".gz") else inner, whole, packed_bytes)


class _Bounded:
    """A file of which no one reads more at once than a file may have: headers of tar may claim gigabytes."""

    def __init__(self, file: BinaryIO, most_bytes: int) -> None:
        self._file, self._most_bytes = file, most_bytes
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int = -1) -> bytes:
        if size < 0 or size > self._most_bytes:
            raise tarfile.ReadError(f"a header of {size:,} bytes")
        return self._file.read(size)
