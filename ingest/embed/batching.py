"""Sizes of embedding batches: requests to an endpoint, one-second portions, prices.

Requests keep within the limits of an endpoint: texts, tokens and bytes. The longest texts are placed first, each into
the first request that has room (first-fit decreasing, Johnson 1974): at most 11/9 of the fewest requests possible,
while packing neighbours in order may take twice as many. An upper bound on tokens and price is known beforehand, for
the budget to reserve.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from tokenizers import Tokenizer

from sluice.contracts.budget import Spend
from sluice.ingest.embed.tokens import BYTES_PER_TOKEN, count_tokens, estimated_tokens
from sluice.ingest.settings import EmbedSettings

_FRAME_BYTES = 512
"""Bytes of a request body besides its texts: the names of its fields and of a model."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one request; tokens are estimated, bytes are those of its body."""

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
    """Return the positions of `texts` per request, ascending in each. A text beyond a limit goes alone."""
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
    """Return the bytes of `text` in a JSON list, with its quotes and comma and every non-ASCII letter escaped."""
    return len(json.dumps(text)) + 1


def fitted(texts: Sequence[str], most_tokens: int) -> list[str]:
    """Return `texts`, each cut at an estimated `most_tokens`, as the local model cuts at its window."""
    return [_fitted(text, most_tokens) for text in texts]


def _fitted(text: str, most_tokens: int) -> str:
    if estimated_tokens(text) <= most_tokens:
        return text
    room = (most_tokens - 1) * BYTES_PER_TOKEN
    return text.encode("utf-8", "surrogatepass")[: max(room, 1)].decode("utf-8", "ignore") or text[:1]


SPECIAL_TOKENS = 2
"""Tokens that the local model adds to each text."""


class Portion(NamedTuple):
    """A number of texts and of their tokens."""

    texts: int
    tokens: int


LOCAL_PORTION = Portion(texts=256, tokens=4_000)
"""Texts and tokens that the local model embeds in about a second: in fp32 4,000 tokens on one core, fewer if short."""


def portion_of_a_second(settings: EmbedSettings) -> Portion:
    """Return the portion embedded at once, so that other work waits only about a second; one request of an endpoint."""
    if settings.provider == "local":
        return LOCAL_PORTION
    request = Limits(settings.openai_batch_texts)
    return Portion(request.texts, request.tokens)


def end_of_portion(sizes: Sequence[Portion], most: Portion) -> int:
    """Return how many items make the next portion. It takes in the rest if that is a quarter of a portion or less.

    A small remainder would queue behind all other work, for a fraction of a second of embedding.
    """
    first = next(in_portions(sizes, most), slice(0, 0)).stop
    rest = sizes[first:]
    is_little = 4 * len(rest) <= most.texts and 4 * sum(size.tokens for size in rest) <= most.tokens
    return len(sizes) if is_little else int(first)


def in_portions(sizes: Sequence[Portion], most: Portion) -> Iterator[slice]:
    """Yield slices of the items so that none exceeds `most`, except for a single larger item."""
    start = texts = tokens = 0
    for position, size in enumerate(sizes):
        if position > start and (texts + size.texts > most.texts or tokens + size.tokens > most.tokens):
            yield slice(start, position)
            start, texts, tokens = position, 0, 0
        texts, tokens = texts + size.texts, tokens + size.tokens
    if start < len(sizes):
        yield slice(start, len(sizes))


def embedding_at_most(texts: Sequence[str], settings: EmbedSettings, tokenizer: Tokenizer) -> Spend:
    """Return the most tokens that a model reads for `texts`, and their price. Cached texts cost less.

    For the local model the tokens are counted, and it costs no money; for an endpoint, whose tokenizer is not known,
    they are estimated from the bytes, rather too many than too few.
    """
    if settings.provider == "local":
        return Spend(tokens=sum(_tokens(text, tokenizer) + SPECIAL_TOKENS for text in texts))
    tokens = sum(map(estimated_tokens, texts))
    return Spend(tokens=tokens, usd=tokens * settings.openai_usd_per_million_tokens / 1e6)


@lru_cache(maxsize=16_384)
def _tokens(text: str, tokenizer: Tokenizer) -> int:
    """Count the tokens of `text` once: what is left of a long document is priced at each of its portions."""
    return count_tokens(text, tokenizer)
