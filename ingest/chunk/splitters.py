"""The splitters of Markdown and code for one tokenizer, built once per kind and capacity.

Building one copies the tokenizer (20 ms).
Capacities are rounded down to steps, so that the many lengths of breadcrumbs need only a few splitters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from semantic_text_splitter import CodeSplitter, MarkdownSplitter
from tokenizers import Tokenizer

from ingest.chunk.symbols import grammar

Kind = Literal["markdown", "code"]
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
        self._built: dict[tuple[str, int], Callable[[str], list[tuple[int, str]]]] = {}

    def split(self, text: str, kind: Kind, capacity_tokens: int, language: str = "") -> list[tuple[int, int]]:
        """(start, end) of each part in `text`, trimmed of white space, none above the capacity."""
        capacity = capacity_tokens - capacity_tokens % _STEP_TOKENS if capacity_tokens < 1_000 else capacity_tokens
        capacity = max(_SMALLEST_TOKENS, capacity)
        key = (f"{kind}:{language}", capacity)
        if key not in self._built:
            self._built[key] = self._build(kind, capacity, language).chunk_indices
        return [(start, start + len(part)) for start, part in self._built[key](text)]

    def _build(self, kind: Kind, capacity: int, language: str) -> Any:
        overlap = min(self.overlap_tokens, capacity // 2)
        if kind == "code":
            return CodeSplitter.from_huggingface_tokenizer(grammar(language), self._tokenizer, capacity)
        return MarkdownSplitter.from_huggingface_tokenizer(self._tokenizer, capacity, overlap=overlap)
