"""From bytes to text: byte order mark, the header's charset, the document's own, UTF-8, then Windows-1252.

Two departures from the plain order. A declaration that the bytes contradict is passed over. And a
declared Latin-1 or Windows-1252 yields to UTF-8 when non-ASCII bytes form valid UTF-8: those two
accept every byte, so their success proves nothing, while valid UTF-8 by accident is next to impossible.
"""

from __future__ import annotations

from collections.abc import Iterator

from w3lib.encoding import html_body_declared_encoding, read_bom, resolve_encoding

from contracts.errors import InvalidInput

_DECLARATION_BYTES = 4_096
_FALLBACK = "cp1252"


def decode(body: bytes, charset: str | None) -> str:
    """The text of `body`. Raises InvalidInput when it is binary in every reading."""
    marked, mark = read_bom(body)
    if marked is not None and mark is not None:
        return body[len(mark) :].decode(marked, "replace")
    for encoding in _candidates(body, charset):
        try:
            text = body.decode(encoding)
        except (UnicodeDecodeError, LookupError):
            continue
        return _refuse_binary(text)
    return _refuse_binary(body.decode(_FALLBACK, "replace"))


def _candidates(body: bytes, charset: str | None) -> Iterator[str]:
    labels = (charset, html_body_declared_encoding(body[:_DECLARATION_BYTES]))
    declared = [encoding for encoding in (resolve_encoding(label) for label in labels if label) if encoding]
    if not declared or declared[0] == _FALLBACK:
        yield "utf-8"
    yield from declared
    yield "utf-8"


def _refuse_binary(text: str) -> str:
    if text.count("\x00", 0, _DECLARATION_BYTES) > 2:
        raise InvalidInput("body", "the body is binary, not text", "send its media type, or text")
    return text
