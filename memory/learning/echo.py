"""Whether a text only repeats what memory itself had printed. Such a text is no new learning and no new observation.

An agent restates its prompt: word by word, shortened, in another order, with "as noted in memory" before it. It is an
echo where all that it says stands in a printed line: nearly all of its words, and each of its identifiers, numbers and
negations. A text that brings a number, an identifier or a negation of its own says something new. No model is needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, takewhile

from memory.learning.polarity.compare import compare
from memory.learning.polarity.tokens import Kind, Token, tokens_of

CONTAINED = 0.75
"""So much of a text's words stands in what it is an echo of. Chosen on own pairs: see docs/memory/loop.md."""

_FRAME = re.compile(
    r"""
    \b(?:(?:seen|observed|noted|learned|recorded|met|happened|again)\s+)?(?:in|since|from|during|at|by)?\s*
        (?:earlier|previous|prior|past|the\ last|last)?\s*iterations?(?:\s+\#?\d+(?:\s*(?:,|and|to|-)\s*\d+)*)?
  | \b(?:observed|seen|noted)\s+(?:\d+\s+times|once|twice)
  | \b(?:please\s+)?verify\s+(?:this\s+|it\s+)?before\s+(?:relying|use|using)(?:\s+on\s+it)?
  | \b(?:as|like)\s+(?:was\s+|already\s+|previously\s+)*
        (?:noted|mentioned|stated|said|seen|recorded|observed|remembered|recalled|learned|shown)
        (?:\s+(?:in|by|from)\s+(?:the\s+|my\s+|our\s+)?(?:\w+\s+)?
           (?:memory|notes?|block|prompt|context|learnings?|observations?))?
  | \b(?:according\s+to|per|from|based\s+on)\s+(?:the\s+|my\s+|our\s+)?(?:\w+\s+)?
        (?:memory|notes?|learnings?|observations?)
  | \b(?:the\s+|my\s+)?(?:memory|notes?)\s+
        (?:says?|notes?|states?|tells?(?:\s+(?:us|me))?|mentions?|reminds?(?:\s+(?:us|me))?)(?:\s+that)?
  | \b(?:reminder|note|remember|observation|learning|recall|lesson)s?\s*(?:\#?\d+)?\s*:
  | \b(?:remember|recall|note)(?:\s+to|\s+that)\b
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""What is said around a memory and is no part of it."""
_LINE_NUMBER = re.compile(r"(?<=\w):(\d+)\b")
_QUOTED = re.compile("“([^”]+)”")
_SENTENCE_END = re.compile(r"(?<=[\w)`'\"”][.;!?])\s+|\n+")
_FUNCTION_WORDS_TEXT = """
a an the this that these those it its they them their we our us you your i my is are was were be been being am do does
did has have had will would shall should can could may might must to of in on at for with by from as and or so then
than there here also just very really always make sure when where which what who how if but into out up over about
please need needs each every any get gets got have having make makes made give given be being one
"""
_FUNCTION_WORDS = frozenset(_FUNCTION_WORDS_TEXT.split())
_NEGATIONS = frozenset({"not", "never", "without", "neither", "nor", "none", "nothing", "avoid"})
_NEGATED = "not"
_NO = "no"
_KEPT_APART = frozenset({"antonym", "modality", "order"})
_DIRECTED = frozenset({_NEGATED, _NO, "before", "after", "until", "than", "instead"})


@dataclass(frozen=True, slots=True)
class _Said:
    """A text by the stems of its content `words` and by what must be the same letter by letter."""

    text: str
    words: frozenset[str]
    exact: frozenset[str]
    negations: int
    directed: tuple[tuple[str, tuple[str, ...]], ...]
    """Words whose two sides are not alike, as "not", "before" and "instead of", each with the two words behind it."""


def is_echo(text: str, lines: Iterable[str], *, contained: float = CONTAINED) -> bool:
    """Whether each sentence of `text` is said by one of the printed `lines`.

    `contained` is the share of a sentence's words that stand in a line: at 1 one word of its own makes it new.
    """
    printed = [said for line in lines for said in _parts(line)]
    return bool(printed) and all(
        any(_says(line, sentence, contained) for line in printed) for sentence in _sentences(text)
    )


def _sentences(text: str) -> list[_Said]:
    """What a text says, sentence by sentence; frames such as "As noted in memory:" alone say nothing."""
    parts = [_say(part) for part in _SENTENCE_END.split(text)]
    return [part for part in parts if part.words or part.exact]


def _says(line: _Said, sentence: _Said, contained: float) -> bool:
    if sentence.negations % 2 != line.negations % 2:
        return False
    if not sentence.exact <= line.exact or not all(_directs(line, *one) for one in sentence.directed):
        return False
    comparison = compare(sentence.text, line.text)
    if comparison.same or comparison.opposite or not _KEPT_APART.isdisjoint(comparison.differences):
        return comparison.same
    own = sentence.words - line.words
    if not own:
        return True
    return len(own) <= (1 - contained) * len(sentence.words) and line.words <= sentence.words


@lru_cache(maxsize=4096)
def _parts(line: str) -> tuple[_Said, ...]:
    """What a printed line says: all of it, its quotations, and each of their sentences."""
    said = [_say(part) for whole in (line, *_QUOTED.findall(line)) for part in (whole, *_SENTENCE_END.split(whole))]
    return tuple(dict.fromkeys(one for one in said if one.words or one.exact))


@lru_cache(maxsize=4096)
def _say(text: str) -> _Said:
    bare = _LINE_NUMBER.sub(r" \1", _FRAME.sub(" ", text)).strip(" ,:;.-–—()\"'“”")
    tokens = tokens_of(bare)
    told = [_told(one) for one in tokens if not _is_filler(one)]
    words = [word for word in told if word]
    return _Said(
        bare,
        frozenset(word for word in words if word not in _DIRECTED),
        frozenset(one.text for one in tokens if one.kind in (Kind.IDENTIFIER, Kind.NUMBER)),
        words.count(_NEGATED) + words.count(_NO),
        tuple((word, _behind(told[place + 1 :])) for place, word in enumerate(told) if word in _DIRECTED),
    )


def _directs(line: _Said, direction: str, behind: tuple[str, ...]) -> bool:
    """Whether the line has the same word before the same: "before the long tests" and "before the tests"."""
    others = [other for word, other in line.directed if word == direction]
    if direction == _NEGATED:
        return any(behind[:1] == other[:1] for other in others)
    return any({*behind[:1]} & {*other} or {*other[:1]} & {*behind} for other in others)


def _behind(told: Sequence[str]) -> tuple[str, ...]:
    """The next two words, of the same clause."""
    clause = takewhile(bool, told)
    return tuple(islice(clause, 2))


def _told(token: Token) -> str:
    """What is compared of a token; a sign is the end of a clause, told as nothing."""
    if token.kind is Kind.SIGN:
        return ""
    if token.text in _NEGATIONS:
        return _NEGATED
    return token.text if token.kind is not Kind.WORD or token.text in _DIRECTED else _stem(token.text)


def _is_filler(token: Token) -> bool:
    return token.kind is Kind.WORD and token.text in _FUNCTION_WORDS


def _stem(word: str) -> str:
    """A word without its ending: "fails", "failed" and "failing" are "fail"."""
    for ending in ("ingly", "edly", "ing", "ies", "ed", "es", "ly", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            return word[:-1] if word[-1] == word[-2] and word[-1] not in "ls" else word
    return word.removesuffix("e") if len(word) > 4 else word
