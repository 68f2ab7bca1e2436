"""What a text says when it is decoded: escapes, base64, letters turned by 13, and digits that stand for letters."""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import re
from collections.abc import Callable, Iterator
from urllib.parse import unquote

_ESCAPED = re.compile(r"\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|%[2-7][0-9a-fA-F]|&#x?[0-9a-fA-F]{2,5};")
_BACKSLASHED = re.compile(r"\\u([0-9a-fA-F]{4})|\\x([0-9a-fA-F]{2})")
_BASE64 = re.compile(r"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/_-]{16,4000}={0,2}(?![A-Za-z0-9+/=])")
_HEXADECIMAL = re.compile(r"(?<![0-9A-Za-z])(?:[0-9A-Fa-f]{2}){12,2000}(?![0-9A-Za-z])")
_PROSE = re.compile(r"[A-Za-z./~-]{2,} [A-Za-z./~-]+")
_ROT13 = ("vtaber", "qvfertneq", "vafgehpgvba", "cerivbhf", "sbetrg")
_DIGITS = str.maketrans("013457@$", "oieastas")
_MIXED = re.compile(r"\b(?=\w*[a-z])(?=\w*\d)\w{3,}\b")
_JOINED = re.compile(r"(?<=[a-z])[-_.](?=[a-z])")
_FEW = 3
_SHORTEST_RUN = 16


def readings_within(text: str, read: str) -> Iterator[str]:
    """What else a text says, each in small letters. `read` is the text as its letters are read."""
    if _ESCAPED.search(text):
        characters = _BACKSLASHED.sub(lambda found: chr(int(found[1] or found[2], 16)), text)
        yield html.unescape(unquote(characters, errors="replace")).lower()
    if any(word in read for word in _ROT13):
        yield codecs.decode(read, "rot13")
    if len(_JOINED.findall(read)) >= _FEW:
        yield _JOINED.sub(" ", read)
    if len(_MIXED.findall(read)) >= _FEW:
        yield _MIXED.sub(lambda found: found[0].replace("11", "ll").translate(_DIGITS), read)
    if all(len(word) < _SHORTEST_RUN for word in text.split()):
        return
    for pattern, decode in ((_BASE64, _from_base64), (_HEXADECIMAL, bytes.fromhex)):
        for found in pattern.finditer(text):
            if plain := _prose(found[0], decode):
                yield plain.lower()


def _prose(run: str, decode: Callable[[str], bytes]) -> str | None:
    """The decoded text where it is words, and not an image, a hash or a key."""
    try:
        plain = decode(run).decode("utf-8")
    except (ValueError, binascii.Error):
        return None
    return plain if plain.isprintable() and _PROSE.search(plain) else None


def _from_base64(run: str) -> bytes:
    run = run.rstrip("=").replace("-", "+").replace("_", "/")
    return base64.b64decode(run + "=" * (-len(run) % 4))
