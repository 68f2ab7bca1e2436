"""Media types are settled by signature, then name, then a look at the bytes."""

from __future__ import annotations

import pytest

from sluice.ingest.extract.media_types import code_language, media_type_for, settle


@pytest.mark.parametrize(
    ("path", "head", "expected"),
    [
        ("a/b.PY", b"", "text/x-python"),
        ("https://a.example/x.tsx?raw=1", b"", "text/x-tsx"),
        ("README.md", b"", "text/markdown"),
        ("paper", b"%PDF-1.7", "application/pdf"),
        ("page", b"\xef\xbb\xbf\n<!DOCTYPE html><p>", "text/html"),
        ("feed", b"<?xml version='1.0'?><rss>", "application/xml"),
        ("Dockerfile", b"FROM x", "text/x-dockerfile"),
        ("notes", b"plain words", "text/plain"),
        ("blob", b"\x00\x01\x02", "application/octet-stream"),
    ],
)
def test_the_type_is_found_by_name_or_bytes(path: str, head: bytes, expected: str) -> None:
    assert media_type_for(path, head) == expected


@pytest.mark.parametrize(
    ("declared", "path", "head", "expected"),
    [
        ("text/html; charset=utf-8", "a.py", b"<p>", "text/html"),
        ("text/plain", "https://raw.example/a.rs", b"fn main", "text/x-rust"),
        ("text/plain", None, b"<html>as an example", "text/plain"),
        ("application/octet-stream", "a.html", b"<p>", "text/html"),
        ("text/html", "x", b"%PDF-1.4", "application/pdf"),
        (None, "x.txt", b"", "text/plain"),
    ],
)
def test_a_generic_declaration_gives_way(declared: str | None, path: str | None, head: bytes, expected: str) -> None:
    assert settle(declared, path, head) == expected


@pytest.mark.parametrize(
    ("kind", "path", "expected"),
    [
        ("text/x-python", None, "python"),
        ("application/javascript", None, "javascript"),
        ("text/plain", "src/a.go", "go"),
        ("text/html", "src/a.go", None),
        ("text/markdown", None, None),
    ],
)
def test_the_language_of_code_is_known_by_type_and_name(kind: str, path: str | None, expected: str | None) -> None:
    assert code_language(kind, path) == expected
