"""From text to terms: the one analysis of each language that indexing, queries and the gate's coverage probe share."""

from __future__ import annotations

import re
import threading
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tantivy import Filter, TextAnalyzer, TextAnalyzerBuilder, Tokenizer

from sluice.text.words import FUNCTION_WORDS

LONGEST_TERM_BYTES = 64
"""Tokens of this length and above are not indexed."""

STOP_WORDS = FUNCTION_WORDS
"""English function words. They are indexed; a question drops them unless it has no other words."""

ENGLISH = "en"
"""The analysis of texts in a language without its own, of unknown language, and of code."""

_FILE = tomllib.loads(Path(__file__).with_name("languages.toml").read_text("utf-8"))
_STEMMERS: dict[str, str] = _FILE["stemmers"]
_OTHER_FUNCTION_WORDS: dict[str, str] = _FILE["function_words"]
LANGUAGES = tuple(_STEMMERS)
"""The languages other than English that have their own analysis, by ISO 639-1 code."""

_SAME = {"nb": "no", "nn": "no"}
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+")
"""Kana and ideographs: scripts without blanks between words."""
_ALL, _CONTENT = 0, 1
_own = threading.local()


@lru_cache(maxsize=256)
def analysis_language(language: str | None) -> str:
    """Return the language whose analysis is used for a text in `language` (`de`, `de-AT`, None for unknown)."""
    code = (language or ENGLISH).partition("-")[0].lower()
    code = _SAME.get(code, code)
    return code if code in _STEMMERS else ENGLISH


def analyse(text: str, language: str = ENGLISH) -> list[str]:
    """Analyse `text` into terms as the index holds them: in order, with repeats, function words included.

    Terms of a language other than English begin with its code, since equal letters are different words there. In runs
    of kana and ideographs every two neighbouring characters are a term.
    """
    return _terms(text, language, _ALL)


@lru_cache(maxsize=1_000)
def passage_terms(text: str, language: str = ENGLISH) -> tuple[str, ...]:
    """Analyse as `analyse` does, for passages, their sentences and a question's words.

    The latest results are cached: the probe and several rules judge the same text, and later searches find it again.
    """
    return tuple(analyse(text, language))


@lru_cache(maxsize=64)
def extract_content_terms(text: str, language: str = ENGLISH) -> tuple[str, ...]:
    """Return the distinct terms of a question without function words, in order; all terms if none are left."""
    return tuple(dict.fromkeys(_terms(text, language, _CONTENT) or analyse(text, language)))


class QuestionWords(NamedTuple):
    """The words of a question: the terms of each, one per language; no term belongs to two words."""

    content: tuple[tuple[str, ...], ...]
    """Words that are not function words; all words where there are no others."""
    function: tuple[tuple[str, ...], ...]
    """The function words."""
    counts: Mapping[str, int]
    """Number of occurrences of each term in the question."""


@lru_cache(maxsize=64)
def analyse_question(text: str, languages: tuple[str, ...] = (ENGLISH,)) -> QuestionWords:
    """Analyse the words of a question in each of `languages`.

    The language with the most function words in the question decides which words are function words.
    """
    if languages == (ENGLISH,):
        counts = Counter(analyse(text))
        content = extract_content_terms(text)
        function = [term for term in counts if term not in content]
        return QuestionWords(tuple((term,) for term in content), tuple((term,) for term in function), counts)
    occurrences = Counter(_words(text))
    functions = _function_words(occurrences, _detect_language(occurrences, languages))
    if functions == occurrences.keys():
        functions = set()
    counts, found = Counter[str](), dict[str, tuple[str, ...]]()
    for word in sorted(occurrences, key=functions.__contains__):
        terms = dict.fromkeys(term for language in languages for term in analyse(word, language))
        found[word] = tuple(term for term in terms if term not in counts)
        counts.update(dict.fromkeys(terms, occurrences[word]))
    return QuestionWords(
        tuple(terms for word, terms in found.items() if terms and word not in functions),
        tuple(terms for word, terms in found.items() if terms and word in functions),
        counts,
    )


def detect_language(text: str, languages: Sequence[str]) -> str | None:
    """Return the one of `languages` with the most function words in the question; None where it has none."""
    return _detect_language(_words(text), languages)


