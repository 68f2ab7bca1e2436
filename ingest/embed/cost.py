"""What embedding texts may take at most, known before it is done: what a budget reserves, and what is done at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tokenizers import Tokenizer

from sluice.contracts.budget import Spend
from sluice.ingest.embed.batching import Limits
from sluice.ingest.embed.tokens import TokenizedText, count_tokens, estimated_tokens, tokenizer_sha256
from sluice.ingest.settings import EmbedSettings

SPECIAL_TOKENS = 2
"""What the local model puts around each text."""


class Portion(NamedTuple):
    """A number of texts and of their tokens."""

    texts: int
    tokens: int


LOCAL_PORTION = Portion(texts=256, tokens=4_000)
"""What the local model embeds in about a second: in fp32 some 4,000 tokens on one core, of short texts fewer."""


def portion_of_a_second(settings: EmbedSettings) -> Portion:
    """What is embedded at once, so that other work waits no longer than about a second: of an endpoint, one request."""
    if settings.provider == "local":
        return LOCAL_PORTION
    request = Limits(settings.openai_batch_texts)
    return Portion(request.texts, request.tokens)


def end_of_portion(sizes: Sequence[Portion], most: Portion) -> int:
    """How many of the items make the next portion: what would be left takes part, where it is a quarter of one or less.

    A remainder would wait behind all that others have handed in, for a fraction of a second's work.
    """
    first = next(in_portions(sizes, most), slice(0, 0)).stop
    rest = sizes[first:]
    is_little = 4 * len(rest) <= most.texts and 4 * sum(size.tokens for size in rest) <= most.tokens
    return len(sizes) if is_little else int(first)


def in_portions(sizes: Sequence[Portion], most: Portion) -> Iterator[slice]:
    """Where items of these sizes are parted so that none of the parts exceeds `most`; one item alone may."""
    start = texts = tokens = 0
    for position, size in enumerate(sizes):
        if position > start and (texts + size.texts > most.texts or tokens + size.tokens > most.tokens):
            yield slice(start, position)
            start, texts, tokens = position, 0, 0
        texts, tokens = texts + size.texts, tokens + size.tokens
    if start < len(sizes):
        yield slice(start, len(sizes))


def embedding_at_most(texts: Sequence[str], settings: EmbedSettings, tokenizer: Tokenizer) -> Spend:
    """Tokens that a model reads for `texts`, and their price. A text that the cache holds costs less.

    For the local model the tokens are counted, and it costs no money; for an endpoint, whose tokenizer is not known,
    they are estimated from the bytes, rather too many than too few.
    """
    if settings.provider == "local":
        return Spend(tokens=sum(_tokens(text, tokenizer) + SPECIAL_TOKENS for text in texts))
    tokens = sum(map(estimated_tokens, texts))
    return Spend(tokens=tokens, usd=tokens * settings.openai_usd_per_million_tokens / 1e6)


def _tokens(text: str, tokenizer: Tokenizer) -> int:
    """Counted, unless the text brings its ids."""
    if isinstance(text, TokenizedText) and text.tokenizer_sha256 == tokenizer_sha256(tokenizer):
        return len(text.token_ids)
    return count_tokens(text, tokenizer)
