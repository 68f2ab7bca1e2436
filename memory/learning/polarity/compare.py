"""Compares two texts: how near they are, and what speaks against their saying the same."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import permutations

from sluice.memory.learning.polarity.clauses import read
from sluice.memory.learning.polarity.lexicon import REASONS, lexicon
from sluice.memory.learning.polarity.normal import MAIN, Atom, Clause, Phrase, Reading
from sluice.memory.learning.polarity.tokens import Kind

_VETOES = frozenset({"identifier", "number", "antonym", "modality", "order"})
_MODAL_PHRASES = frozenset({"<can>", "<may>", "<need not>"})
_MARK = Kind.SIGN


@dataclass(frozen=True, slots=True)
class Comparison:
    """Common content and differences of two texts.

    `same`: whether both say all that either says, so that one can stand for the other.
    `similarity`: the share of words in common, in [0, 1].
    `differences`: kinds of difference: identifier, number, negation, antonym, modality, order, words.
    `opposite`: whether they say the contrary of the same subject.
    """

    same: bool
    similarity: float
    differences: tuple[str, ...]
    opposite: bool

    @property
    def is_vetoed(self) -> bool:
        """Whether a difference rules out that both say the same, however they are worded."""
        return not _VETOES.isdisjoint(self.differences)


def compare(one: str, other: str) -> Comparison:
    """Compare two texts; symmetrical. A "because" or "so that" that only one of them has is no difference."""
    return compare_readings(read(one), read(other))


def compare_readings(one: Reading, other: Reading) -> Comparison:
    """Compare two texts that were read already, as `compare` does."""
    first, second = _without_lone_reasons(one.clauses, other.clauses)
    left, right = list(_words(first)), list(_words(second))
    rest_left, rest_right = _unmatched(left, right)
    shared = len(left) + len(right) - len(rest_left) - len(rest_right)
    similarity = shared / (len(left) + len(right)) if left or right else 1.0
    modal = bool(one.modality) and bool(other.modality) and one.modality.isdisjoint(other.modality)
    differences, flips, others = _differences(rest_left, rest_right)
    if modal:
        differences.append("modality")
    if not differences and not _same_structure(first, second):
        differences.append("order")
    total = max(len(left), len(right), 1)
    swapped = differences == ["order"] and _shape(first) == _shape(second)
    opposite = bool(flips % 2 or swapped) and others <= total * _MOST_OTHERS
    return Comparison(not differences, similarity, tuple(differences), opposite)


_MOST_OTHERS = 0.34
"""Largest share of words of contradicting texts that may differ otherwise than by the contradiction."""


def _shape(clauses: Iterable[Clause]) -> list[tuple[str, list[str]]]:
    """Return a text's conjunctions and prepositions. Texts that share them and differ in order have swapped words."""
    return sorted((clause.relator, sorted(preposition for preposition, _ in clause.phrases)) for clause in clauses)


def _without_lone_reasons(one: Sequence[Clause], other: Sequence[Clause]) -> tuple[Sequence[Clause], Sequence[Clause]]:
    has = [any(clause.relator in REASONS for clause in clauses) for clauses in (one, other)]
    if has[0] == has[1]:
        return one, other
    cut = [[clause for clause in clauses if clause.relator not in REASONS] for clauses in (one, other)]
    return (cut[0], cut[1]) if all(cut) else (one, other)


def _words(clauses: Iterable[Clause]) -> Iterable[Atom]:
    for clause in clauses:
        if clause.relator != MAIN:
            yield Atom(clause.relator, _MARK)
        yield from clause.main
        for preposition, words in clause.phrases:
            if preposition in _MODAL_PHRASES or preposition.startswith("not "):
                yield Atom(preposition, _MARK)
            yield from words


def _unmatched(left: list[Atom], right: list[Atom]) -> tuple[list[Atom], list[Atom]]:
    """Return the rest of both after equal words, then synonyms, are removed in pairs."""
    left, right = list(left), list(right)
    for equal in (operator.eq, _equal):
        rest = []
        for atom in left:
            there = next((at for at, candidate in enumerate(right) if equal(atom, candidate)), None)
            if there is None:
                rest.append(atom)
            else:
                del right[there]
        left = rest
    return left, right


def _equal(one: Atom, other: Atom) -> bool:
    """Return whether one can stand for the other: identifiers and numbers letter by letter, words by meaning."""
    if {one.kind, other.kind} == {Kind.WORD, Kind.IDENTIFIER}:
        return one.negated == other.negated and _plain(one) == _plain(other)
    if one.kind is not Kind.WORD or other.kind is not Kind.WORD:
        return one == other
    if one.negated == other.negated:
        return lexicon().synonyms(one.text, other.text)
    return lexicon().complementary(one.text, other.text)


