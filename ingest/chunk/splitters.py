"""The splitters of Markdown for one tokenizer, built once per capacity.

Building one copies the tokenizer (20 ms).
Capacities are rounded down to steps, so that the many lengths of breadcrumbs need only a few splitters.
"""

from __future__ import annotations

from collections.abc import Callable

from semantic_text_splitter import MarkdownSplitter
from tokenizers import Tokenizer

MOST_TOKENS = 100_000
"""Of one document: two seconds of splitting, as it takes 15 to 25 µs for each token where a cut by lines or sentences
takes 2. Longer documents mostly consist of sections that fit and are never split; what they have beyond this is cut."""
_STEP_TOKENS = 20
_SMALLEST_TOKENS = 20


class Splitters:
    """Splits a text that is too large for one chunk at the best boundaries that fit."""

    def __init__(self, tokenizer: Tokenizer, overlap_tokens: int) -> None:
        self._tokenizer = tokenizer
        self.overlap_tokens = overlap_tokens
        self._built: dict[int, Callable[[str], list[tuple[int, str]]]] = {}

    def split(self, text: str, capacity_tokens: int) -> list[tuple[int, int]]:
        """(start, end) of each part in `text`, trimmed of white space, none above the capacity."""
        capacity = capacity_tokens - capacity_tokens % _STEP_TOKENS if capacity_tokens < 1_000 else capacity_tokens
        capacity = max(_SMALLEST_TOKENS, capacity)
        if capacity not in self._built:
            overlap = min(self.overlap_tokens, capacity // 2)
            built = MarkdownSplitter.from_huggingface_tokenizer(self._tokenizer, capacity, overlap=overlap)
            self._built[capacity] = built.chunk_indices
        return [(start, start + len(part)) for start, part in self._built[capacity](text)]
