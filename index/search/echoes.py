"""Echoes: passages that merely repeat the question. They have all of its words, rank first, and answer nothing.

A question stands alone in a list of questions, as a heading whose text is elsewhere, in a log of past questions, in the
strings and names of tests, and in examples of a command. In an FAQ its answer follows it.

A passage is an echo where it repeats the question, its other sentences have less than half of the question's content
terms, and no repetition is answered:

    as a sentence that ends with a question mark   no words follow it before the next question or heading
    as a line or sentence without one              the passage has no other words
    quoted or in an identifier, among other words  no five words in a row follow it in its line

The last two hold only where the question, or its repetition, ends with a question mark: otherwise the user may be
looking for the text word for word, such as an error's message in the code that raises it.

Repeated means word for word, whatever the case, punctuation and marks between the words; as a sentence that ends with a
question mark also in another order or with other function words. A sentence with a full stop states something: it is no
repetition, as a claim is best answered by its source. Question marks of all scripts count; the only word lists used are
those of the term index.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from sluice.index.terms.analysis import analyse, analysis_language, extract_content_terms

LEAST_WORDS = 4
"""A shorter question is a name or a few keywords, which an answering passage may well repeat. In scripts without blanks
two characters count as a word."""
SAME_TERMS = 0.8
"""Jaccard index of the content terms from which two questions count as the same: one of nine terms may differ."""
COVERED = 0.5
"""Share of the question's content terms in a passage's other sentences from which these may be an answer."""
SHORTEST_ANSWER = 2
"""Letters of the shortest answer: `No`."""
LABEL_WORDS = 2
"""Words beside a question that may be its label or number: `Question 3:`."""

_CHARACTER = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_WORD = re.compile(rf"{_CHARACTER.pattern}|[^\W_]+")
"""A word; in scripts without blanks between words a character."""
_UNIT_END = re.compile(r"\n|(?<=[.!?…])[\"'”’»)\]*_`]*[ \t]+|(?<=[。！？؟])")
_MARK = r"(?:[?\uff1f\u061f\u037e\u055e\u1367\u2047\u2048\ufe56]|(?<=[\u0370-\u03ff\u1f00-\u1fff]);)"
"""Question marks: Latin, full-width, Arabic, Greek, Armenian, Ethiopic, doubled, with an exclamation mark, small; and
the semicolon, which most Greek texts use."""
_ASKING = re.compile(_MARK)
_ASKS = re.compile(rf"{_MARK}\W*$")
_STATES = re.compile(r"[\w\"'”’»)][.。][\"'”’»)\]*_`]*\s*$")
_HEADING = re.compile(r"\s*(#+)\s")
_ITEM = re.compile(r"(\s*)(?:[-*+•]|\d+[.)])\s")
_LINK_TARGET = re.compile(r"\]\([^)\s]*\)")
_QUOTES = frozenset("\"'`“”„‟‘’‚«»‹›「」『』")
_PUNCTUATION = re.compile(rf"^(?:{_MARK}|[.!,:])+")
_PROSE = re.compile(r"[^\W_]+(?:[ ,]+[^\W_]+){4}")
"""Five words in a row: likely an answer, and not arguments of a call."""
_IDENTIFIER_BEFORE = re.compile(r"[^\W_]_$")


@dataclass(frozen=True, slots=True)
class _Unit:
    """A line or sentence of a passage. `repeat` is the range that repeats the question; `asks`: it ends as one."""

    text: str
    asks: bool
    repeat: tuple[int, int] | None

    @property
    def is_label(self) -> bool:
        """Whether it only labels the text that follows: `A:`, `assistant:`."""
        return self.text.rstrip().endswith(":") and len(_WORD.findall(self.text)) <= LABEL_WORDS

    def ends_answer_to(self, question: _Unit) -> bool:
        """Return whether the answer to `question` ends here: at a question, the next heading or the next list item."""
        heading, own_heading = _HEADING.match(self.text), _HEADING.match(question.text)
        item, own_item = _ITEM.match(self.text), _ITEM.match(question.text)
        if heading:
            return own_heading is None or len(heading[1]) <= len(own_heading[1])
        return self.asks or (item is not None and own_item is not None and len(item[1]) <= len(own_item[1]))


class EchoDetector:
    """Finds the echoes of one question. Most passages cost only a search for two words."""

    def __init__(self, question: str) -> None:
        self._question = question
        self._asks = _ASKS.search(question) is not None
        self._words = _WORD.findall(question.casefold())
        self._is_long = len(self._words) - len(_CHARACTER.findall(question)) / 2 >= LEAST_WORDS
        self._longest_first = sorted(set(self._words), key=len, reverse=True)

    def is_echo(self, text: str, language: str | None = None) -> bool:
        """Return whether a passage of `language` (as `Chunk.language`) merely repeats the question."""
        if not self._is_long or not self._may_repeat(text):
            return False
        units = [self._unit(part) for part in _split(text)]
        repeats = [(position, unit.repeat) for position, unit in enumerate(units) if unit.repeat is not None]
        if not repeats or any(_is_answered(units, *repeat, self._asks) for repeat in repeats):
            return False
        others = " ".join(unit.text for unit in units if unit.repeat is None and not _ASKING.search(unit.text))
        return self._coverage(others, language) < COVERED

    def _may_repeat(self, text: str) -> bool:
        """Return whether the passage may repeat the question: this excludes most passages cheaply."""
        folded, words = text.casefold(), self._longest_first
        if not all(word in folded for word in words[:2]):
            return False
        return _ASKING.search(text) is not None or all(word in folded for word in words)

    def _unit(self, text: str) -> _Unit:
        asks = _ASKS.search(text) is not None
        repeat = None if _STATES.search(text) else self._find_repeat(text)
        if repeat is None and asks and self._asks_the_same(text):
            repeat = 0, len(text)
        return _Unit(text, asks, repeat)

    def _find_repeat(self, text: str) -> tuple[int, int] | None:
        """Return the range of the question's words in this order with no other word between; None if absent."""
        spans = [found.span() for found in _WORD.finditer(text)]
        words = [text[start:end].casefold() for start, end in spans]
        size = len(self._words)
        for first in range(len(words) - size + 1):
            if words[first] == self._words[0] and words[first : first + size] == self._words:
                return spans[first][0], spans[first + size - 1][1]
        return None

    def _asks_the_same(self, text: str) -> bool:
        terms, asked = set(extract_content_terms(self._question)), set(extract_content_terms(text))
        return len(terms & asked) >= SAME_TERMS * len(terms | asked)

    def _coverage(self, text: str, language: str | None) -> float:
        """Return the share of the question's content terms that occur in a text of `language`."""
        analysis = analysis_language(language)
        wanted = extract_content_terms(self._question, analysis)
        return len(set(wanted).intersection(analyse(text, analysis))) / max(1, len(wanted))


