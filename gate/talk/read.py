"""Recognises talk: an utterance that no source could answer better than the assistant itself.

Five kinds, each by rule and closed word lists (`gate/lexicons`), in many languages and without any model:

    small_talk      greetings, thanks, farewells, praise, complaints, yes and no
    assistant       about the assistant: who it is, its abilities, its feelings
    conversation    about earlier messages: repeat that, shorter, what did I just ask
    arithmetic      calculations in digits or words
    given_text      translate, rewrite, correct, summarise a given text

Every sentence must be talk, and all its words must be of one language's lists: "hi! who won the cup?" is a question.

A given text is in quotation marks, after a colon or a line break, or pointed at ("make it shorter"). The rest is the
instruction, and must consist of a language's words for such instructions alone: "summarise the plot of 'Hamlet'" does
not qualify, because its text is a book that is somewhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, NamedTuple

from sluice.gate.talk.lexicon import (
    Language,
    Lexicon,
    Role,
    is_wordless,
    normalize,
    split_sentences,
    split_words,
    squeezed,
    without_emoticons,
)

MOST_WORDS = 24
MOST_CHARACTERS = 60
"""Longest sentence, in characters, in a script without spaces."""


def read_roles(sentence: str, lexicon: Lexicon) -> Iterator[frozenset[int]]:
    """Yield the possible sets of roles of `sentence` for each language whose phrases make up the whole of it. A number
    counts as `NUMBER`."""
    words = split_words(normalize(sentence))
    if not words:
        return
    for language in lexicon:
        if language.unspaced:
            text = "".join(words)
            found = _masks(list(text), "", language) if len(text) <= MOST_CHARACTERS else frozenset()
        else:
            known = _known(words, language) if len(words) <= MOST_WORDS else None
            found = _masks(known, " ", language) if known else frozenset()
        if found:
            yield found


def _known(words: list[str], language: Language) -> list[str] | None:
    """Return `words` in the language's spelling, or None if one is not its own."""
    known: list[str] = []
    for word in words:
        own = next((form for form in _forms(word) if form in language.words or form.isdecimal()), None)
        if own is None:
            return None
        known.append(own)
    return known


@lru_cache(maxsize=256)
def _forms(word: str) -> tuple[str, ...]:
    """Return `word`, and its forms with repeated letters cut. Cached, as every language looks for the same ones."""
    return word, *squeezed(word)


def _masks(pieces: list[str], joint: str, language: Language) -> frozenset[int]:
    """Return the union of roles of each way to cut `pieces` into phrases; empty without a way, or with a `NEVER`."""
    reached: list[set[int]] = [{0}, *(set[int]() for _ in pieces)]
    for start in range(len(pieces)):
        if not reached[start]:
            continue
        for end in range(start + 1, min(len(pieces), start + language.longest) + 1):
            phrase = joint.join(pieces[start:end])
            roles = language.phrases.get(phrase)
            if roles is None and phrase.isdecimal():
                roles = Role.NUMBER
            if roles is None:
                continue
            if roles & Role.NEVER:
                return frozenset()
            reached[end] |= {mask | role for mask in reached[start] for role in _each(roles)}
        for pattern in language.patterns.get(pieces[start], ()):
            for end in pattern.ends_from(pieces, start):
                if pattern.roles & Role.NEVER:
                    return frozenset()
                reached[end] |= {mask | pattern.roles for mask in reached[start]}
    return frozenset(reached[-1])


@lru_cache(maxsize=1024)
def _each(roles: int) -> tuple[int, ...]:
    """Return each of the roles by itself, and all of them together."""
    return (*(1 << bit for bit in range(roles.bit_length()) if roles >> bit & 1), roles)


_QUOTED = re.compile(
    r"“[^”]+”|„[^“”]+[“”]|«[^»]+»|»[^«]+«|「[^」]+」|『[^』]+』|\"[^\"]+\"|‘[^’]+’|(?<!\w)'[^\n]+?'(?!\w)|`[^`]+`",
    re.DOTALL,
)
_AFTER = re.compile(r"^(?P<instruction>[^\n:：]{2,160}?)\s*(?:[:：](?!//)|\n)\s*(?P<text>\S.*)$", re.DOTALL)
_ADDRESS = re.compile(r"(?:https?://|www\.)\S+")
_BESIDES = Role.SAID | Role.SOFT | Role.FRAME | Role.YOU | Role.GIVEN | Role.WORDING | Role.LANGUAGE | Role.NUMBER
_ORDERS = Role.TRANSLATE | Role.REWRITE | Role.CHANGE


