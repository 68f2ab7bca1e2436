"""Cuts a text into the windows that the model scores, and counts features of windows that address somebody.

Windows are sentences of 60 to 320 characters, code fences whole: a command of fifteen words is lost in the vector of a
page of two hundred words, but not in that of its own sentence. The features describe a window's addressee, manner and
place on its page; their patterns are data (`features.toml`). A window that passes the cheap prefilter is a candidate.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluice.contracts.document import ChunkedDocument, embedding_text
from sluice.text.pattern_file import PatternFile
from sluice.text.readings import normalise

SHORTEST = 60
LONGEST = 320
LONGEST_FENCE = 700

_FENCE = re.compile(r"^[ \t>]*(`{3,}|~{3,})[^\n]*\n.*?(?:^[ \t>]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_PARAGRAPH = re.compile(r"\n[ \t>#*]*\n")
_SENTENCE = re.compile(
    r"(?<=[.!?。！？;])[\"'”’»)\]]*(?:\s+|(?<=[。！？]))|\n(?=[ \t>]*(?:[-*+•|#]|\d+[.)]|//|--|\w+:)\s?)|\n"
)
_VALUE = re.compile(
    r"""(?<=[\[{:,(])\s*(?P<mark>["'])(?P<value>(?:\\.|(?!(?P=mark)\s*[,:}\])])[^\n\\])*)(?P=mark)(?=\s*[,}\])])"""
)
_KEY = re.compile(r"""["']\w+["']\s*:\s*["'\[{\d]""")
_FEW_KEYS = 3
_SHORTEST_VALUE = 12
_SHORTEST_REPEATED = 20
Window = tuple[int, int]


def windows(text: str) -> Iterator[Window]:
    """Yield the start and end of each window, in order; together they hold every word that is not markup."""
    at = 0
    for fence in _FENCE.finditer(text):
        yield from _prose(text, at, fence.start())
        yield fence.start(), min(fence.end(), fence.start() + LONGEST_FENCE)
        at = fence.end()
    yield from _prose(text, at, len(text))


def _prose(text: str, start: int, end: int) -> Iterator[Window]:
    values = (
        [found.span("value") for found in _VALUE.finditer(text, start, end)] if _is_record(text, start, end) else []
    )
    if values:
        for low, high in values:
            if high - low >= _SHORTEST_VALUE:
                yield from _paragraphs(text, low, high)
        return
    yield from _paragraphs(text, start, end)


def _is_record(text: str, start: int, end: int) -> bool:
    """Return whether the text is JSON or similar Python: then its strings are separate texts."""
    head = text[start : start + 80].lstrip("\"' \t\n")
    return (head[:1] in ("{", "[") and ":" in text[start:end]) or len(_KEY.findall(text, start, end)) >= _FEW_KEYS


def _paragraphs(text: str, start: int, end: int) -> Iterator[Window]:
    at = start
    for blank in (*_PARAGRAPH.finditer(text, start, end), None):
        stop = blank.start() if blank else end
        yield from _merged(text, at, stop)
        at = blank.end() if blank else end


def _merged(text: str, start: int, end: int) -> Iterator[Window]:
    """Yield the sentences of a paragraph; short ones are joined until they are long enough."""
    low = high = start
    for stop in _sentence_ends(text, start, end):
        if stop - high >= SHORTEST:
            yield from _trimmed(text, low, high)
            yield from _cut(text, high, stop)
            low = stop
        elif stop - low >= SHORTEST:
            yield from _trimmed(text, low, stop)
            low = stop
        high = stop
    yield from _trimmed(text, low, end)


def _sentence_ends(text: str, start: int, end: int) -> Iterator[int]:
    for found in _SENTENCE.finditer(text, start, end):
        yield found.end()
    yield end


def _cut(text: str, start: int, end: int) -> Iterator[Window]:
    """Yield windows no longer than allowed, without blanks at their ends."""
    while end - start > LONGEST:
        space = text.rfind(" ", start + SHORTEST, start + LONGEST)
        stop = space if space > start else start + LONGEST
        yield from _trimmed(text, start, stop)
        start = stop
    yield from _trimmed(text, start, end)


def _trimmed(text: str, start: int, end: int) -> Iterator[Window]:
    body = text[start:end]
    low = start + len(body) - len(body.lstrip())
    high = end - (len(body) - len(body.rstrip()))
    if high > low:
        yield low, high


_FILE = PatternFile(Path(__file__).with_name("features.toml"))
_PATTERNS = _FILE.table("counted", re.MULTILINE)
_CANDIDATE = _FILE.compiled(_FILE.tables["candidate"]["pattern"], re.MULTILINE)
_LONG_WORD = re.compile(r"[^\W\d_]{4,}")
_MOST_OF_CHUNK = 0.6
"""Share of its chunk above which a window is like the chunk in any case."""
_MOST = 3
"""Largest count that is used; higher counts add nothing."""
_SHAPE = (
    "length",
    "upper",
    "digits",
    "punctuation",
    "share_of_chunk",
    "begins_chunk",
    "ends_chunk",
    "words_of_chunk",
    "words_of_page",
)
_LIKENESS = ("likeness", "is_most_of_chunk")
COUNTED: tuple[str, ...] = (*_PATTERNS, *_SHAPE)
"""Names of the features that need no vector."""
NAMES: tuple[str, ...] = (*COUNTED, *_LIKENESS)
Numbers = NDArray[np.float32]


def is_candidate(lowered: str) -> bool:
    """Return whether a window might address somebody: the cheap test before its vector is computed."""
    return bool(_CANDIDATE.search(lowered))


def content_words(lowered: str) -> Counter[str]:
    """Count the occurrences of each longer word in a text."""
    return Counter(_LONG_WORD.findall(lowered))


def count_features(
    chunk: str, lowered: str, start: int, end: int, words: Counter[str], page_words: Counter[str]
) -> list[float]:
    """Return the counts of a window (`chunk[start:end]`, normalised `lowered`), in the order of `COUNTED`.

    `words` and `page_words` are those of its chunk and its whole document, the window's own included.
    """
    original = chunk[start:end]
    size = max(len(original), 1)
    letters = max(sum(map(str.isalpha, original)), 1)
    own = content_words(lowered)
    return [
        *(float(min(len(pattern.findall(lowered)), _MOST)) for pattern in _PATTERNS.values()),
        min(size, 400) / 400,
        sum(map(str.isupper, original)) / letters,
        sum(map(str.isdigit, original)) / size,
        sum(not one.isalnum() and not one.isspace() for one in original) / size,
        size / max(len(chunk), 1),
        float(not chunk[:start].strip()),
        float(not chunk[end:].strip()),
        _share_elsewhere(own, words),
        _share_elsewhere(own, page_words),
    ]


def _share_elsewhere(own: Counter[str], words: Counter[str]) -> float:
    """Return the share of a window's words that also stand outside of it."""
    return sum(words[word] > count for word, count in own.items()) / len(own) if own else 0.0


def with_likeness(counts: Sequence[Sequence[float]], vectors: Numbers, chunk_vectors: Numbers) -> Numbers:
    """Return features (windows, len(NAMES)): the counts, and each window's cosine to its chunk (row by row)."""
    table = np.asarray(counts, dtype=np.float32)
    likeness = np.einsum("ij,ij->i", vectors, chunk_vectors)
    is_most = table[:, NAMES.index("share_of_chunk")] > _MOST_OF_CHUNK
    return np.column_stack((table, np.where(is_most, 0.0, likeness), is_most)).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A window (`chunk.text[start:end]` of chunk number `chunk`), as embedded, and its counts."""

    chunk: int
    start: int
    end: int
    text: str
    counts: Sequence[float]


def find_candidates(document: ChunkedDocument) -> Iterator[Candidate]:
    """Yield every window that passes the prefilter, in order."""
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


class Repeated(NamedTuple):
    """A sentence (`text[start:end]` of chunk number `chunk`) that stands in the document before, in lower case."""

    chunk: int
    start: int
    end: int
    lowered: str


def repeated_sentences(document: ChunkedDocument) -> list[Repeated]:
    """Return the sentences that might address somebody and have stood in the document before, in order."""
    known: set[str] = set()
    found: list[Repeated] = []
    for number, chunk in enumerate(document.chunks):
        start = 0
        for end in _sentence_ends(chunk.text, 0, len(chunk.text)):
            lowered = " ".join(chunk.text[start:end].lower().split())
            if len(lowered) >= _SHORTEST_REPEATED and lowered in known and is_candidate(lowered):
                found.append(Repeated(number, start, end, lowered))
            known.add(lowered)
            start = end
    return found


def without(document: ChunkedDocument, repeated: Sequence[Repeated]) -> tuple[ChunkedDocument, list[list[int]]]:
    """Return the document without these sentences, and for each chunk the offsets that its characters had before.

    Otherwise a command that stands three times is like the rest of its page, which is the command.
    """
    places = [list(range(len(chunk.text))) for chunk in document.chunks]
    for one in reversed(repeated):
        del places[one.chunk][one.start : one.end]
    chunks = (
        chunk.model_copy(update={"text": "".join(chunk.text[place] for place in kept)})
        for chunk, kept in zip(document.chunks, places, strict=True)
    )
    return document.model_copy(update={"chunks": tuple(chunks)}), places


def texts_to_embed(document: ChunkedDocument, candidates: Sequence[Candidate]) -> list[str]:
    """Return the windows, then their chunks, as the index embeds them: a cache makes the latter free."""
    chunks = dict.fromkeys(candidate.chunk for candidate in candidates)
    return [
        *(candidate.text for candidate in candidates),
        *(embedding_text(document.title, document.chunks[number]) for number in chunks),
    ]
