"""Text made comparable: one case, no accents, no punctuation, so that a list of words meets how people type."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_MARKS = re.compile("[\u0300-\u036f\u0610-\u061a\u064b-\u065f\u0670\u0640\u200b-\u200f\ufe0f]")
"""Accents of Latin, Greek and Cyrillic, vowel marks and stretching of Arabic, and characters of no width."""
_ALIKE = str.maketrans(
    {
        "ø": "o",
        "æ": "ae",
        "œ": "oe",
        "ł": "l",
        "đ": "d",
        "ð": "d",
        "þ": "th",
        "ı": "i",
        "ى": "ي",
        "ة": "ه",
        "ی": "ي",
        "ک": "ك",
    }
)
_SENTENCE_ENDS = re.compile(r"[!?。！？؟।…;\n\r]+|(?<!\d)\.+|\.+(?!\d)")
_EMOTICON = re.compile(r"(?<!\w)(?:[:;=8xX][-'^o]?[)(\]\[DPpOo3|/\\*]+|<3+|\^_*\^|[xX]D+)(?!\w)")


def normalize(text: str) -> str:
    """`text` in lower case without accents: `Çok Güzel!` becomes `cok guzel!`. Compatible forms become one (NFKC)."""
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    return unicodedata.normalize("NFC", _MARKS.sub("", folded)).translate(_ALIKE)


def split_words(normalized: str) -> list[str]:
    """The words: runs of letters, their marks, and digits. Apostrophes and everything else separate."""
    return "".join(character if _is_of_word(character) else " " for character in normalized).split()


def split_sentences(text: str) -> list[str]:
    """The sentences of `text` that hold more than punctuation; a point between digits ends none."""
    return [part for part in _SENTENCE_ENDS.split(text) if any(map(_is_of_word, part))]


def is_wordless(text: str) -> bool:
    """Whether `text` is made of emoji, emoticons and plain punctuation alone."""
    rest = _EMOTICON.sub("", text)
    return bool(text.strip()) and all(
        character.isspace() or character in "?!.,…-~()'\"" or unicodedata.category(character) in _OF_EMOJI
        for character in rest
    )


def without_emoticons(text: str) -> str:
    """`text` without `:-)` and its kin, whose letters are no words."""
    return _EMOTICON.sub(" ", text)


def squeezed(word: str) -> tuple[str, str]:
    """`word` with letters that stand three times or more cut to two, and to one: `hiiii` is `hii` and `hi`."""
    return _RUN.sub(r"\1\1", word), _RUN.sub(r"\1", word)


_RUN = re.compile(r"(\w)\1{2,}")
_OF_EMOJI = frozenset(("So", "Sk", "Mn", "Cf", "Cn", "Me"))


@lru_cache(maxsize=8192)
def _is_of_word(character: str) -> bool:
    return unicodedata.category(character)[0] in "LMN"
