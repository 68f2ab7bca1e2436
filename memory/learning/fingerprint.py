"""What makes two errors the same: kind, file and message, without what changes from run to run."""

from __future__ import annotations

import re

from sluice.contracts.memory.model import ErrorEntry

_VOLATILE = (
    (re.compile(r"\x1b\[[0-9;]*m"), ""),
    (re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?\b"), "<time>"),
    (re.compile(r"\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b"), "<time>"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.IGNORECASE), "<id>"),
    (re.compile(r"\b0x[0-9a-f]+\b", re.IGNORECASE), "<address>"),
    (re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,64}\b", re.IGNORECASE), "<id>"),
    (re.compile(r"(?:/tmp|/private/var|/var/folders|/var/tmp)(?:/[\w.@+-]+)*"), "<temporary>"),
    (re.compile(r"\b(?:line|column|col|pid|process|thread|port)\s*[:#=]?\s*\d+\b", re.IGNORECASE), "<place>"),
    (re.compile(r"(?<=[\w)\]]):\d+(?::\d+)?\b"), ""),
    (re.compile(r"\(\d+,\s?\d+\)"), ""),
    (re.compile(r"\b\d+(?:\.\d+)?\s?(?:ms|µs|us|ns|s|sec|secs|seconds|minutes|min)\b"), "<duration>"),
    (re.compile(r"\b(?:in|after|took)\s+\d+(?:\.\d+)?\b"), "<duration>"),
    (re.compile(r"\b\d{5,}\b"), "<number>"),
)
"""In this order. Small numbers stay: "expected 3 arguments" is another error than "expected 4 arguments"."""
_BLANKS = re.compile(r"\s+")


def stable_message(message: str) -> str:
    """A message in small letters, without times, addresses, ids, places in a file, and temporary paths."""
    for pattern, instead in _VOLATILE:
        message = pattern.sub(instead, message)
    return _BLANKS.sub(" ", message).strip(" .").lower()


Fingerprint = tuple[str, str, str]


def fingerprint(error: ErrorEntry) -> Fingerprint:
    """Equal for the same error in two iterations."""
    return (error.error_type or "", error.file_path or "", stable_message(error.message))
