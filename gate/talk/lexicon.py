"""Normalises text to one case without accents and punctuation, so that word lists match the way people type."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, product
from math import prod
from pathlib import Path

from sluice.contracts.errors import InvalidSetting
from sluice.text.words import UNSPACED

_MARKS = re.compile("[\u0300-\u036f\u0610-\u061a\u064b-\u065f\u0670\u0640\u200b-\u200f\ufe0f]")
"""Accents of Latin, Greek and Cyrillic, vowel marks and stretching of Arabic, and zero-width characters."""
_ALIKE = str.maketrans({"æ": "ae", "œ": "oe", "þ": "th", **dict(zip("øłđðıىةیک", "olddiيهيك", strict=True))})
_SENTENCE_ENDS = re.compile(r"[!?。！？؟।…;\n\r]+|(?<!\d)\.+|\.+(?!\d)")
_EMOTICON = re.compile(r"(?<!\w)(?:[:;=8xX][-'^o]?[)(\]\[DPpOo3|/\\*]+|<3+|\^_*\^|[xX]D+)(?!\w)")


def normalize(text: str) -> str:
    """Return `text` in lower case without accents, NFKC-normalised: `Çok Güzel!` becomes `cok guzel!`."""
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    return unicodedata.normalize("NFC", _MARKS.sub("", folded)).translate(_ALIKE)


def split_words(normalized: str) -> list[str]:
    """Return the words: runs of letters, their marks, and digits. Apostrophes and all other characters separate."""
    return "".join(character if _is_of_word(character) else " " for character in normalized).split()


def split_sentences(text: str) -> list[str]:
    """Return the sentences of `text` that hold more than punctuation; a point between digits ends none."""
    return [part for part in _SENTENCE_ENDS.split(text) if any(map(_is_of_word, part))]


def is_wordless(text: str) -> bool:
    """Return whether `text` consists of emoji, emoticons and plain punctuation alone."""
    rest = _EMOTICON.sub("", text)
    return bool(text.strip()) and all(
        character.isspace() or character in "?!.,…-~()'\"" or unicodedata.category(character) in _OF_EMOJI
        for character in rest
    )


def without_emoticons(text: str) -> str:
    """Return `text` without emoticons like `:-)`, whose letters are no words."""
    return _EMOTICON.sub(" ", text)


def squeezed(word: str) -> tuple[str, str]:
    """Return `word` with letters repeated three times or more cut to two, and to one: `hiiii` is `hii` and `hi`."""
    return _RUN.sub(r"\1\1", word), _RUN.sub(r"\1", word)


_RUN = re.compile(r"(\w)\1{2,}")
_OF_EMOJI = frozenset(("So", "Sk", "Mn", "Cf", "Cn", "Me"))


@lru_cache(maxsize=8192)
def _is_of_word(character: str) -> bool:
    return unicodedata.category(character)[0] in "LMN"


LEXICONS_DIR = Path(__file__).parent.parent / "lexicons"
MOST_SPELLINGS = 200
"""The most spellings of a phrase stored one by one; for more, a `Pattern` stores the options of each place."""
_CHOICE = re.compile(r"\(([^()]*\|[^()]*)\)")


class Role:
    """The role of a word or phrase in an utterance: bits of a plain int, as one phrase may have several roles.

    An `enum.IntFlag` would take ten times as long to read the lists, and twice as long for each question.

        SAID            small talk by itself: a greeting, thanks, a farewell, praise, a complaint, yes and no
        SOFT            goes along with anything: please, very, today, my friend
        FRAME           function words that carry a question: what, is, can, the, me
        YOU             addresses the assistant: you, your, yourself; in some languages the verb's form
        ABOUT           subject of questions to an assistant about itself: name, age, feelings, abilities
        SPEAK           verbs that take a language: speak, understand
        LANGUAGE        a language's name
        CONVERSATION    a reference to earlier messages: repeat, shorter, my last question
        REFERENCE       as CONVERSATION, where there is a session: the second one, more details
        NEVER           a turn of phrase that shows a real question: do you have to, do you say
        TRANSLATE and REWRITE    verbs for given text: rewrite, summarise, proofread
        CHANGE          verbs that need a part of the text as their object: make, fix, check
        WORDING         a text's parts and manner: sentence, grammar, shorter, more polite
        GIVEN           points at the given text: this, that, the following
        ASK             asks for a result: what is, calculate, how much is
        BINARY          joins two numbers: plus, times, percent of
        UNARY           takes one number: the square root of, squared
    """

    SAID, SOFT, FRAME, YOU, ABOUT, SPEAK, LANGUAGE, CONVERSATION, REFERENCE, NEVER = (1 << bit for bit in range(10))
    TRANSLATE, REWRITE, CHANGE, WORDING, GIVEN, ASK, NUMBER, BINARY, UNARY = (1 << bit for bit in range(10, 19))


Slot = tuple[tuple[str, ...], ...]
"""The options at one place of a phrase: sequences of words, one of which may be empty."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A phrase of very many spellings: at each place one of some sequences of words."""

    slots: tuple[Slot, ...]
    roles: int

    def first_words(self) -> Iterator[str]:
        """Yield the words that it may begin with."""
        for slot in self.slots:
            yield from (option[0] for option in slot if option)
            if () not in slot:
                return

    def ends_from(self, words: Sequence[str], start: int) -> frozenset[int]:
        """Return the places where the pattern may end, if it begins at `start`."""
        ends = {start}
        for slot in self.slots:
            ends = {
                end + len(option) for end in ends for option in slot if tuple(words[end : end + len(option)]) == option
            }
        return frozenset(ends - {start})


