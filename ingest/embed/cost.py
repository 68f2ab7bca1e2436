"""What embedding texts may take at most, known before it is done: what a budget reserves."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import Tokenizer

from contracts.budget import Spend
from ingest.embed.tokens import TokenizedText, count_tokens, estimated_tokens, tokenizer_sha256
from ingest.settings import EmbedSettings

SPECIAL_TOKENS = 2
"""What the local model puts around each text."""


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