def _plain(atom: Atom) -> str:
    """Return an identifier as a word, since it may be written with backticks or without."""
    return lexicon().base(atom.text.lower()) if atom.kind is Kind.IDENTIFIER else atom.text


def _differences(left: list[Atom], right: list[Atom]) -> tuple[list[str], int, int]:
    """Return the kinds of difference, how many of them reverse the meaning, and how many words differ otherwise."""
    found: list[str] = []
    flips = 0
    left, right = list(left), list(right)
    for atom in tuple(left):
        for candidate in right:
            kind = _turned(atom, candidate)
            if kind:
                found.append(kind)
                flips += 1
                left.remove(atom)
                right.remove(candidate)
                break
    marks = {atom.text for atom in (*left, *right) if atom.kind is _MARK}
    if marks & _MODAL_PHRASES:
        found.append("modality")
        flips += 1
    for exact in (Kind.IDENTIFIER, Kind.NUMBER):
        if any(atom.kind is exact for atom in (*left, *right)):
            found.append(exact.value)
    if any(atom.negated for atom in (*left, *right)):
        found.append("negation")
    if left or right:
        found.append("words")
    return found, flips, max(len(left), len(right))


def _turned(one: Atom, other: Atom) -> str | None:
    if one.kind not in (Kind.WORD, _MARK) or other.kind not in (Kind.WORD, _MARK):
        same = one.text == other.text and one.kind is other.kind and one.negated != other.negated
        return "negation" if same else None
    if one.negated != other.negated:
        return "negation" if lexicon().synonyms(one.text, other.text) else None
    return "antonym" if lexicon().opposed(one.text, other.text) else None


def _same_structure(one: Sequence[Clause], other: Sequence[Clause]) -> bool:
    """Return whether the clauses have the same words in the same order; phrases and tied clauses in any order."""
    if len(one) != len(other):
        return False
    if all(_same_clause(a, b) for a, b in zip(one, other, strict=True)):
        return True
    tied = [clause for clause in one if clause.relator != MAIN]
    other_tied = [clause for clause in other if clause.relator != MAIN]
    mains = [clause for clause in one if clause.relator == MAIN]
    other_mains = [clause for clause in other if clause.relator == MAIN]
    if len(mains) != 1 or len(other_mains) != 1 or len(tied) != len(other_tied) or len(tied) > _MOST_TIED:
        return False
    return _same_clause(mains[0], other_mains[0]) and any(
        all(_same_clause(a, b) for a, b in zip(tied, order, strict=True)) for order in permutations(other_tied)
    )


_MOST_TIED = 4


def _same_clause(one: Clause, other: Clause) -> bool:
    if _same_as_it_stands(one, other):
        return True
    return any(_same_as_it_stands(_by_its_place(a), b) for a, b in ((one, other), (other, one)))


def _by_its_place(clause: Clause) -> Clause:
    """Read "X is defined in the file" as "the file defines X"."""
    place = next((phrase for phrase in clause.phrases if phrase[0] == "in"), None)
    if place is None or not clause.main or not lexicon().is_verb(clause.main[0].text):
        return clause
    kept = tuple(phrase for phrase in clause.phrases if phrase is not place)
    return Clause(clause.relator, (*place[1], *clause.main), kept)


def _same_as_it_stands(one: Clause, other: Clause) -> bool:
    return (
        one.relator == other.relator
        and (_same_words(one.main, other.main) or _same_but_for_the_verb(one.main, other.main))
        and _same_phrases(one.phrases, other.phrases)
    )


def _same_but_for_the_verb(one: Sequence[Atom], other: Sequence[Atom]) -> bool:
    """Return whether the words are in the same order except for a verb that one of them has first."""
    if len(one) != len(other) or not one:
        return False
    for first, second in ((one, other), (other, one)):
        verb = first[0]
        if verb.kind is not Kind.WORD or not lexicon().is_verb(verb.text):
            continue
        for at, atom in enumerate(second):
            if _equal(verb, atom) and _same_words(first[1:], [*second[:at], *second[at + 1 :]]):
                return True
    return False


def _same_words(one: Sequence[Atom], other: Sequence[Atom]) -> bool:
    return len(one) == len(other) and all(_equal(a, b) for a, b in zip(one, other, strict=True))


def _same_phrases(one: Sequence[Phrase], other: Sequence[Phrase]) -> bool:
    """Return whether the phrases are equal, in any order; those with the same preposition must be in the same order."""
    mine, theirs = (sorted(phrases, key=lambda phrase: phrase[0]) for phrases in (one, other))
    return len(mine) == len(theirs) and all(
        a[0] == b[0] and _same_words(a[1], b[1]) for a, b in zip(mine, theirs, strict=True)
    )
