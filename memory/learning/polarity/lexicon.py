"""Relations of single words: base forms, synonyms, antonyms. From WordNet 3.0 and the words of software.

The words of rules and findings about software are in `vocabulary.toml`, with marks that stand for phrases of them.
`bench.memory.wordnet` makes the file `wordnet.json.xz`, which is read at first use; its licence lies beside it.
"""

from __future__ import annotations

import json
import lzma
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from sluice.text.pattern_file import PatternFile

VOCABULARY = PatternFile(Path(__file__).with_name("vocabulary.toml"))

BE = frozenset({"am", "is", "are", "was", "were", "be", "been", "being", "gets", "got"})
AUXILIARIES = BE | {"do", "does", "did", "has", "have", "had", "will", "would", "shall", "should", "must", "can"}
AUXILIARIES |= {"could", "may", "might", "to", "please", "just", "but", "that", "so", "you", "we", "it", "they", "i"}
PARTICIPLES_LIKE_THE_VERB = frozenset(
    {"run", "set", "put", "read", "cut", "hit", "let", "reset", "rerun", "shut", "split"}
)

NOT, INSTEAD, PURPOSE = "<not>", "<instead>", "<purpose>"
MUST, SHOULD, CAN, NEED_NOT = "<must>", "<should>", "<can>", "<need not>"

CLAUSES = frozenset({"before", "after", "when", "unless", "until", "while", "because", "so", "otherwise", "but"})
CLAUSES |= {INSTEAD, PURPOSE, "although", "though", "whereas", "except", "where"}
REASONS = frozenset({"because", PURPOSE, "otherwise", "which"})

MARKS_APART = (
    ("<at least>", "<at most>"),
    ("<more than>", "<less than>"),
    ("<can>", "<need not>"),
    ("before", "<instead>"),
)
"""Readings of phrases that say the contrary of each other."""

