"""Texts into few requests, each within the limits of an endpoint: texts, tokens and bytes.

The longest texts are placed first, each into the first request that has room (first-fit decreasing, Johnson 1974):
at most 11/9 of the fewest requests possible, where neighbours packed in order may take twice as many.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from contracts.errors import InvalidInput
from ingest.embed.tokens import BYTES_PER_TOKEN, estimated_tokens

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


def fitted(texts: Sequence[str], most_tokens: int, *, cut: bool) -> list[str]:
    """`texts`, none above `most_tokens` by estimate: cut there, or refused.

    Raises InvalidInput for a longer text where `cut` is not allowed.
    """
    return [_fitted(text, position, most_tokens, cut=cut) for position, text in enumerate(texts)]


def _fitted(text: str, position: int, most_tokens: int, *, cut: bool) -> str:
    tokens = estimated_tokens(text)
    if tokens <= most_tokens:
        return text
    if not cut:
        problem = f"about {tokens} tokens, above the embedding model's {most_tokens}"
        raise InvalidInput(f"texts.{position}", problem, 'split it, or set embed.openai_long_texts = "cut"')
    room = (most_tokens - 1) * BYTES_PER_TOKEN
    return text.encode("utf-8", "surrogatepass")[: max(room, 1)].decode("utf-8", "ignore") or text[:1]
