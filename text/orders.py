"""Finds commands to drop earlier orders: "ignore all previous instructions" and its kin, in thirty languages.

Such a command is a verb of discarding and, next to it, what is discarded: orders that were given before, all of them,
or those of the reader. The words are data (`orders.toml`), all languages in one table, as a sentence may mix them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from sluice.text.pattern_file import PatternFile
from sluice.text.words import FUNCTION_WORDS

_FILE = PatternFile(Path(__file__).with_name("orders.toml"))
_WORD = re.compile(r"[^\W_]+")
_STOP = re.compile(r"[.!?;。！？।؟…](?:\W|$)|\n\s*\n|\n\s*(?=[-*+•#]\s)")
_SENTENCE = re.compile(r"[^。.!?！？।\n]+")
_UNSPACED = re.compile(r"[\u0900-\u09ff\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]")
_FAR = 12
"""Most words between the verb and the end of what is discarded."""
_UNKNOWN = 2
"""Most words of another kind among them."""
_FAR_UNSPACED = 40
_SHORTEST_STEM = 2


class Command(NamedTuple):
    """The place of a command in a text, and the language of its verb."""

    start: int
    end: int
    language: str


class _Token(NamedTuple):
    word: str
    start: int
    end: int


def find_discarding(text: str) -> Iterator[Command]:
    """Yield the commands of a normalised text to drop earlier orders, in order, whether it gives or quotes them."""
    if not text.isascii() and _UNSPACED.search(text):
        yield from _unspaced(text)
    if not any(map(_is_telling, set(_WORD.findall(text)))):
        return
    start = 0
    for stop in (*(found.start() + 1 for found in _STOP.finditer(text)), len(text)):
        if any(map(_is_telling, _WORD.findall(text, start, stop))):
            yield from _in_sentence([_Token(one[0], *one.span()) for one in _WORD.finditer(text, start, stop)])
        start = stop


def _in_sentence(tokens: Sequence[_Token]) -> Iterator[Command]:
    last = -1
    for place, token in enumerate(tokens):
        if place > last and _is_verb(token.word) and (found := _command(tokens, place)):
            low, last, language = found
            yield Command(tokens[low].start, tokens[last].end, language)


def _command(tokens: Sequence[_Token], place: int) -> tuple[int, int, str] | None:
    """Return first and last token of a command whose verb stands at `place`, and its language."""
    for sense, language, length in _senses_at(tokens, place):
        after = place + length
        is_denied = any(_is(tokens, at, "not") for at in (place - 1, after) if 0 <= at < len(tokens))
        if sense in ("discard", "weak") and not is_denied:
            end = _object(tokens, after, is_weak=sense == "weak")
            if end is not None:
                return place, end, language
        if sense == "obey":
            near = (*range(max(0, place - 2), place), *range(after, min(after + 2, len(tokens))))
            is_denied = any(_is(tokens, at, "not") for at in near)
            end = _object(tokens, after, is_weak=False)
            if end is not None and not is_denied:
                turned = next((at for at in range(end, min(end + 4, len(tokens))) if _is(tokens, at, "after")), None)
                is_denied, end = turned is not None, turned or end
            if end is not None and is_denied:
                return max(0, place - 1), end, language
        if sense in ("last", "void"):
            low = next(
                (
                    at
                    for at in range(place - 1, max(-1, place - 9), -1)
                    if _object(tokens[:place], at, is_weak=sense == "void") is not None
                ),
                None,
            )
            if low is not None:
                return low, min(after, len(tokens)) - 1, language
    return None


_KNOWN = frozenset(("prompts", "orders", "prior", "yours", "whole", "everything", "told", "before", "glue", "not"))


def _object(tokens: Sequence[_Token], start: int, *, is_weak: bool) -> int | None:
    """Return the last token of what is discarded, if the words from `start` on name orders given before.

    A noun of a prompt needs one word that it was given before, to the reader, or that all of it is meant; another noun
    needs the first of these. Where all or everything stands alone, it has to be what was said before.
    """
    seen: set[str] = set()
    unknown, noun = 0, -1
    for at in range(start, min(start + _FAR, len(tokens))):
        senses = {sense for sense, _, _ in _senses_at(tokens, at)}
        known = senses & _KNOWN
        unknown += not known
        if unknown > _UNKNOWN or (not known and _is_verb(tokens[at].word)):
            break
        if senses & {"prompts", "orders"} and noun < 0:
            noun = at
            seen |= senses & {"prompts", "orders"}
        if noun < 0 and "everything" in senses and at <= start + 1:
            seen.add("everything")
        seen |= senses & {"prior", "yours", "whole"}
        if tokens[at].word in _words("own"):
            break
        if noun >= 0:
            if "prompts" not in seen and "yours" not in seen and _is_narrowed(tokens, max(noun, at)):
                return None
            is_prior = "prior" in seen or _came_before(tokens, at)
            if is_prior and not (is_weak and "prompts" not in seen):
                return max(noun, at)
            if "prompts" in seen and seen & {"yours", "whole"}:
                return noun
        elif "everything" in seen and not is_weak and at > start and _came_before(tokens, at):
            return None if _is_narrowed(tokens, at) else at
    return None


def _is_narrowed(tokens: Sequence[_Token], at: int) -> bool:
    """Return whether the words behind `at` say which of many are meant: "in the log", "about Thursday"."""
    behind = tokens[at + 1 : at + 4]
    is_reader = any(_is(behind, place, sense) for place in range(len(behind)) for sense in ("yours", "prompts"))
    return bool(behind) and behind[0].word in _words("narrowing") and not is_reader


def _came_before(tokens: Sequence[_Token], at: int) -> bool:
    """Return whether the words at `at` say "that you were told", or "before this" and not "before the marker"."""
    for sense, _, length in _senses_at(tokens, at):
        if sense == "told":
            return True
        after = tokens[at + length].word if at + length < len(tokens) else ""
        if sense == "before" and (not after or after in _words("pointing") or _is_verb(after)):
            return True
    return False


def _is(tokens: Sequence[_Token], at: int, sense: str) -> bool:
    return any(one == sense for one, _, _ in _senses_at(tokens, at))


def _senses_at(tokens: Sequence[_Token], at: int) -> Iterator[tuple[str, str, int]]:
    """Yield sense, language and number of words of each entry of the table that stands at a place, longest first."""
    for entry in _entries(tokens[at].word):
        rest = entry.words[1:]
        if len(rest) < len(tokens) - at and all(
            _matches(part, tokens[at + 1 + number].word) for number, part in enumerate(rest)
        ):
            yield entry.sense, entry.language, len(entry.words)


def _matches(part: str, word: str) -> bool:
    return word.startswith(part[:-1]) if part.endswith("*") else word == part


class _Entry(NamedTuple):
    words: tuple[str, ...]
    sense: str
    language: str


@lru_cache(maxsize=50_000)
def _entries(word: str) -> tuple[_Entry, ...]:
    table = _table()
    found = [*table.get(word, ())]
    for length in range(_SHORTEST_STEM, len(word) + 1):
        found += table.get(word[:length] + "*", ())
    return tuple(sorted(found, key=lambda entry: -len(entry.words)))


_VERBS = frozenset(("discard", "weak", "obey", "last", "void"))


@lru_cache(maxsize=50_000)
def _is_verb(word: str) -> bool:
    return any(entry.sense in _VERBS for entry in _entries(word))


@lru_cache(maxsize=50_000)
def _is_telling(word: str) -> bool:
    """Return whether a word is the longest of an entry for a verb: a sentence without one holds no command."""
    table = _longest_words()
    return word in table or any(f"{word[:length]}*" in table for length in range(_SHORTEST_STEM, len(word) + 1))


@cache
def _longest_words() -> frozenset[str]:
    entries = (entry for entries in _table().values() for entry in entries if entry.sense in _VERBS)
    return frozenset(max(entry.words, key=len) for entry in entries)


@cache
def _table() -> Mapping[str, list[_Entry]]:
    table: dict[str, list[_Entry]] = {}
    for language, senses in _FILE.tables.items():
        if language not in ("unspaced", "known"):
            for sense, entries in senses.items():
                for entry in dict.fromkeys(entries.split()):
                    words = tuple(entry.split("_"))
                    table.setdefault(words[0], []).append(_Entry(words, sense, language))
    return table


@cache
def _words(kind: str) -> frozenset[str]:
    return frozenset(_FILE.tables["known"][kind].split())


@cache
def known_words() -> frozenset[str]:
    """Return the words by which a decoded text is recognised: of commands, and function words."""
    table = _FILE.tables
    spaced = {
        part.rstrip("*")
        for language, senses in table.items()
        if language not in ("unspaced", "known")
        for sense, entries in senses.items()
        if sense != "glue" or language == "en"
        for part in entries.replace("_", " ").split()
    }
    return frozenset(spaced) | frozenset(FUNCTION_WORDS) | frozenset(table["known"]["words"].split())


def _unspaced(text: str) -> Iterator[Command]:
    for language in _FILE.tables["unspaced"]:
        discard, orders, prior = (_alternatives(language, kind) for kind in ("discard", "orders", "prior"))
        if not discard.search(text):
            continue
        for sentence in _SENTENCE.finditer(text):
            for verb in discard.finditer(text, *sentence.span()):
                low = max(sentence.start(), verb.start() - _FAR_UNSPACED)
                high = min(sentence.end(), verb.end() + _FAR_UNSPACED)
                order, former = orders.search(text, low, high), prior.search(text, low, high)
                if order and former:
                    parts = (verb, order, former)
                    yield Command(min(one.start() for one in parts), max(one.end() for one in parts), language)
                    break


@cache
def _alternatives(language: str, kind: str) -> re.Pattern[str]:
    words = unicodedata.normalize("NFKC", _FILE.tables["unspaced"][language][kind]).split()
    return re.compile("|".join(map(re.escape, words)).replace("_", " "))
