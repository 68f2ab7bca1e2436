"""Whether a sentence is made of a language's phrases alone, and what these do in it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from sluice.gate.talk.lexicon import Language, Lexicon, Role, without_one
from sluice.gate.talk.text import normalize, split_words, squeezed

MOST_WORDS = 24
MOST_CHARACTERS = 60
"""Of a sentence in a script without spaces."""


def read_roles(sentence: str, lexicon: Lexicon) -> Iterator[frozenset[int]]:
    """For each language of whose phrases `sentence` wholly consists: the sets of roles it may be read with.

    A number counts as `NUMBER`. One misspelt word is read as the word of small talk that is one letter away.
    """
    words = split_words(normalize(sentence))
    if not words:
        return
    for language in lexicon.languages:
        if language.unspaced:
            text = "".join(words)
            found = _masks(list(text), "", language) if len(text) <= MOST_CHARACTERS else frozenset()
        else:
            known = _known(words, language, lexicon) if len(words) <= MOST_WORDS else None
            found = _masks(known, " ", language) if known else frozenset()
        if found:
            yield found


def _known(words: list[str], language: Language, lexicon: Lexicon) -> list[str] | None:
    """`words` as the language spells them, or None where one is not its own."""
    known: list[str] = []
    corrected = 0
    for word in words:
        own = next((form for form in (word, *squeezed(word)) if form in language.words or form.isdecimal()), None)
        if own is None and not corrected:
            own = _corrected(word, language, lexicon)
            corrected = 1
        if own is None:
            return None
        known.append(own)
    return known


def _corrected(word: str, language: Language, lexicon: Lexicon) -> str | None:
    """The word of small talk that `word` misspells by one letter; the first of several by name.

    Two letters swapped: of five or more. One letter missing, doubled or wrong: of six or more.
    """
    if len(word) < 5 or word in lexicon.not_typos:
        return None
    swapped = (word[:at] + word[at + 1] + word[at] + word[at + 2 :] for at in range(len(word) - 1))
    found = {form for form in swapped if form in lexicon.swappable}
    for form in (word, *without_one(word)):
        found |= {right for right in lexicon.corrections.get(form, ()) if len(right) >= 6 and _one_apart(word, right)}
    return min((form for form in found if form in language.words), default=None)


def _one_apart(word: str, right: str) -> bool:
    if len(word) == len(right):
        return sum(one != other for one, other in zip(word, right, strict=True)) == 1 and word[0] == right[0]
    return abs(len(word) - len(right)) == 1


def _masks(pieces: list[str], joint: str, language: Language) -> frozenset[int]:
    """Every union of roles that a way to cut `pieces` into phrases has; none without a way, or with a `NEVER`."""
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
    """Each of the roles by itself, and all of them together."""
    return (*(1 << bit for bit in range(roles.bit_length()) if roles >> bit & 1), roles)
