"""Texts into few requests, each within the limits of an endpoint: texts, tokens and bytes.

The longest texts are placed first, each into the first request that has room (first-fit decreasing, Johnson 1974):
at most 11/9 of the fewest requests possible, where neighbours packed in order may take twice as many.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from sluice.ingest.embed.tokens import BYTES_PER_TOKEN, estimated_tokens

_FRAME_BYTES = 512
"""What a body holds besides its texts: the names of its fields, and of a model."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Of one request; tokens are estimated, bytes are those of its body."""

    texts: int
    tokens: int = 100_000
    """OpenAI takes 300,000; the estimate may be off by a factor."""
    bytes: int = 1_000_000
    """Servers behind nginx refuse more than its default of 1 MiB."""


@dataclass(slots=True)
class _Request:
    positions: list[int] = field(default_factory=list)
    tokens: int = 0
    bytes: int = _FRAME_BYTES

    def has_room(self, tokens: int, size_bytes: int, limits: Limits) -> bool:
        return (
            len(self.positions) < limits.texts
            and self.tokens + tokens <= limits.tokens
            and self.bytes + size_bytes <= limits.bytes
        )


def packed(texts: Sequence[str], limits: Limits) -> list[list[int]]:
    """Positions of `texts`, a list per request, ascending in each. A text beyond a limit goes alone."""
    sizes = [(estimated_tokens(text), body_bytes(text)) for text in texts]
    requests: list[_Request] = []
    for position in sorted(range(len(texts)), key=lambda position: sizes[position], reverse=True):
        tokens, size_bytes = sizes[position]
        request = next((one for one in requests if one.has_room(tokens, size_bytes, limits)), None)
        if request is None:
            request = _Request()
            requests.append(request)
        request.positions.append(position)
        request.tokens += tokens
        request.bytes += size_bytes
    return [sorted(request.positions) for request in requests]


def body_bytes(text: str) -> int:
    """Bytes of `text` in a JSON list, its quotes and comma included, should every letter beyond ASCII be escaped."""
    return len(json.dumps(text)) + 1


def fitted(texts: Sequence[str], most_tokens: int) -> list[str]:
    """`texts`, each cut at `most_tokens` by estimate, as the local model cuts at its window."""
    return [_fitted(text, most_tokens) for text in texts]


def _fitted(text: str, most_tokens: int) -> str:
    if estimated_tokens(text) <= most_tokens:
        return text
    room = (most_tokens - 1) * BYTES_PER_TOKEN
    return text.encode("utf-8", "surrogatepass")[: max(room, 1)].decode("utf-8", "ignore") or text[:1]
