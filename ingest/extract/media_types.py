"""Media types: what a body is, judged by its name and its first bytes, and which of them can be read.

A name is trusted before a generic type (servers send source code as `text/plain`), and bytes before
both where they carry a signature (a PDF sent as HTML is a PDF).
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from urllib.parse import urlsplit

HTML = "text/html"
MARKDOWN = "text/markdown"
PLAIN = "text/plain"
PDF = "application/pdf"
JSON = "application/json"
XML = "application/xml"
BINARY = "application/octet-stream"

SUPPORTED = "HTML, XHTML, Markdown, plain text, PDF, JSON, XML, RSS, Atom and source code"

_DOCUMENT_EXTENSIONS = {
    ".html": HTML,
    ".htm": HTML,
    ".xhtml": HTML,
    ".md": MARKDOWN,
    ".markdown": MARKDOWN,
    ".mdx": MARKDOWN,
    ".txt": PLAIN,
    ".text": PLAIN,
    ".rst": PLAIN,
    ".log": PLAIN,
    ".csv": PLAIN,
    ".tsv": PLAIN,
    ".pdf": PDF,
    ".json": JSON,
    ".jsonl": PLAIN,
    ".xml": XML,
    ".rss": XML,
    ".atom": XML,
}

_CODE_EXTENSIONS = {
    **dict.fromkeys((".py", ".pyi", ".pyw"), "python"),
    **dict.fromkeys((".js", ".mjs", ".cjs", ".jsx"), "javascript"),
    **dict.fromkeys((".ts", ".mts", ".cts"), "typescript"),
    ".tsx": "tsx",
    ".go": "go",
    ".rs": "rust",
    ".java": "java",
    **dict.fromkeys((".c", ".h"), "c"),
    **dict.fromkeys((".cc", ".cpp", ".cxx", ".hpp", ".hh", ".hxx"), "cpp"),
    ".cs": "csharp",
    ".rb": "ruby",
    ".php": "php",
    ".kt": "kotlin",
    ".swift": "swift",
    ".scala": "scala",
    ".lua": "lua",
    ".r": "r",
    ".pl": "perl",
    **dict.fromkeys((".sh", ".bash", ".zsh"), "bash"),
    ".sql": "sql",
    **dict.fromkeys((".yaml", ".yml"), "yaml"),
    ".toml": "toml",
    **dict.fromkeys((".ini", ".cfg", ".conf"), "ini"),
    ".css": "css",
    ".proto": "protobuf",
    ".tf": "hcl",
}

_CODE_NAMES = {"dockerfile": "dockerfile", "makefile": "makefile"}

_CODE_MEDIA_TYPES = {
    "text/javascript": "javascript",
    "application/javascript": "javascript",
    "application/x-javascript": "javascript",
    "application/typescript": "typescript",
    "text/typescript": "typescript",
    "text/css": "css",
    "text/x-c++": "cpp",
    "text/x-c++src": "cpp",
    "text/x-csrc": "c",
    "text/x-script.python": "python",
    "application/x-python": "python",
    "application/x-python-code": "python",
    "application/x-sh": "bash",
    "application/sql": "sql",
    "application/yaml": "yaml",
    "application/x-yaml": "yaml",
    "application/toml": "toml",
}

_SIGNATURES = (
    (b"%PDF-", PDF),
    (b"\x89PNG", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"\x7fELF", BINARY),
)


_CHARSET = re.compile(r"charset\s*=\s*[\"']?([A-Za-z0-9._:-]+)", re.IGNORECASE)


def bare(media_type: str | None) -> str:
    """The type without parameters, in lower case: `Text/HTML; charset=x` is `text/html`."""
    return (media_type or "").partition(";")[0].strip().lower()


def charset_of(media_type: str | None) -> str | None:
    """The charset that a type declares: `text/html; charset=koi8-r` declares `koi8-r`."""
    found = _CHARSET.search((media_type or "").partition(";")[2])
    return found[1].lower() if found else None


def code_language(media_type: str, path: str | None = None) -> str | None:
    """The programming language by media type, else by the name of the file; None for prose."""
    kind = bare(media_type)
    if kind in _CODE_MEDIA_TYPES:
        return _CODE_MEDIA_TYPES[kind]
    if kind.startswith("text/x-") and kind[7:] in _LANGUAGES:
        return kind[7:]
    return _language_of_name(path) if kind in _GENERIC else None


def code_media_type(language: str) -> str:
    """The media type that `code_language` reads back."""
    return f"text/x-{language}"


def media_type_for(path: str, head: bytes = b"") -> str:
    """What the file or URL `path` holds, by the signature of its first bytes, its name, then a look at the bytes."""
    signed = _signature(head)
    if signed:
        return signed
    language = _language_of_name(path)
    if language:
        return code_media_type(language)
    return _DOCUMENT_EXTENSIONS.get(_name(path).suffix) or _sniff(head)


def settle(media_type: str | None, path: str | None, head: bytes) -> str:
    """The type to act on: the declared one, unless it is generic or the bytes contradict it."""
    declared = bare(media_type)
    signed = _signature(head)
    if signed and (signed == PDF or declared in _GENERIC):
        return signed
    if declared not in _GENERIC:
        return declared
    named = media_type_for(path, b"") if path and _is_named(path) else ""
    if named and named != PDF:  # a PDF has its signature
        return named
    return PLAIN if declared == PLAIN else _sniff(head)


def _is_named(path: str) -> bool:
    return _language_of_name(path) is not None or _name(path).suffix in _DOCUMENT_EXTENSIONS


def _name(path: str) -> PurePosixPath:
    return PurePosixPath((urlsplit(path).path if "://" in path else path).lower())


def _language_of_name(path: str | None) -> str | None:
    if not path:
        return None
    name = _name(path)
    return _CODE_EXTENSIONS.get(name.suffix) or _CODE_NAMES.get(name.name)


def _signature(head: bytes) -> str | None:
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


_GENERIC = frozenset({"", PLAIN, BINARY, "text/x-source", "binary/octet-stream"})
_LANGUAGES = frozenset(_CODE_EXTENSIONS.values()) | frozenset(_CODE_NAMES.values())
