"""The windows of a document that might address somebody, with what is counted in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sluice.contracts.document import ChunkedDocument, embedding_text
from sluice.trust.guard.features import content_words, count_features, is_candidate
from sluice.trust.guard.normalise import normalise
from sluice.trust.guard.windows import windows


@dataclass(frozen=True, slots=True)
class Candidate:
    """A window (`chunk.text[start:end]` of chunk number `chunk`), as it is embedded, and its counts."""

    chunk: int
    start: int
    end: int
    text: str
    counts: Sequence[float]


def find_candidates(document: ChunkedDocument) -> Iterator[Candidate]:
    """Every window that passes the prefilter, in order."""
    page_words: Counter[str] | None = None
    for number, chunk in enumerate(document.chunks):
        words: Counter[str] | None = None
        for start, end in windows(chunk.text):
            lowered = normalise(chunk.text[start:end]).text
            if not is_candidate(lowered):
                continue
            words = content_words(chunk.text.lower()) if words is None else words
            page_words = _page_words(document, words) if page_words is None else page_words
            counts = count_features(chunk.text, lowered, start, end, words, page_words)
            yield Candidate(number, start, end, lowered, counts)


def _page_words(document: ChunkedDocument, words: Counter[str]) -> Counter[str]:
    if len(document.chunks) == 1:
        return words
    return content_words("\n".join(chunk.text for chunk in document.chunks).lower())


def texts_to_embed(document: ChunkedDocument, candidates: Sequence[Candidate]) -> list[str]:
    """The windows, then the chunks that they stand in, as the index embeds those: a cache makes these free."""
    chunks = dict.fromkeys(candidate.chunk for candidate in candidates)
    return [
        *(candidate.text for candidate in candidates),
        *(embedding_text(document.title, document.chunks[number]) for number in chunks),
    ]