def is_of_given_text(utterance: str, lexicon: Lexicon) -> bool:
    """Return whether `utterance` orders work on a given text. A text that is only an address is not given yet."""
    after = _AFTER.match(utterance.strip())
    if after and _order(after["instruction"], lexicon, text_given=True):
        return bool(_ADDRESS.sub("", after["text"]).strip(" <>()[].,"))
    quoted = _QUOTED.search(utterance)
    if quoted:
        text = quoted[0][1:-1]
        rest = f"{utterance[: quoted.start()]} {utterance[quoted.end() :]}"
        return not _ADDRESS.fullmatch(text.strip()) and _order(rest, lexicon, text_given=True, in_quotes=True)
    return _order(utterance, lexicon, text_given=False)


def _order(instruction: str, lexicon: Lexicon, text_given: bool, in_quotes: bool = False) -> bool:
    """Return whether `instruction` is an order about a text and nothing else."""
    return any(
        _is_order(mask, text_given, in_quotes)
        for masks in read_roles(instruction, lexicon)
        for mask in masks
        if not mask & ~(_BESIDES | _ORDERS)
    )


def _is_order(mask: int, text_given: bool, in_quotes: bool) -> bool:
    there = text_given or bool(mask & Role.GIVEN)
    if mask & (Role.TRANSLATE | Role.REWRITE) and there:
        return True
    if mask & Role.CHANGE and mask & Role.WORDING and there:
        return True
    return in_quotes and bool(mask & Role.LANGUAGE)


MOST_OF_A_SUM = 120
"""Longest calculation, in characters."""
_PIECE = re.compile(r"(?P<number>\d+(?:[.,]\d+)*)|(?P<operator>[-+*/^%=()√²³!·:])|(?P<words>[^\d+*/^%=()√²³!·:-]+|-)")
_DASHES = str.maketrans(
    {"−": "-", "–": "-", "—": "-", "×": "*", "÷": "/", "∗": "*", "⋅": "*", "’": ",", "？": "?", "％": "%"}
)
_TIMES_SIGN = re.compile(r"(?<=[\d)])\s*[x×]\s*(?=[\d(])")
_HYPHEN = re.compile(r"(?<=[^\W\d])-(?=[^\W\d])")
_NAMES = re.compile(
    r"9[/-]11|24/7|7[/-]11|50/50|20/20|80/20|60/40|4/20|[246]\s*[x*]\s*4|1[/-]800.*|\d-\d-\d"  # known by these names
    r"|(?:1\d|20)\d\d[-/](?:\d\d|(?:1\d|20)\d\d)"  # two years
    r"|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}"  # a date
    r"|\d+(?:-\d+){2,}"
)
"""Matches text that looks like a calculation and has another meaning."""


class _Piece(NamedTuple):
    """A number, an operator, or a run of words: its kind, its text, and its words."""

    kind: str
    text: str
    words: list[str]


def is_arithmetic(utterance: str, lexicon: Lexicon) -> bool:
    """Return whether `utterance` is a calculation in the words of one language of `lexicon`, or in figures alone:
    without a unit, a name or another word. Names and dates (`9/11`, `24/7`, `2019-2020`) are no calculations."""
    if len(utterance) > MOST_OF_A_SUM:
        return False
    text = _HYPHEN.sub(" ", _TIMES_SIGN.sub("*", normalize(utterance.translate(_DASHES))))
    pieces = [_Piece(str(found.lastgroup), found[0], split_words(found[0])) for found in _PIECE.finditer(text)]
    return any(_is_sum(pieces, language) for language in lexicon) and not _is_name(text)


def _is_name(text: str) -> bool:
    """Return whether all figures and signs of `text` together are a name or a date."""
    figures = re.findall(r"\d[\d\s.,x*/-]*\d|\d", text)
    return len(figures) == 1 and _NAMES.fullmatch(figures[0].strip()) is not None