_SHORTEST_STEM = 2
Groups = dict[str, tuple[int, ...]]
_NOT_IRREGULAR = frozenset({"left", "ground", "bound", "better", "worse", "best", "worst", "data", "more", "most"})
"""Forms that are words of their own at least as often as they are forms of another word."""


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Relations of words. Groups are numbered: two words are synonyms if they share a number.

    `polar`: words that have an antonym; `ours`: of software; `first`: WordNet's, by the first senses of both words;
    `groups`: by any of their senses.
    """

    ours: Groups
    terms: frozenset[str]
    first: Groups
    groups: Groups
    similar: frozenset[tuple[str, str]]
    antonyms: frozenset[tuple[str, str]]
    complements: frozenset[tuple[str, str]]
    verbs: frozenset[str]
    forms: dict[str, str]
    polar: frozenset[str] = frozenset()

    def base(self, word: str) -> str:
        """Return the form that a dictionary lists: "enabled", "enables" and "enabling" become "enable"."""
        irregular = self.forms.get(word)
        if irregular is not None:
            return irregular
        for ending, replacements in _ENDINGS:
            if word.endswith(ending):
                stem = word[: -len(ending)]
                for replacement in replacements:
                    if len(stem) >= _SHORTEST_STEM and stem + replacement in self.verbs:
                        return stem + replacement
                if len(stem) > _SHORTEST_STEM and stem[-1] == stem[-2] and stem[:-1] in self.verbs and ending != "s":
                    return stem[:-1]
        return _singular(word)

    def is_verb(self, word: str) -> bool:
        """Return whether a base form can be a verb."""
        return word in self.verbs

    def synonyms(self, one: str, other: str) -> bool:
        """Return whether two base forms can replace each other."""
        if one == other:
            return True
        if self.opposed(one, other):
            return False
        if _share(self.ours, one, other):
            return True
        if one in self.terms or other in self.terms:
            return False
        return _share(self.first, one, other)

    def related(self, one: str, other: str) -> bool:
        """Return whether WordNet lists two words as synonyms in any of their senses."""
        return one != other and _share(self.groups, one, other)

    def alike(self, one: str, other: str) -> bool:
        """Return whether WordNet lists two adjectives as similar, as "unofficial" and "casual"."""
        return (one, other) in self.similar

    def knows(self, word: str) -> bool:
        """Return whether the lexicon has the word."""
        return word in self.groups or word in self.verbs

    def opposed(self, one: str, other: str) -> bool:
        """Return whether two words are contrary to each other."""
        return (one, other) in self.antonyms or (one, other) in self.complements

    def is_polar(self, word: str) -> bool:
        """Return whether the word has an antonym."""
        return word in self.polar

    def complementary(self, one: str, other: str) -> bool:
        """Return whether one word is as good as "not" the other."""
        return (one, other) in self.complements


@lru_cache(maxsize=1)
def lexicon() -> Lexicon:
    """Load the lexicon once, in about 0.1 s."""
    packed = files("sluice.memory.learning.polarity").joinpath("wordnet.json.xz").read_bytes()
    read, ours_too = json.loads(lzma.decompress(packed)), VOCABULARY.tables
    verbs = frozenset(read["verbs"].split())
    forms: dict[str, str] = {form: base for form, base in read["forms"].items() if _is_irregular(form, verbs)}
    bare = Lexicon({}, frozenset(), {}, {}, frozenset(), frozenset(), frozenset(), verbs, forms)
    ours = _numbered([[bare.base(word) for word in line.split()] for line in ours_too["synonyms"].splitlines()])
    antonyms = _pairs(
        [line.split() for line in read["antonyms"]]
        + _slashed(bare, ours_too["antonyms"])
        + [list(pair) for pair in MARKS_APART]
    )
    complements = _pairs(
        _slashed(bare, ours_too["complements"])
        + [line.split() for line in read["antonyms"] if _is_negated_form(*line.split())]
    )
    return Lexicon(
        ours=ours,
        terms=frozenset(ours) | VOCABULARY.words("terms"),
        first=_numbered([line.split() for line in read["synonyms"]]),
        groups=_numbered([line.split() for line in read["related"]]),
        similar=_pairs([[a, b] for line in read["similar"] for a, b in _across(line)]),
        antonyms=antonyms,
        complements=complements,
        verbs=verbs,
        forms=forms,
        polar=frozenset(one for one, _ in antonyms | complements),
    )


_ENDINGS = (("ies", ("y",)), ("es", ("e", "")), ("s", ("",)), ("ied", ("y",)), ("ed", ("e", "")), ("ing", ("e", "")))


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("sses", "xes", "ches", "shes", "zes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3:
        return word[:-1]
    return word


def _is_irregular(form: str, verbs: frozenset[str]) -> bool:
    """Return whether WordNet's exception is a real one: it also lists "installed" as a form of "instal"."""
    regular = form.removesuffix("ing").removesuffix("ed")
    return form not in _NOT_IRREGULAR and not (regular != form and regular in verbs)


def _is_negated_form(one: str, other: str) -> bool:
    """Return whether one of two antonyms is the other behind a negating syllable, as "valid" and "invalid"."""
    shorter, longer = sorted((one, other), key=len)
    return longer.endswith(shorter) and longer[: -len(shorter)] in ("un", "in", "im", "il", "ir", "non", "dis")


def _across(line: str) -> list[tuple[str, str]]:
    one, _, other = line.partition("|")
    return [(a, b) for a in one.split() for b in other.split()]


def _slashed(bare: Lexicon, text: str) -> list[list[str]]:
    pairs = [pair.split("/") for pair in text.split()]
    return pairs + [[bare.base(word) for word in pair] for pair in pairs]


def _numbered(groups: list[list[str]]) -> Groups:
    found: Groups = {}
    for number, group in enumerate(groups):
        for word in group:
            found[word] = (*found.get(word, ()), number)
    return found


def _share(groups: Groups, one: str, other: str) -> bool:
    theirs = groups.get(other, ())
    return any(number in theirs for number in groups.get(one, ()))


def _pairs(pairs: list[list[str]]) -> frozenset[tuple[str, str]]:
    return frozenset(pair for one, other in pairs if one != other for pair in ((one, other), (other, one)))
