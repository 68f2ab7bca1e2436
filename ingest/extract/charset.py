"""Decodes bytes: byte order mark, the header's charset, the document's own, UTF-8, then Windows-1252.

Only the labels of the WHATWG Encoding Standard count, as webencodings knows them; any other is ignored.
A page's label chooses code that runs on the page's content, and some codecs that Python knows by other names are not
encodings of text, or take time that grows with the square of the input (`punycode`). One pass over the bytes per
candidate, and there are four at most.

Two departures from the plain order: a declaration that the bytes contradict is skipped. And a
declared Latin-1 or Windows-1252 yields to UTF-8 when non-ASCII bytes form valid UTF-8: those two
accept every byte, so their success proves nothing, while valid UTF-8 by accident is next to impossible.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

import webencodings

from sluice.contracts.errors import InvalidInput

_DECLARATION_BYTES = 4_096
_FALLBACK = "cp1252"
_NOT_READ = frozenset(("replacement", "x-user-defined"))
"""Encodings of the standard that can hide any text: `hz-gb-2312` and similar labels map to the first."""
_WINDOWS_1252 = "".join(bytes((byte,)).decode(_FALLBACK, "ignore") or chr(byte) for byte in range(256))
"""The standard's index, which gives every byte a character; five that Python's codec refuses are controls."""
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_BE, "utf-16-be"), (codecs.BOM_UTF16_LE, "utf-16-le"))
_MARKUP = re.compile(
    r"""<!--(?:-?>|.*?(?:-->|\Z))"""  # comments are skipped
    r"""|<(?P<name>[?/!]?[a-z][^\s/>]*)(?P<attributes>(?:[^>=]|=\s*(?:"[^"]*"|'[^']*')?)*)""",
    re.IGNORECASE | re.DOTALL,
)
"""A piece of markup with its attributes, quoted values whole; it reads every character once."""
_ATTRIBUTE = re.compile(r"""([^\s/>=]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>"'][^\s>]*)))?""")
_CHARSET_IN_CONTENT = re.compile(r"""charset\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s;"']+))""", re.IGNORECASE)


def decode(body: bytes, charset: str | None) -> str:
    """Decode `body`. Raises InvalidInput if it is binary in every reading."""
    for mark, encoding in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(encoding, "replace")
    for encoding in _candidates(body, charset):
        try:
            text = body.decode(encoding)
        except UnicodeDecodeError:
            continue
        return _refuse_binary(text)
    return _refuse_binary(codecs.charmap_decode(body, "strict", _WINDOWS_1252)[0])


def codec_of(label: str | None) -> str | None:
    """Return the codec name for `label`; None if it names no codec, or one that is not read."""
    encoding = webencodings.lookup(label or "")
    if encoding is None or encoding.name in _NOT_READ:
        return None
    # The standard reads GBK as GB 18030, a superset (section 10.1).
    return "gb18030" if encoding.name == "gbk" else str(encoding.codec_info.name)


def _candidates(body: bytes, charset: str | None) -> Iterator[str]:
    declared = [codec for codec in (codec_of(charset), _declared(body)) if codec]
    if not declared or declared[0] == _FALLBACK:
        yield "utf-8"
    yield from declared
    yield "utf-8"


def _declared(body: bytes) -> str | None:
    """Return the codec that the start of `body` declares by its XML declaration or a meta element (HTML, 13.2.3.2)."""
    start = body[:_DECLARATION_BYTES].decode("latin-1")
    for markup in _MARKUP.finditer(start):
        name = (markup["name"] or "").lower()
        label = None
        if name == "meta":
            label = _label_of_meta(_attributes(markup["attributes"]))
        elif name == "?xml" and markup.start() == 0:
            label = _attributes(markup["attributes"]).get("encoding")
        if codec := codec_of(label):
            return "utf-8" if codec.startswith("utf-16") else codec  # the declaration was readable as single bytes
    return None


def _label_of_meta(attributes: dict[str, str]) -> str | None:
    if "charset" in attributes:
        return attributes["charset"]
    if attributes.get("http-equiv", "").strip().lower() != "content-type":
        return None
    found = _CHARSET_IN_CONTENT.search(attributes.get("content", ""))
    return next(filter(None, found.groups()), None) if found else None


def _attributes(markup: str) -> dict[str, str]:
    """Return the attributes by their lower-case names; of two with one name the first counts."""
    found: dict[str, str] = {}
    for name, *values in _ATTRIBUTE.findall(markup):
        found.setdefault(name.lower(), "".join(values))
    return found


def _refuse_binary(text: str) -> str:
    if text.count("\x00", 0, _DECLARATION_BYTES) > 2:
        raise InvalidInput("body", "the body is binary, not text", "send its media type, or text")
    return text
