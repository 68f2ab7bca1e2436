"""The terms of a chunk by field, as the term index and the memory segment store them; a document made ready for both.

Most words are frequent, so a word is analysed once and its terms are cached. A text is split into words where both
analyses (`analyse` and `split_identifiers` of `index.terms.analysis`) split it: at white space and at ASCII characters
other than letters, digits and underscores. The terms of a text are therefore those of its words, in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from sluice.contracts.document import Chunk
from sluice.index.journal.records import Upsert, document_key
from sluice.index.segments.segment_file import SegmentDocument
from sluice.index.terms.analysis import ENGLISH, analyse, analysis_language, split_identifiers
from sluice.index.terms.bm25 import LANGUAGE_FIELD, PROSE_FIELDS

FIELDS = (*PROSE_FIELDS, "code", LANGUAGE_FIELD)
ChunkTerms = Mapping[str, str]
"""The terms of each of `FIELDS`, separated by blanks; no term contains white space."""

_NOT_ASCII = 0x80
_BLANKED = bytes(
    byte if byte >= _NOT_ASCII or chr(byte).isalnum() or chr(byte) == "_" else ord(" ") for byte in range(256)
)
"""A translation of UTF-8 bytes: a blank for bytes between words, else the byte itself."""
MOST_WORDS = 100_000
"""Words cached, the latest ones: some 20 MB."""
_LONGEST_WORD = 64
"""Characters of a cached word. Longer ones are data, or a script without blanks, and rarely repeat."""


_PARTS, _PARTS_END = "\x00", "\x01"
"""Marks around the parts of an identifier, which follow its prose terms; no term has these characters."""


@lru_cache(maxsize=MOST_WORDS)
def analyse_word(word: str, language: str) -> str:
    """Return the prose terms of a word, followed by its parts if it is an identifier."""
    terms = " ".join(analyse(word, language))
    if not _is_plain(word) and (parts := " ".join(split_identifiers(word))):
        terms = f"{terms}{_PARTS}{parts}{_PARTS_END}"
    return terms


def extract_chunk_terms(title: str | None, language: str | None, chunk: Chunk) -> ChunkTerms:
    """Extract the terms of a chunk and of its document's title, both in `language` (None: unknown)."""
    known = analysis_language(language)
    text, code = _analyse_words(_split_words(chunk.text), known)
    headings = ""
    if chunk.section_path or chunk.symbol_path:
        headings = extract_prose_terms(
            " ".join(part for part in (*chunk.section_path, chunk.symbol_path) if part), known
        )
        code = f"{extract_code_terms(chunk.symbol_path or '')} {code}"
    return {
        "text": text,
        "title": extract_prose_terms(title, known) if title else "",
        "headings": headings,
        "code": code,
        LANGUAGE_FIELD: "" if known == ENGLISH else known,
    }


@lru_cache(maxsize=64)  # the chunks of a document share its title and many headings
def extract_prose_terms(text: str, language: str = ENGLISH) -> str:
    """Return the terms of `index.terms.analysis.analyse`, separated by blanks."""
    return _analyse_words(_split_words(text), language)[0]


def extract_code_terms(text: str) -> str:
    """Return the terms of `index.terms.analysis.split_identifiers`, separated by blanks."""
    return _analyse_words(_split_words(text), ENGLISH)[1]


def _split_words(text: str) -> list[str]:
    """Split the text at characters that are part of no term."""
    return text.encode().translate(_BLANKED).decode().split()


def _analyse_words(words: Sequence[str], language: str) -> tuple[str, str]:
    """Return the prose terms and the identifier terms of words."""
    uncached = analyse_word.__wrapped__
    analysed = [(analyse_word if len(word) <= _LONGEST_WORD else uncached)(word, language) for word in words]
    first, *others = " ".join(analysed).split(_PARTS)
    pairs = [other.split(_PARTS_END) for other in others]
    return first + "".join([prose for _, prose in pairs]), " ".join([parts for parts, _ in pairs])


def _is_plain(word: str) -> bool:
    """Return whether the word is letters, lower case from the second on: then it is no compound identifier."""
    return word.isalpha() and word[1:].islower()


def prepare_document(
    journal_offset: int, version: Upsert, first_number: int
) -> tuple[SegmentDocument, list[ChunkTerms]]:
    """Make the document's entry, with chunks numbered from `first_number`, and the terms of each chunk.

    A chunk id that occurs twice in a document is kept once.
    """
    document, records, vectors = version.document, version.records, version.vectors
    first_rows = find_first_rows(document.chunks)
    rows = list(first_rows.values())
    chunks = [document.chunks[row] for row in rows]
    languages = [chunk.language or document.language or "" for chunk in chunks]
    entry = SegmentDocument(
        key=document_key(document.document_id),
        journal_offset=journal_offset,
        record=records.facts,
        numbers=range(first_number, first_number + len(rows)),
        chunk_ids=list(first_rows),
        languages=languages,
        chunk_records=[records.chunks[row] for row in rows],
        vectors=vectors if len(rows) == len(vectors) else vectors[rows],
    )
    terms = [
        extract_chunk_terms(document.title, language, chunk) for language, chunk in zip(languages, chunks, strict=True)
    ]
    return entry, terms


def find_first_rows(chunks: Sequence[Chunk]) -> dict[str, int]:
    """Find the first row of each distinct chunk id, in order."""
    rows: dict[str, int] = {}
    for row, chunk in enumerate(chunks):
        rows.setdefault(chunk.chunk_id, row)
    return rows
