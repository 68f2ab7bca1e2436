"""The line above a chunk when it is embedded, title > headings > symbol, kept short enough to leave room.

A model reads `window_tokens` and no more. The title may take a third of them, the headings a quarter, the
symbol a sixth; what is left is the capacity of the chunk below. Longer titles and headings are cut at
a token, and the outermost headings go first.
"""

from __future__ import annotations

from tokenizers import Tokenizer

from sluice.ingest.embed.tokens import TokenSpans, count_tokens
from sluice.ingest.settings import ChunkSettings

_ELLIPSIS = "…"
_SHORT_CHARS = 24
"""Text this short needs no counting: it cannot have more tokens than characters."""


class Breadcrumbs:
    """The breadcrumbs of one document."""

    def __init__(self, title: str | None, settings: ChunkSettings, tokenizer: Tokenizer) -> None:
        self._settings = settings
        self._tokenizer = tokenizer
        self._paths: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._capacities: dict[tuple[tuple[str, ...], str | None], int] = {}
        self.title = self._cut(title, settings.window_tokens // 3) if title else None

    def path(self, headings: tuple[str, ...]) -> tuple[str, ...]:
        """`headings` as far as they fit, the innermost kept."""
        if headings not in self._paths:
            budget = self._settings.window_tokens // 4
            kept: list[str] = []
            for heading in reversed(headings):
                heading = self._cut(heading, self._settings.window_tokens // 6)
                budget -= self._count(heading) + 1
                if budget < 0:
                    break
                kept.append(heading)
            self._paths[headings] = tuple(reversed(kept))
        return self._paths[headings]

    def symbol(self, symbol: str | None) -> str | None:
        """`symbol`, cut if it is very long."""
        return self._cut(symbol, self._settings.window_tokens // 6) if symbol else None

    def capacity(self, headings: tuple[str, ...] = (), symbol: str | None = None) -> int:
        """The most tokens that a chunk under these headings may have."""
        key = (headings, symbol)
        if key not in self._capacities:
            parts = dict.fromkeys(part for part in (self.title, *self.path(headings), self.symbol(symbol)) if part)
            above = self._count(" > ".join(parts)) if parts else 0
            self._capacities[key] = min(self._settings.max_tokens, self._settings.window_tokens - above)
        return self._capacities[key]

    def _cut(self, text: str, most_tokens: int) -> str:
        text = " ".join(text.split())
        if len(text) <= min(_SHORT_CHARS, most_tokens):
            return text
        spans = TokenSpans(text, self._tokenizer)
        if spans.count(0, len(text)) <= most_tokens and len(text) <= 16 * most_tokens:
            return text
        return text[: min(spans.end_of(most_tokens - 1) or 16 * most_tokens, 16 * most_tokens)].rstrip() + _ELLIPSIS

    def _count(self, text: str) -> int:
        return count_tokens(text, self._tokenizer)