def _is_sum(pieces: list[_Piece], language: Language) -> bool:
    """Require two numbers with an operator between, or one with a unary operator; all other words may only ask."""
    numbers = joins = applied = 0
    in_words = False
    for kind, piece, words in pieces:
        if kind == "number":
            numbers, in_words = numbers + 1, False
        elif kind == "operator":
            joins += piece in "-+*/^%:·"
            applied += piece in "√²³!"
            in_words = False
        else:
            for role in _roles(words, language):
                if role is None:
                    return False
                numbers += bool(role & Role.NUMBER) and not in_words
                in_words = bool(role & Role.NUMBER)
                joins += bool(role & Role.BINARY)
                applied += bool(role & Role.UNARY)
    return (numbers >= 2 and joins > 0) or (numbers >= 1 and applied > 0)


_ALLOWED = (Role.BINARY, Role.UNARY, Role.NUMBER, Role.ASK, Role.SOFT, Role.SAID)


def _roles(words: list[str], language: Language) -> list[int | None]:
    """Return the role of each phrase of `words` in a calculation, longest phrase first; None for one without a role."""
    if not (language.unspaced or all(word in language.words for word in words)):
        return [None]
    pieces, joint = (list("".join(words)), "") if language.unspaced else (words, " ")
    roles: list[int | None] = []
    start = 0
    while start < len(pieces):
        for end in range(min(len(pieces), start + language.longest), start, -1):
            role = _role(joint.join(pieces[start:end]), language)
            if role is not None:
                roles.append(role)
                start = end
                break
        else:
            return [*roles, None]
    return roles


def _role(phrase: str, language: Language) -> int | None:
    roles = language.phrases.get(phrase, 0)
    return next((role for role in _ALLOWED if role & roles), None)


TalkKind = Literal["small_talk", "assistant", "conversation", "arithmetic", "given_text"]

MOST_SENTENCES = 6
FEW_WORDS = 5
"""Words of a bare "why?" or "and then?", which has a meaning only in a session."""
_SMALL = Role.SAID | Role.SOFT
_ABOUT_YOU = _SMALL | Role.YOU | Role.ABOUT | Role.FRAME
_ABOUT_TALK = _ABOUT_YOU | Role.CONVERSATION | Role.GIVEN | Role.WORDING | Role.CHANGE | Role.LANGUAGE
_IN_SESSION = _ABOUT_TALK | Role.REFERENCE | Role.NUMBER


def read_talk(utterance: str, lexicon: Lexicon, in_session: bool) -> TalkKind | None:
    """Return the kind of talk that `utterance` is, or None. Within a session, a reference to it is talk too."""
    if is_wordless(utterance):
        return "small_talk"
    if is_arithmetic(utterance, lexicon):
        return "arithmetic"
    if is_of_given_text(utterance, lexicon):
        return "given_text"
    sentences = split_sentences(without_emoticons(utterance))
    if len(sentences) > MOST_SENTENCES:
        return None
    kinds: list[TalkKind] = []
    for sentence in sentences:
        kind = _sentence_kind(sentence, lexicon, in_session)
        if kind is None and not is_arithmetic(sentence, lexicon):
            return None
        kinds.append(kind or "arithmetic")
    return next((kind for kind in reversed(kinds) if kind != "small_talk"), "small_talk") if kinds else None


def _sentence_kind(sentence: str, lexicon: Lexicon, in_session: bool) -> TalkKind | None:
    masks = {int(mask) for found in read_roles(sentence, lexicon) for mask in found}
    if any(mask & Role.SAID and not mask & ~_SMALL for mask in masks):
        return "small_talk"
    if any(mask & Role.CONVERSATION and not mask & ~_ABOUT_TALK for mask in masks):
        return "conversation"
    if any(mask & Role.YOU and _is_about_you(mask) for mask in masks):
        return "assistant"
    if in_session and any(mask & (Role.REFERENCE | Role.GIVEN) and not mask & ~_IN_SESSION for mask in masks):
        return "conversation"
    if in_session and len(sentence.split()) <= FEW_WORDS and any(not mask & ~(_SMALL | Role.FRAME) for mask in masks):
        return "conversation"
    return None


def _is_about_you(mask: int) -> bool:
    allowed = _ABOUT_YOU | (Role.SPEAK | Role.LANGUAGE if mask & Role.SPEAK else 0)
    return not mask & ~allowed