@dataclass(frozen=True, slots=True, eq=False)
class Language:
    """The phrases of one language, normalised, with their roles. Read once, so it is compared by identity."""

    code: str
    phrases: Mapping[str, int]
    patterns: Mapping[str, Sequence[Pattern]]
    """Phrases of very many spellings, by each word that they may begin with."""
    words: frozenset[str]
    """Every word of any phrase: a text with another word cannot be made of phrases."""
    unspaced: bool
    longest: int
    """Words of the longest phrase, or its characters in a script without spaces."""


Lexicon = tuple[Language, ...]
"""All languages, in the order of their codes."""


@lru_cache(maxsize=4)
def read_lexicon(name: str) -> Lexicon:
    """Return the lexicon `name`, such as `talk.v1`, read once. Raises `InvalidSetting` if there is none."""
    tables = {
        path.stem: tomllib.loads(path.read_text("utf-8")) for path in sorted((LEXICONS_DIR / name).glob("*.toml"))
    }
    if not tables:
        raise InvalidSetting("profile.talk.lexicon", f"no lexicon {name!r}", "one of gate/lexicons, such as talk.v1")
    shared = tables.pop("shared")
    return tuple(_read_language(code, table, shared) for code, table in tables.items())


def _read_language(code: str, table: Mapping[str, str], shared: Mapping[str, str]) -> Language:
    phrases: dict[str, int] = {}
    patterns: list[Pattern] = []
    unspaced = bool(UNSPACED.search("".join(table.values())))
    for role_name, listed in [*table.items(), ("said", shared["said"])]:
        role: int = getattr(Role, role_name.upper())
        for raw in listed.split(","):
            slots = tuple(_slots(raw, code, unspaced))
            if prod(map(len, slots)) > MOST_SPELLINGS:
                patterns.append(Pattern(slots, role))
                continue
            for phrase in _spelled_out(slots, unspaced):
                phrases[phrase] = phrases.get(phrase, 0) | role
    return _language(code, phrases, patterns, unspaced)


def _language(code: str, phrases: dict[str, int], patterns: Sequence[Pattern], unspaced: bool) -> Language:
    by_first: dict[str, list[Pattern]] = {}
    for pattern in patterns:
        for word in set(pattern.first_words()):
            by_first.setdefault(word, []).append(pattern)
    of_patterns = {word for pattern in patterns for slot in pattern.slots for option in slot for word in option}
    return Language(
        code=code,
        phrases=phrases,
        patterns=by_first,
        words=frozenset(of_patterns.union(*(phrase.split() for phrase in phrases))),
        unspaced=unspaced,
        longest=max(len(phrase) if unspaced else len(phrase.split()) for phrase in phrases),
    )


def _slots(raw: str, code: str, unspaced: bool) -> Iterator[Slot]:
    """Yield the options at each place of a phrase in list notation; a choice within a choice is expanded."""
    depth = start = 0
    for at, character in enumerate(f"{raw}("):
        if character == "(" and not depth:
            if raw[start:at].strip():
                yield _options([raw[start:at]], code, unspaced)
            start = at + 1
        depth += (character == "(") - (character == ")")
        if character == ")" and not depth:
            yield _options(_expanded(raw[start - 1 : at + 1]), code, unspaced)
            start = at + 1


def _options(written: Iterable[str], code: str, unspaced: bool) -> Slot:
    options = (spelling for one in written for spelling in _spellings(one, code))
    return tuple(dict.fromkeys(tuple("".join(words) if unspaced else words) for words in options))


def _spelled_out(slots: Sequence[Slot], unspaced: bool) -> Iterator[str]:
    for chosen in product(*slots):
        phrase = ("" if unspaced else " ").join(chain.from_iterable(chosen))
        if phrase:
            yield phrase


def _expanded(phrase: str) -> Iterator[str]:
    choice = _CHOICE.search(phrase)
    if choice is None:
        yield phrase
        return
    for option in choice[1].split("|"):
        yield from _expanded(phrase[: choice.start()] + option + phrase[choice.end() :])


def _spellings(phrase: str, code: str) -> Iterator[list[str]]:
    """Yield the normalised words of a phrase; German also with `ae` for `ä`."""
    yield split_words(normalize(phrase))
    if code == "de" and any(letter in phrase for letter in "äöü"):
        yield split_words(normalize(phrase.replace("ä", "ae").replace("ö", "oe").replace("ü", "ue")))
