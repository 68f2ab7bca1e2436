"""JSON as editors write it in their configurations: with comments, and with a comma after the last entry."""

from __future__ import annotations

import json
import re
from typing import Any

_TEXT = r'(?P<text>"(?:[^"\\\n]|\\.)*")'
_COMMENT = re.compile(_TEXT + r"|//[^\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMA = re.compile(_TEXT + r"|,(?=\s*[}\]])")


def read_json(text: str) -> Any:
    """The value that a text holds. Raises ValueError, or RecursionError, where it is no JSON even so."""
    try:
        return json.loads(text)
    except ValueError:
        return json.loads(_LAST_COMMA.sub(_kept, _COMMENT.sub(_kept, text)))


def _kept(found: re.Match[str]) -> str:
    return found["text"] or ""
