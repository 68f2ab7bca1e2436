"""Tokens of the embedding model: loading its tokenizer, and counting any part of a text from one encoding.

A text is encoded once; `TokenSpans` then counts the tokens of any part of it by bisection, and gives their ids. Both
are exact where the part begins and ends at a word boundary, as WordPiece never joins words. So what is embedded
need not be encoded again: a `TokenizedText` is a text that brings its ids along.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from tokenizers import Tokenizer

from contracts.errors import InvalidSetting
from ingest.embed.minilm.package_data import PACKAGE, packaged_file

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


_SPACES = " \n\t\r"
"""What the tokenizer takes for a space, whatever stands beside it."""


@lru_cache(maxsize=4)
def tokenizer_sha256(tokenizer: Tokenizer) -> str:
    """Of everything that decides which ids a text gets, with its truncation and padding: as it is when first asked."""
    return hashlib.sha256(tokenizer.to_str().encode()).hexdigest()


class TokenizedText(str):
    """A text with the ids that the tokenizer of `tokenizer_sha256` gives the whole of it, special tokens left out.

    Everywhere else it is the text: equal to it, hashed and written like it.
    """

    __slots__ = ("token_ids", "tokenizer_sha256")

    token_ids: Sequence[int]
    tokenizer_sha256: str

    @classmethod
    def of(cls, text: str, token_ids: Sequence[int], tokenizer_sha256: str) -> TokenizedText:
        """`text` with its ids."""
        self = cls(text)
        self.token_ids = token_ids
        self.tokenizer_sha256 = tokenizer_sha256
        return self


def count_tokens(text: str, tokenizer: Tokenizer) -> int:
    """Tokens of `text`, special tokens not counted."""
    return len(tokenizer.encode(text, add_special_tokens=False))


def estimated_tokens(text: str) -> int:
    """Tokens of `text` by a tokenizer that is not known, rather too many than too few; at least 1."""
    return len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN + 1


class TokenSpans:
    """Where each token of a text begins and ends, in characters."""

    def __init__(self, text: str, tokenizer: Tokenizer) -> None:
        encoding = tokenizer.encode(text, add_special_tokens=False)
        offsets: list[tuple[int, int]] = encoding.offsets
        self._text = text
        self._encoding = encoding
        self._ids: list[int] | None = None
        self._starts = [start for start, _ in offsets]
        self._ends = [end for _, end in offsets]

    def count(self, start: int, end: int) -> int:
        """Tokens that begin in `text[start:end]`."""
        return bisect_left(self._starts, end) - bisect_left(self._starts, start)

    def ids(self, start: int, end: int) -> Sequence[int] | None:
        """The ids that `text[start:end]` has by itself; None where it begins or ends within a word, as they differ."""
        text = self._text
        if (start > 0 and not _parts_words(text[start - 1 : start + 1])) or (
            end < len(text) and not _parts_words(text[end - 1 : end + 1])
        ):
            return None
        if self._ids is None:
            self._ids = self._encoding.ids
        return self._ids[bisect_left(self._starts, start) : bisect_left(self._starts, end)]

    def after(self, start: int, tokens: int) -> int:
        """Where the first token begins that does not fit when `tokens` tokens are taken from `start`."""
        return self._starts[bisect_left(self._starts, start) + tokens]

    def before(self, end: int, tokens: int) -> int:
        """Where the last `tokens` tokens before `end` begin."""
        return self._starts[max(0, bisect_left(self._starts, end) - tokens)]

    def end_of(self, tokens: int) -> int:
        """The character after the first `tokens` tokens."""
        return self._ends[tokens - 1] if 0 < tokens <= len(self._ends) else 0


def _parts_words(pair: str) -> bool:
    """Whether two neighbouring letters belong to two words, in every normal form: a space of ASCII is one of them."""
    return pair[0] in _SPACES or pair[-1] in _SPACES
