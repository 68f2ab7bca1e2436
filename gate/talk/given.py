"""Whether an utterance asks to translate, rewrite or summarise a text that it gives, or that was given before.

The text stands in quotation marks, after a colon or a line break, or is pointed at ("make it shorter"). What is left is
the instruction, and must be made of a language's words for such instructions alone: "summarise the plot of 'Hamlet'"
is not, because its text is a book that is somewhere else.
"""

from __future__ import annotations

import re

from sluice.gate.talk.lexicon import Language, Lexicon, Role
from sluice.gate.talk.phrases import read_roles
from sluice.gate.talk.text import normalize, split_words

_QUOTED = re.compile(
    r"“[^”]+”|„[^“”]+[“”]|«[^»]+»|»[^«]+«|「[^」]+」|『[^』]+』|\"[^\"]+\"|‘[^’]+’|(?<!\w)'[^\n]+?'(?!\w)|`[^`]+`",
    re.DOTALL,
)
_AFTER = re.compile(r"^(?P<instruction>[^\n:：]{2,160}?)\s*(?:[:：](?!//)|\n)\s*(?P<text>\S.*)$", re.DOTALL)
_ADDRESS = re.compile(r"(?:https?://|www\.)\S+")
_BESIDES = Role.SAID | Role.SOFT | Role.FRAME | Role.YOU | Role.GIVEN | Role.WORDING | Role.LANGUAGE | Role.NUMBER
_ORDERS = Role.TRANSLATE | Role.REWRITE | Role.CHANGE
MOST_BARE_WORDS = 12
"""Words of a text that is to be translated and stands without any mark."""


def is_of_given_text(utterance: str, lexicon: Lexicon) -> bool:
    """Whether `utterance` asks for work on a given text. A text that is only an address has still to be fetched."""
    after = _AFTER.match(utterance.strip())
    if after and _order(after["instruction"], lexicon, text_given=True):
        return bool(_ADDRESS.sub("", after["text"]).strip(" <>()[].,"))
    quoted = _QUOTED.search(utterance)
    if quoted:
        text = quoted[0][1:-1]
        rest = f"{utterance[: quoted.start()]} {utterance[quoted.end() :]}"
        return not _ADDRESS.fullmatch(text.strip()) and _order(rest, lexicon, text_given=True, in_quotes=True)
    return _order(utterance, lexicon, text_given=False) or _is_bare_translation(utterance, lexicon)


def _order(instruction: str, lexicon: Lexicon, text_given: bool, in_quotes: bool = False) -> bool:
    """Whether `instruction` is an order about a text and nothing else."""
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


def _is_bare_translation(utterance: str, lexicon: Lexicon) -> bool:
    """`translate good night into Italian`: an order at one end, a language named, and a few words that are neither.

    None of them may name a product ("translate API of google pricing").
    """
    words = split_words(normalize(utterance))
    if not words or len(words) > MOST_BARE_WORDS + 4 or any(word in lexicon.blockers for word in words):
        return False
    return any(
        not language.unspaced and not language.naming.isdisjoint(words) and _orders_translation(words, language)
        for language in lexicon.languages
    )


def _orders_translation(words: list[str], language: Language) -> bool:
    spans = [
        (start, end, language.phrases[phrase])
        for start in range(len(words))
        for end in range(start + 1, min(len(words), start + language.longest) + 1)
        if (phrase := " ".join(words[start:end])) in language.phrases
    ]
    orders = [(start, end) for start, end, roles in spans if roles & Role.TRANSLATE]
    named = {(start, end) for start, end, roles in spans if roles & Role.LANGUAGE}
    if len(orders) != 1 or len(named) != 1:
        return False
    [order], [name] = orders, named
    first, last = _without_softeners(words, language)
    if (order[0] != first and order[1] != last) or (name[1] < last - 1 and name[0] > first + 1):
        return False
    text = (word for at, word in enumerate(words) if not (order[0] <= at < order[1] or name[0] <= at < name[1]))
    return any(not language.phrases.get(word, 0) & (Role.SOFT | Role.FRAME) for word in text)


def _without_softeners(words: list[str], language: Language) -> tuple[int, int]:
    """Where the words begin and end if what only softens (please) or frames (can you) them is left out."""

    def softens(word: str) -> bool:
        roles = language.phrases.get(word, 0)
        return bool(roles & (Role.SOFT | Role.FRAME | Role.YOU | Role.SAID)) and not roles & Role.TRANSLATE

    start, end = 0, len(words)
    while start < end and softens(words[start]):
        start += 1
    while end > start and softens(words[end - 1]):
        end -= 1
    return start, end
