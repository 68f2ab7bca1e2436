"""Masks secrets in log lines and spans: keys, tokens, passwords, the user part of a URL.

Promise: `redact` masks every text whose key looks like a secret, and inside any other text the user
part of a URL, secret query parameters, bearer tokens and tokens of known forms. Numbers and truth values stay:
they count secrets and are not secret themselves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MASK = "***"

_SECRET_KEY = re.compile(
    r"(?:^|[_\-. ])(?:api[_-]?key|key|token|secret|password|passwd|authorization|cookie|credential)s?$"
    r"|(?:apikey|secret|password|authorization)",
    re.IGNORECASE,
)
_URL_USER = re.compile(r"(\b[a-z][a-z0-9+.\-]{0,30}://)[^/?#\s\"'<>]*@", re.IGNORECASE)
_QUERY_SECRET = re.compile(
    r"([?&](?:[a-z0-9]+[_-])*(?:api_?key|key|token|secret|password)=)[^&#\s\"'<>]+", re.IGNORECASE
)
_BEARER = re.compile(r"\b(bearer|basic)\s+[a-z0-9._~+/=\-]{8,}", re.IGNORECASE)
_TOKEN = re.compile(
    r"\b(gh[oprsu]_|github_pat_|glpat-|xox[abceoprs]-|sk-|[rs]k_(?:live|test)_|AKIA|ASIA|AIza|hf_|npm_|pypi-|SG\.|"
    r"dop_v1_|shpat_|GOCSPX-|ya29\.|eyJ)[A-Za-z0-9_.-]{16,}"
)
"""Tokens that their first characters identify. Texts of documents have rules of their own, in `trust`."""


def redact(value: Any, key: str = "") -> Any:
    """Return `value` as it may be shown under `key`: a masked copy, of the same shape, in plain types."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if key and _SECRET_KEY.search(key):
        return MASK
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, Mapping):
        return {name: redact(inner, str(name)) for name, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [redact(inner) for inner in value]
    return redact_text(str(value))


def redact_text(text: str) -> str:
    """Return `text` without the secrets that texts usually carry."""
    text = _TOKEN.sub(rf"\1{MASK}", _BEARER.sub(rf"\1 {MASK}", text))
    if "=" in text:
        text = _QUERY_SECRET.sub(rf"\1{MASK}", text)
    return _URL_USER.sub(rf"\1{MASK}@", text) if "://" in text else text
