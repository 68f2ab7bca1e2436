"""Texts that a model reads in a text and a person does not: look-alike letters, base64, escapes, rotated letters."""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import re
from collections.abc import Callable, Iterator
from urllib.parse import unquote

_LOOK_ALIKES = (
    ("аАɑαΑ", "a"), ("ВвΒβьЬ", "b"), ("сСϲ", "c"), ("ԁ", "d"), ("еЕёЁΕε", "e"), ("ɡ", "g"), ("һНΗн", "h"),
    ("іІΙιıї", "i"), ("јЈ", "j"), ("ΚκКк", "k"), ("ӏ", "l"), ("МΜм", "m"), ("Νո", "n"), ("оОοΟօ", "o"),
    ("рРρΡ", "p"), ("ԛ", "q"), ("г", "r"), ("ѕЅ", "s"), ("ТΤт", "t"), ("υս", "u"), ("ѵν", "v"), ("ԝѡω", "w"),
    ("хХχΧ", "x"), ("уУΥγ", "y"), ("Ζ", "z"),
)  # fmt: skip
LATIN_OF = {other: latin for others, latin in _LOOK_ALIKES for other in others}
"""Letters of other scripts that look like a Latin one (a selection of Unicode's confusables.txt, UTS 39)."""

_BASE64 = re.compile(r"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/_-]{16,}={0,2}(?![A-Za-z0-9+/=])")
_HEXADECIMAL = re.compile(r"(?<![0-9A-Fa-f])(?:[0-9A-Fa-f]{2}[ :]?){12,}(?![0-9A-Fa-f])|(?:\\x[0-9A-Fa-f]{2}){12,}")
_PROSE = re.compile(r"[A-Za-z./~-]{2,} [A-Za-z./~-]+")
_LONGEST_DECODED = 20_000
"""Most characters of a run that are decoded."""
_SHORTEST_RUN = 16

_ESCAPED = re.compile(r"\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|%[2-7][0-9a-fA-F]|&#x?[0-9a-fA-F]{2,5};")
_BACKSLASHED = re.compile(r"\\u([0-9a-fA-F]{4})|\\x([0-9a-fA-F]{2})")
_ROT13 = ("vtaber", "qvfertneq", "vafgehpgvba", "cerivbhf", "sbetrg")
"""In ROT13: ignore, disregard, instruction, previous, forget."""
_DIGITS = str.maketrans("013457@$", "oieastas")
_MIXED = re.compile(r"\b(?=\w*[a-z])(?=\w*\d)\w{3,}\b")
_JOINED = re.compile(r"(?<=[a-z])[-_.](?=[a-z])")
_FEW = 3


def decoded_runs(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and plain text of each run of base64 or hexadecimal in `text` that holds words.

    Runs that decode to an image, a hash or a key are left out. At most 20,000 characters of a run are decoded.
    """
    for pattern, decode in ((_BASE64, _from_base64), (_HEXADECIMAL, _from_hexadecimal)):
        for found in pattern.finditer(text):
            run = found[0].rstrip(" :")
            if plain := _prose(run[:_LONGEST_DECODED], decode):
                yield found.start(), found.start() + len(run), plain


def readings_within(text: str, read: str) -> Iterator[str]:
    """Yield the decoded readings of `text`, in small letters. `read` is `text` so, with look-alike letters replaced.

    They come from escapes, ROT13, words joined by signs, digits for letters, and `decoded_runs`.
    """
    if _ESCAPED.search(text):
        characters = _BACKSLASHED.sub(lambda found: chr(int(found[1] or found[2], 16)), text)
        yield html.unescape(unquote(characters, errors="replace")).lower()
    if any(word in read for word in _ROT13):
        yield codecs.decode(read, "rot13")
    if len(_JOINED.findall(read)) >= _FEW:
        yield _JOINED.sub(" ", read)
    if len(_MIXED.findall(read)) >= _FEW:
        yield _MIXED.sub(lambda found: found[0].replace("11", "ll").translate(_DIGITS), read)
    if any(len(word) >= _SHORTEST_RUN for word in text.split()):
        for _, _, plain in decoded_runs(text):
            yield plain.lower()


def _prose(run: str, decode: Callable[[str], bytes]) -> str | None:
    try:
        plain = decode(run).decode("utf-8")
    except (ValueError, binascii.Error):
        return None
    printable = all(character.isprintable() or character in "\n\t" for character in plain)
    return plain if printable and _PROSE.search(plain) else None


def _from_base64(run: str) -> bytes:
    """Decode a run in either alphabet, with the whole bytes of a last, incomplete group."""
    run = run.rstrip("=").replace("-", "+").replace("_", "/")
    whole, rest = run[: len(run) // 4 * 4], run[len(run) // 4 * 4 :]
    return base64.b64decode(whole + (rest + "=" * (4 - len(rest)) if len(rest) > 1 else ""))


def _from_hexadecimal(run: str) -> bytes:
    return bytes.fromhex(run.replace("\\x", "").replace(":", ""))
