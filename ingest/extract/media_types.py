"""Media types: determines a body's type from its name and first bytes, and which types can be read.

A name overrides a generic type (servers send source code as `text/plain`), and a signature in the bytes
overrides both (a PDF sent as HTML is a PDF). `media_types.toml` maps names and types.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

HTML = "text/html"
MARKDOWN = "text/markdown"
RESTRUCTURED = "text/x-rst"
PLAIN = "text/plain"
PDF = "application/pdf"
JSON = "application/json"
XML = "application/xml"
LINES_OF_JSON = "application/x-ndjson"
NOTEBOOK = "application/x-ipynb+json"
ZIP, GZIP, TAR = "application/zip", "application/gzip", "application/x-tar"
ARCHIVES = frozenset({ZIP, GZIP, TAR})
OFFICE = {
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "DOCX file",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "PPTX file",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "XLSX file",
    "application/vnd.oasis.opendocument.text": "ODT file",
    "application/epub+zip": "EPUB file",
}
"""Zip files with a document in them, and what errors call them."""
BINARY = "application/octet-stream"

SUPPORTED = (
    "HTML, XHTML, Markdown, reStructuredText, plain text, PDF, DOCX, PPTX, XLSX, ODT, EPUB, notebooks, JSON, XML, "
    "RSS, Atom and source code"
)

_SIGNATURES = (
    (b"%PDF-", PDF),
    (b"\x89PNG", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"\x7fELF", BINARY),
    (b"\xd0\xcf\x11\xe0", "application/x-ole-storage"),
)


_GENERIC = frozenset({"", PLAIN, BINARY, "text/x-source", "binary/octet-stream"})
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([A-Za-z0-9._:-]+)", re.IGNORECASE)


@cache
def _known() -> Mapping[str, Mapping[str, str]]:
    """Load the tables of `media_types.toml`, each from an extension, name or type to its meaning."""
    tables = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    return {
        table: {name: meaning for meaning, names in rows.items() for name in names.split()}
        for table, rows in tables.items()
    }


def bare(media_type: str | None) -> str:
    """Return the type without parameters, in lower case: `Text/HTML; charset=x` is `text/html`."""
    return (media_type or "").partition(";")[0].strip().lower()


def charset_of(media_type: str | None) -> str | None:
    """Return the charset that a type declares: `text/html; charset=koi8-r` declares `koi8-r`."""
    found = _CHARSET.search((media_type or "").partition(";")[2])
    return found[1].lower() if found else None


def code_language(media_type: str, path: str | None = None) -> str | None:
    """Return the programming language by media type, else by the name of the file; None for prose."""
    kind = bare(media_type)
    if kind in _known()["code_types"]:
        return _known()["code_types"][kind]
    if kind.startswith("text/x-") and kind[7:] in _known()["code"].values():
        return kind[7:]
    return _language_of_name(path) if kind in _GENERIC else None


def code_languages() -> tuple[str, ...]:
    """Return the names of the programming languages that files are known to be in."""
    return tuple(sorted({*_known()["code"].values(), *_known()["code_types"].values()}))


def is_textual(kind: str) -> bool:
    """Return whether the bare type `kind` can be read as text; a picture cannot, even if it is written as XML."""
    is_text = kind.startswith("text/") or kind.endswith(("+xml", "+json")) or kind in (JSON, XML, LINES_OF_JSON)
    is_medium = kind.startswith(("image/", "audio/", "video/", "font/")) or kind == "application/postscript"
    return not is_medium and (is_text or code_language(kind) is not None)


def code_media_type(language: str) -> str:
    """Return the media type that `code_language` maps back to `language`."""
    return f"text/x-{language}"


def media_type_for(path: str, head: bytes = b"") -> str:
    """Return the type of the file or URL `path`, by the signature of its first bytes, its name, then sniffing."""
    signed = signature(head)
    if signed == ZIP and (office := _office("", path)):
        return office
    return signed or named_type(path) or _sniff(head)


def settle(media_type: str | None, path: str | None, head: bytes) -> str:
    """Return the type to act on: the declared one, unless it is generic or the bytes contradict it."""
    declared = bare(media_type)
    signed = signature(head)
    if signed == ZIP and (office := _office(declared, path)):
        return office
    if signed and (signed == PDF or declared in _GENERIC):
        return signed
    if declared not in _GENERIC:
        return declared
    named = media_type_for(path, b"") if path and _is_named(path) else ""
    if named and named != PDF:  # a real PDF has its signature
        return named
    return PLAIN if declared == PLAIN else _sniff(head)


def _office(declared: str, path: str | None) -> str | None:
    """Return the office type that a zip file is by its declared type, or else by its name."""
    named = named_type(path) if path and declared in {*_GENERIC, ZIP} else declared
    return named if named in OFFICE else None


def named_type(path: str) -> str | None:
    """Return the type that the name of a file says, None where it says none."""
    language = _language_of_name(path)
    return code_media_type(language) if language else _known()["documents"].get(_name(path).suffix)


def _is_named(path: str) -> bool:
    return named_type(path) is not None


def _name(path: str) -> PurePosixPath:
    return PurePosixPath((urlsplit(path).path if "://" in path else path).lower())


def _language_of_name(path: str | None) -> str | None:
    if not path:
        return None
    name = _name(path)
    return _known()["code"].get(name.suffix) or _known()["code"].get(name.name)


def signature(head: bytes) -> str | None:
    """Return the type that the first bytes of a file prove; None where they prove none."""
    return next((kind for magic, kind in _SIGNATURES if head.startswith(magic)), None)


def _sniff(head: bytes) -> str:
    start = head[:2048].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<!doctype html", b"<html", b"<head", b"<body")):
        return HTML
    if start.startswith(b"<?xml"):
        return HTML if b"<html" in start else XML
    if start.startswith((b"<rss", b"<feed")):
        return XML
    if b"\x00" in start and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return BINARY
    return PLAIN