def _split(text: str) -> Iterator[str]:
    """Yield the lines and sentences, without the targets of links."""
    return (part for part in _UNIT_END.split(_LINK_TARGET.sub("]", text)) if part and not part.isspace())


def _is_answered(units: list[_Unit], position: int, repeat: tuple[int, int], is_question: bool) -> bool:
    """Return whether a repetition, or the text behind it, may be an answer."""
    unit, (start, end) = units[position], repeat
    before, behind = _WORD.findall(unit.text[:start]), _WORD.findall(unit.text[end:])
    is_question = is_question or _ASKING.match(unit.text, end) is not None
    if is_question and (before or behind) and _is_quoted(unit.text, start, end):
        return _PROSE.search(_ASKING.split(unit.text[end:])[-1]) is not None
    if unit.asks or _HEADING.match(unit.text):
        following = takewhile(lambda one: not one.ends_answer_to(unit), units[position + 1 :])
        return (
            sum(len(word) for one in following if not one.is_label for word in _WORD.findall(one.text))
            >= SHORTEST_ANSWER
        )
    if not is_question or len(before) + len(behind) > LABEL_WORDS:
        return True
    return any(_WORD.search(one.text) for one in units if one.repeat is None and not one.asks)


def _is_quoted(text: str, start: int, end: int) -> bool:
    """Return whether the range is in quotation marks, or ends an identifier."""
    before, behind = text[:start].rstrip(), _PUNCTUATION.sub("", text[end:])
    return before[-1:] in _QUOTES or behind[:1] in _QUOTES or _IDENTIFIER_BEFORE.search(text[:start]) is not None
