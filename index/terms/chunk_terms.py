"""The terms of a chunk by field, as the term index and the memory segment take them in.

Most words come again and again, so a word is analysed once and its terms are remembered. A text is cut into words
where both analyses (`index.terms.analysis`, `index.terms.identifiers`) cut it at the latest: at white space, and at
each character of ASCII that is no letter, digit or underscore. So what they make of a text is what they make of its
words, in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from contracts.document import Chunk
from index.terms.analysis import ENGLISH, analyse, analysed_as
from index.terms.bm25 import LANGUAGE_FIELD, PROSE_FIELDS
from index.terms.identifiers import identifier_terms

FIELDS = (*PROSE_FIELDS, "code", LANGUAGE_FIELD)
ChunkTerms = Mapping[str, str]
"""For each of `FIELDS` its terms, separated by blanks; no term has white space in it."""

_NOT_ASCII = 0x80
_BLANKED = bytes(
    byte if byte >= _NOT_ASCII or chr(byte).isalnum() or chr(byte) == "_" else ord(" ") for byte in range(256)
)
"""For each byte of UTF-8 itself, or a blank where a word ends."""
_MOST_WORDS = 100_000
"""Words of a language that are remembered, some 15 MB; beyond them it begins anew."""
_LONGEST_WORD = 64
"""Characters; what is longer is data, or a script without blanks, hardly comes again, and would fill the memory."""


class _Vocabulary(dict[str, str]):
    """The terms of every word that was asked for; in `identifiers` those of the few words that are identifiers."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self._language = language
        self.identifiers: dict[str, str] = {}

    def __missing__(self, word: str) -> str:
        terms = " ".join(analyse(word, self._language))
        if not _is_plain(word) and (parts := " ".join(identifier_terms(word))):
            self.identifiers[word] = parts
        self[word] = terms
        return terms


_vocabularies: dict[str, _Vocabulary] = {}


def chunk_terms(title: str | None, language: str | None, chunk: Chunk) -> ChunkTerms:
    """The terms of a chunk of a document with this title, both in this language, as far as it is known."""
    known = analysed_as(language)
    text, code = _terms_of(_words_of(chunk.text), known)
    headings = ""
    if chunk.section_path or chunk.symbol_path:
        headings = prose_terms(" ".join(part for part in (*chunk.section_path, chunk.symbol_path) if part), known)
        code = f"{code_terms(chunk.symbol_path or '')} {code}"
    return {
        "text": text,
        "title": prose_terms(title, known) if title else "",
        "headings": headings,
        "code": code,
        LANGUAGE_FIELD: "" if known == ENGLISH else known,
    }


@lru_cache(maxsize=64)  # the chunks of a document have its title, and many a heading, in common
def prose_terms(text: str, language: str = ENGLISH) -> str:
    """What `index.terms.analysis.analyse` makes of a text, separated by blanks."""
    return _terms_of(_words_of(text), language)[0]


def code_terms(text: str) -> str:
    """What `index.terms.identifiers.identifier_terms` makes of a text, separated by blanks."""
    return _terms_of(_words_of(text), ENGLISH)[1]


def _words_of(text: str) -> list[str]:
    """The text cut where no term reaches across."""
    return text.encode().translate(_BLANKED).decode().split()


def _terms_of(words: Sequence[str], language: str) -> tuple[str, str]:
    """In prose, and as identifiers. Safe for threads: each ends with the vocabulary that it began with."""
    if words and max(map(len, words)) > _LONGEST_WORD:
        text = " ".join(words)
        return " ".join(analyse(text, language)), " ".join(identifier_terms(text))
    vocabulary = _vocabularies.get(language)
    if vocabulary is None or len(vocabulary) + len(vocabulary.identifiers) >= _MOST_WORDS:
        vocabulary = _vocabularies[language] = _Vocabulary(language)
    prose = " ".join(map(vocabulary.__getitem__, words))
    identifiers = vocabulary.identifiers
    if identifiers.keys().isdisjoint(words):
        return prose, ""
    return prose, " ".join([identifiers[word] for word in words if word in identifiers])


def _is_plain(word: str) -> bool:
    """Whether it is letters that are small from the second on, as most words are: no identifier of several parts."""
    return word.isalpha() and word[1:].islower()