def _detect_language(words: Iterable[str], languages: Sequence[str]) -> str | None:
    count_of = {language: len(_function_words(words, language)) for language in languages}
    likeliest = max(languages, key=count_of.__getitem__, default=None)
    return likeliest if likeliest and count_of[likeliest] else None


def _function_words(words: Iterable[str], language: str | None) -> set[str]:
    return {word for word in words if is_function_word(word, language)} if language else set()


@lru_cache(maxsize=10_000)
def is_function_word(word: str, language: str) -> bool:
    """Return whether a word is a function word of a language: a word that says nothing about a text's subject."""
    return not _terms(word, language, _CONTENT)


def _words(text: str) -> list[str]:
    """Return the words of a text in lower case, with repeats; pairs of characters in scripts without blanks."""
    return _analyzers(None)[_ALL].analyze(_spaced(text))


def _terms(text: str, language: str, which: int) -> list[str]:
    found = _analyzers(language)[which].analyze(_spaced(text))
    return found if language == ENGLISH else [f"{language}:{term}" for term in found]


def _spaced(text: str) -> str:
    return text if text.isascii() else _UNSPACED.sub(_pairs, text)


def _pairs(run: re.Match[str]) -> str:
    signs = run.group()
    return " " + " ".join(map("".join, pairwise(signs)) if len(signs) > 1 else signs) + " "


def _analyzers(language: str | None) -> tuple[TextAnalyzer, TextAnalyzer]:
    """Return the analyzers of a language: with function words, and without. For None: words in lower case, not stemmed.

    Each thread has its own, as an analyzer serves one thread at a time.
    """
    pairs: dict[str | None, tuple[TextAnalyzer, TextAnalyzer]] = _own.__dict__.setdefault("pairs", {})
    pair = pairs.get(language)
    if pair is None:
        pair = pairs[language] = _analyzer(*_stems(language)), _analyzer(*_stop(language), *_stems(language))
    return pair


def _analyzer(*filters: Filter) -> TextAnalyzer:
    """Return an analyzer that splits at all but letters and digits, lowers the case, and applies the filters."""
    builder = TextAnalyzerBuilder(Tokenizer.simple()).filter(Filter.remove_long(LONGEST_TERM_BYTES))
    for one in (Filter.lowercase(), *filters):
        builder = builder.filter(one)
    return builder.build()


def _stems(language: str | None) -> list[Filter]:
    """Return the stemming filters. English removes accents first, as only loan words have them; others need them."""
    if language is None:
        return []
    if language == ENGLISH:
        return [Filter.ascii_fold(), Filter.stemmer("english")]
    return [Filter.stemmer(_STEMMERS[language]), Filter.ascii_fold()]


def _stop(language: str | None) -> list[Filter]:
    if language is None:
        return []
    if language == ENGLISH:
        return [Filter.ascii_fold(), Filter.custom_stopword(list(STOP_WORDS))]
    own = _OTHER_FUNCTION_WORDS.get(language)
    return [Filter.custom_stopword(own.split()) if own else Filter.stopword(_STEMMERS[language])]


_WORD = re.compile(r"[^\W\d]\w*")
_COMPOUND = re.compile(r"\b[^\W\d]\w*?[A-Z0-9_]\w*")
"""A word with a capital, a digit or an underscore after its first character; other words are a single part."""
_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_A-Za-z]+")
_LONGEST_CHARACTERS = 80


def split_identifiers(text: str) -> Iterator[str]:
    """Yield the parts of every compound identifier in `text`, then the whole without separators; lower case.

    Plain words yield nothing: the text field has them.
    """
    for word in _COMPOUND.findall(text):
        if len(word) > _LONGEST_CHARACTERS or (word.islower() and "_" not in word):
            continue
        parts = _PART.findall(word)
        if len(parts) > 1:
            yield from (part.lower() for part in parts)
            yield "".join(parts).lower()


def extract_query_identifiers(text: str) -> Iterator[str]:
    """Yield the identifier terms that a question may match: those of its compound identifiers, and each plain word."""
    yield from split_identifiers(text)
    for match in _WORD.finditer(text):
        if len(match.group()) <= _LONGEST_CHARACTERS:
            yield match.group().replace("_", "").lower()
