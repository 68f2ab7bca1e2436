"""Texts and numbers of a question as values: they go to the engine as parameters, or written anew."""

from __future__ import annotations

import re
from math import isfinite

_ESCAPES = {
    "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "\\": "\\", "'": "'", '"': '"',
}  # fmt: skip
_ESCAPE = re.compile(r"\\(u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.)|$)", re.DOTALL)
_WHOLE = re.compile(r"-?(0|[1-9][0-9]{0,18})\Z")
_HEXADECIMAL = re.compile(r"-?0x[0-9a-fA-F]{1,16}\Z")
_DECIMAL = re.compile(r"-?([0-9]{1,30}\.[0-9]{1,30}|\.[0-9]{1,30}|[0-9]{1,30})([eE][+-]?[0-9]{1,3})?\Z")
_LARGEST = 2**63 - 1


def decode_text(literal: str) -> str:
    """The text that a quoted literal stands for. Raises ValueError for an escape that no engine agrees on."""
    decoded = _ESCAPE.sub(_decode_escape, literal[1:-1])
    return decoded.encode("utf-16", "surrogatepass").decode("utf-16")


def decode_number(written: str) -> int | float:
    """The number that is written. Raises ValueError where it is none, or larger than 64 bits."""
    if _WHOLE.match(written):
        number = int(written)
    elif _HEXADECIMAL.match(written):
        number = int(written, 16)
    elif _DECIMAL.match(written) and not written.lstrip("-").isdigit():
        real = float(written)
        if not isfinite(real):
            raise ValueError("is too large")
        return real
    else:
        raise ValueError("is no number in decimal digits")
    if abs(number) > _LARGEST:
        raise ValueError("is larger than 64 bits")
    return number


def _decode_escape(found: re.Match[str]) -> str:
    code = found[2] or found[3]
    if code:
        return chr(int(code, 16)) if int(code, 16) <= 0x10FFFF else _unknown(found[0])
    return _ESCAPES.get(found[4] or "") or _unknown(found[0])


def _unknown(escape: str) -> str:
    raise ValueError(f"the escape {escape!r} is not known")
