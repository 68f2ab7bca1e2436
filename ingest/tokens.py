"""Tokens of the embedding model: loading its tokenizer, and counting any part of a text from one encoding.

A text is encoded once; `TokenSpans` then counts the tokens of any part of it by bisection. The count
is exact where the part begins and ends at a word boundary, as WordPiece never joins words.
"""

from __future__ import annotations

from bisect import bisect_left
from pathlib import Path

from tokenizers import Tokenizer

from contracts.errors import InvalidSetting
from ingest.packaged import PACKAGE, packaged_file

BYTES_PER_TOKEN = 3
"""UTF-8 bytes: English has about 4.4 per token, code 3 to 4, Chinese 3 to 4. Too low is the safe side."""


def load_tokenizer(model_dir: Path | None) -> Tokenizer:
    """The tokenizer of `model_dir`, else that of the installed weights. Neither truncates nor pads.

    Raises InvalidSetting when there is no `tokenizer.json`.
    """
    path = model_dir / "tokenizer.json" if model_dir else packaged_file("tokenizer.json")
    if not path.is_file():
        raise InvalidSetting("embed.model_dir", f"no tokenizer.json in {path.parent}", f"install {PACKAGE}")
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def count_tokens(text: str, tokenizer: Tokenizer) -> int:
    """Tokens of `text`, special tokens not counted."""
    return len(tokenizer.encode(text, add_special_tokens=False))


def estimated_tokens(text: str) -> int:
    """Tokens of `text` by a tokenizer that is not known, rather too many than too few; at least 1."""
    return len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN + 1


class TokenSpans:
    """Where each token of a text begins and ends, in characters."""

    def __init__(self, text: str, tokenizer: Tokenizer) -> None:
        offsets: list[tuple[int, int]] = tokenizer.encode(text, add_special_tokens=False).offsets
        self._starts = [start for start, _ in offsets]
        self._ends = [end for _, end in offsets]

    def count(self, start: int, end: int) -> int:
        """Tokens that begin in `text[start:end]`."""
        return bisect_left(self._starts, end) - bisect_left(self._starts, start)

    def after(self, start: int, tokens: int) -> int:
        """Where the first token begins that does not fit when `tokens` tokens are taken from `start`."""
        return self._starts[bisect_left(self._starts, start) + tokens]

    def before(self, end: int, tokens: int) -> int:
        """Where the last `tokens` tokens before `end` begin."""
        return self._starts[max(0, bisect_left(self._starts, end) - tokens)]

    def end_of(self, tokens: int) -> int:
        """The character after the first `tokens` tokens."""
        return self._ends[tokens - 1] if 0 < tokens <= len(self._ends) else 0
