"""Detects that two short learnings say the same in another construction.

"GraphQL errors come with status 200" and "status 200 is returned for GraphQL errors" share their content and no clause.
So the content is compared as a set, and anything that can reverse or limit it keeps the two apart: an identifier or
number that only one has, a word with an antonym, a negation, "only", "until", "except", the order in time or
preference, the roles in a clause. An uncertain case is no restatement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from sluice.memory.learning.polarity.clauses import read
from sluice.memory.learning.polarity.compare import Comparison
from sluice.memory.learning.polarity.content import Content, content_of, light_words
from sluice.memory.learning.polarity.lexicon import INSTEAD, NOT, Lexicon, lexicon
from sluice.memory.learning.polarity.normal import MAIN
from sluice.memory.learning.polarity.tokens import Kind, tokens_of
from sluice.text.words import stem

_KEPT = ("until", "otherwise", "except", "despite", "outside", "out", "only", "first", "last", "most", "least")
"""Cues that both texts must have, or neither."""
_CROSSED = (
    ("before", "after"), ("first", "last"), ("up", "down"), ("most", "least"), ("all", "some"), ("must", "may"),
    ("from", "to"),
)  # fmt: skip
"""Pairs of cues that keep texts apart if one text has more of the first and the other more of the second."""
_NEGATING = ("un", "in", "im", "il", "ir", "non", "dis", "de", "mis", "a")
_MOST_LOST = 2
"""Most words that only one of the two texts may have."""
_ARTICLES = frozenset({"a", "an", "the", "also", "too"})
_SIDES = {"before": (0, 1), "after": (1, 0), INSTEAD: (0, 1)}
"""By relator, the sides of the main clause and of its own clause: first and second, or chosen and rejected."""


def is_restated(one: str, other: str, comparison: Comparison) -> bool:
    """Return whether two short texts say the same although `comparison` does not show it. Symmetrical."""
    a, b = content_of(one), content_of(other)
    if "antonym" in comparison.differences or Counter(a.exact) != Counter(b.exact):
        return False
    if not a.heavy and not a.exact:
        return False
    if _only_permuted(one, other):
        return False
    return _cues_agree(a, b) and _words_agree(a, b) and not _is_turned(one, other) and not _roles_swapped(one, other)


def _only_permuted(one: str, other: str) -> bool:
    """Return whether only the order differs, articles aside: "convert A to B" and "convert B to A"."""
    mine, theirs = (
        Counter(
            lexicon().base(token.text)
            for token in tokens_of(text)
            if token.text not in _ARTICLES and token.kind is not Kind.SIGN
        )
        for text in (one, other)
    )
    return mine == theirs


def _cues_agree(a: Content, b: Content) -> bool:
    if any(bool(a.cues[cue]) != bool(b.cues[cue]) for cue in _KEPT):
        return False
    if any((a.cues[x] - b.cues[x]) * (a.cues[y] - b.cues[y]) < 0 for x, y in _CROSSED):
        return False
    if bool(a.cues["may"]) != bool(b.cues["may"]) and not (a.cues["negation"] and b.cues["negation"]):
        return False  # a permission is neither a fact nor a duty
    return not a.limited or not b.limited or bool(a.limited & b.limited)


def _words_agree(a: Content, b: Content) -> bool:
    """Return whether at most one of them has words of its own: few, and none that changes the meaning."""
    words = lexicon()
    alone_a, alone_b = _alone(a.heavy, b.heavy, words)
    light_a, light_b = a.light - b.light, b.light - a.light
    if (alone_a and alone_b) or len(alone_a or alone_b) > _MOST_LOST:
        return False
    if any(_is_polar(word, words) for word in (*alone_a, *alone_b)):
        return False
    for alone, instead in ((alone_a, light_b), (alone_b, light_a)):
        if any(words.is_verb(word) and (instead or word not in words.terms) for word in alone):
            return False
    return not any(_opposed(x, y, words) for x in (*alone_a, *light_a) for y in (*alone_b, *light_b))


def _alone(one: Sequence[str], other: Sequence[str], words: Lexicon) -> tuple[list[str], list[str]]:
    """Return the words of each without an equal, a synonym, a word of the same stem or a related one in the other."""
    left, right = list(one), list(other)
    tests: tuple[Callable[[str, str], bool], ...] = (
        str.__eq__,
        words.synonyms,
        lambda x, y: stem(x) == stem(y) and not _opposed(x, y, words),
        lambda x, y: words.related(x, y) and not words.opposed(x, y) and not words.terms.issuperset((x, y)),
    )
    for stands_for in tests:
        for word in tuple(left):
            there = next((at for at, its in enumerate(right) if stands_for(word, its)), None)
            if there is not None:
                left.remove(word)
                del right[there]
    return left, right


def _is_polar(word: str, words: Lexicon) -> bool:
    """Return whether a word has an antonym, which could change what a text says."""
    return words.is_polar(word) or words.is_polar(_positive(word))


def _opposed(one: str, other: str, words: Lexicon) -> bool:
    plain, its = _positive(one), _positive(other)
    if words.opposed(one, other) or words.opposed(plain, its):
        return True
    return any(plain == prefix + its or its == prefix + plain for prefix in _NEGATING)


def _positive(word: str) -> str:
    """Reduce "newer" and "newly" to "new": words are opposed in each of their forms."""
    for ending in ("iest", "est", "ier", "er", "ly"):
        if word.endswith(ending) and len(word) > len(ending) + 2:
            return word[: -len(ending)] + ("y" if ending[:2] == "ie" else "")
    return word


@dataclass(frozen=True, slots=True)
class _Turn:
    """Direction and negations of a text: its relator of `_SIDES` or "" (`directed`), the number of negations and the
    stems negated, the stems of the part that comes first or is chosen, and of the rest.
    """

    directed: str
    negations: int
    negated: frozenset[str]
    first: frozenset[str]
    second: frozenset[str]


@lru_cache(maxsize=4096)
def _turn(text: str, when: bool = False) -> _Turn:
    """Read the direction of a text. `when`: whether "A when B" is read as "A after B"."""
    clauses = read(text).clauses
    sides_of = _SIDES | {"when": (1, 0)} if when else _SIDES
    directed = next((clause.relator for clause in clauses if clause.relator in sides_of), None)
    negations = 0
    negated: set[str] = set()
    sides: tuple[set[str], set[str]] = (set(), set())
    for clause in clauses:
        atoms = [*clause.main, *(atom for _, words in clause.phrases for atom in words)]
        flagged = [atom.text for atom in atoms if atom.negated or atom.text == NOT]
        negations += len(flagged) + (clause.relator == "unless")
        negations += sum(preposition.startswith("not ") for preposition, _ in clause.phrases)
        negated.update(stem(text) for text in flagged if text != NOT)
        if directed and clause.relator in (MAIN, directed):
            side = sides_of[directed][clause.relator != MAIN]
            sides[side].update(stem(atom.text.lower()) for atom in atoms if atom.text not in light_words())
    both = sides[0] & sides[1]
    return _Turn(directed or "", negations, frozenset(negated), frozenset(sides[0] - both), frozenset(sides[1] - both))


def _is_turned(one: str, other: str) -> bool:
    """Return whether the negations, the order or the preference differ."""
    a, b = _turn(one), _turn(other)
    if bool(a.second) != bool(b.second):
        a, b = _turn(one, when=True), _turn(other, when=True)
    if a.negations % 2 != b.negations % 2 or bool(a.second) != bool(b.second):
        return True
    if (a.directed == INSTEAD) != (b.directed == INSTEAD):
        return True
    if a.directed != INSTEAD and bool(content_of(one).cues["negation"]) != bool(content_of(other).cues["negation"]):
        return True
    if a.negated and b.negated and a.negations == b.negations and not a.negated & b.negated:
        return not any(lexicon().synonyms(x, y) for x in a.negated for y in b.negated)
    return bool(a.first & b.second or a.second & b.first)


@dataclass(frozen=True, slots=True)
class _Place:
    """Place of a word: number and relator of its clause, its preposition, and whether it stands before the verb."""

    clause: int
    relator: str
    preposition: str
    is_before: bool

    def whole(self) -> tuple[str, ...]:
        """Return the word's role in its sentence."""
        return self.relator, self.preposition, str(self.is_before)

    def without_side(self) -> tuple[str, ...]:
        """Return the role without the side of the verb, which tells nothing in a text such as "is waiting"."""
        return self.relator, self.preposition


@lru_cache(maxsize=4096)
def _places(text: str) -> dict[str, _Place]:
    found: dict[str, _Place] = {}
    for number, clause in enumerate(read(text).clauses):
        verbs = [at for at, atom in enumerate(clause.main) if at and lexicon().is_verb(atom.text)]
        verb = verbs[0] if verbs else 0
        for preposition, atoms in (("", clause.main), *clause.phrases):
            for at, atom in enumerate(atoms):
                is_before = not preposition and at < verb
                found.setdefault(atom.text, _Place(number, clause.relator, preposition, is_before))
    return found


def _roles_swapped(one: str, other: str) -> bool:
    """Return whether two words swapped places: around the verb, beside a preposition, or in each other's clause.

    "A calls B" equals "B is called by A", and not "B calls A".
    """
    mine, theirs = _places(one), _places(other)
    shared = sorted(mine.keys() & theirs.keys())
    several = all(len({place.clause for place in places.values()}) > 1 for places in (mine, theirs))
    for at, x in enumerate(shared):
        for y in shared[at + 1 :]:
            if several and (mine[x].clause == mine[y].clause) != (theirs[x].clause == theirs[y].clause):
                return True
            for role in (_Place.whole, _Place.without_side):
                if role(mine[x]) == role(theirs[y]) != role(mine[y]) == role(theirs[x]):
                    return True
    return False
