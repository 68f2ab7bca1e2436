"""A text as clauses in one normal form, so that what is said in other words comes out alike.

"Don't mock the clock", "never mock the clock" and "the clock must not be mocked" are the same clause: a negated verb
and what it is about. A clause has its words in the order of an active sentence, and the phrases that hang on it by
their preposition, in no order; beside the main clause stand those that a conjunction ties to it ("before", "when",
"instead of"). It is no grammar: a sentence that it misreads is only compared less well, and both sides alike.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from memory.learning.polarity import vocabulary
from memory.learning.polarity.lexicon import Lexicon, lexicon
from memory.learning.polarity.tokens import Kind, Token, tokens_of
from memory.learning.polarity.vocabulary import BE, CAN, CLAUSES, INSTEAD, MUST, NEED_NOT, NOT, SHOULD

MAIN = ""
_IN_FAVOUR, _MAY, _ADVERB = "<in favour>", "<may>", "<adverb>"
_IDLE = frozenset(vocabulary.IDLE_TEXT.split())
_PREPOSITIONS = frozenset(vocabulary.PREPOSITIONS_TEXT.split())
_RELATORS = CLAUSES | {_IN_FAVOUR, "which", "who", "whose"}
_NO_ADVERBS_TEXT = """
only early apply reply supply family assembly rely fly ally multiply comply anomaly
daily weekly monthly hourly nightly yearly reapply
"""
_NO_ADVERBS = frozenset(_NO_ADVERBS_TEXT.split())
_END_OF_SENTENCE = frozenset(".!?;:")


@dataclass(frozen=True, slots=True)
class Atom:
    """A word in its base form, an identifier or a number; `negated`: with a "not" before it."""

    text: str
    kind: Kind
    negated: bool = False


Phrase = tuple[str, tuple[Atom, ...]]
"""A preposition and its words. Modal verbs and adverbs are phrases too, as they may stand anywhere."""


@dataclass(frozen=True, slots=True)
class Clause:
    """`relator`: what ties it to the main clause, which has the empty one."""

    relator: str
    main: tuple[Atom, ...]
    phrases: tuple[Phrase, ...] = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """A text read. `modality`: the words that say how much it binds, of "<must>" and "<should>"."""

    clauses: tuple[Clause, ...]
    modality: frozenset[str]


@lru_cache(maxsize=2048)
def read(text: str) -> Reading:
    """Reads a text; never fails. The readings of the last texts are kept, as each learning is compared many times."""
    reader = _Reader(_rewritten(tokens_of(text)), lexicon())
    return Reading(_normal(reader.clauses()), frozenset(reader.modality))


class _Reader:
    """Goes through the tokens once, filling the clause at hand."""

    def __init__(self, tokens: Sequence[Token], words: Lexicon) -> None:
        self.tokens = tokens
        self.words = words
        self.modality: set[str] = set()
        self.done: list[Clause] = []
        self._begin(MAIN)

    def clauses(self) -> list[Clause]:
        """All clauses, in the order of the text."""
        at = 0
        while at < len(self.tokens):
            at = self._take(at)
        self._finish(MAIN)
        return self.done

    def _begin(self, relator: str) -> None:
        self.relator = relator
        self.main: list[Atom] = []
        self.phrases: list[tuple[str, list[Atom]]] = []
        self.into = self.main
        self.fronted_phrase = False
        self.passive = False
        self.negated = False
        self.of: int | None = None
        self.joined: tuple[list[Atom], int] | None = None
        self.predicate: int | None = None
        self.exists = False

    def _finish(self, following: str) -> None:
        if self.joined is not None:
            words, at = self.joined
            words[at - 1 :] = sorted(words[at - 1 :], key=_by_text) if at == len(words) - 1 else words[at - 1 :]
        if self.predicate is not None and self.predicate == len(self.main) - 1 and self.main[-1].kind is Kind.WORD:
            self.main.insert(0, self.main.pop())
        place = next((phrase for phrase in self.phrases if phrase[0] in ("in", "on", "for")), None)
        if self.exists and place is not None:
            self.phrases.remove(place)
            self.main[:0] = place[1]
        if self.negated:
            self.into.append(Atom(NOT, Kind.SIGN))
        if self.main or self.phrases or self.relator in _TURNING:
            self.done.append(_clause(self.relator, self.main, self.phrases, passive=self.passive))
        self._begin(following)

    def _take(self, at: int) -> int:
        """Takes in the token at `at`, and what belongs to it; returns where to go on."""
        token = self.tokens[at]
        text = token.text
        if token.kind is Kind.SIGN:
            self._sign(text, at)
        elif token.kind is not Kind.WORD:
            self._add(Atom(text, token.kind))
        elif text == "not" and self._contrasts(at):
            self._finish(INSTEAD)
        elif text in (NOT, "not"):
            self.negated = not self.negated
        elif text in _RELATORS:
            self._finish(text)
        elif text in (MUST, SHOULD):
            self.modality.add(text)
        elif text in (CAN, _MAY, NEED_NOT):
            self.phrases.append((text, []))
        elif text in BE and (verb_at := self._participle_after(at)) is not None:
            self._make_passive(at, verb_at)
            return verb_at + 1
        elif text == "then":
            self._then(at)
        elif text == "of":
            self.of = len(self.into) - 1 if self.into else None
            return at + 1
        elif text in _PREPOSITIONS:
            self._preposition(text)
        elif text == "and":
            self._join(at)
        elif text == "instead" or text in _IDLE:
            self._idle(at)
        else:
            self._word(at)
        return at + 1

    def _idle(self, at: int) -> None:
        text = self.tokens[at].text
        if text in BE:
            self.of = None
            self._predicate(at)
        elif self.fronted_phrase and self.into and text in _SUBJECTS and self.phrases[-1][0] != "to":
            self._sign(",", at)
        elif text == "there" and at + 1 < len(self.tokens) and self.tokens[at + 1].text in BE:
            self.exists = True

    def _then(self, at: int) -> None:
        """ "First A, then B" is "A before B"; behind "if X" it only ends the condition."""
        if self.relator != MAIN or not self.main:
            self._sign(",", at)
            return
        first = Atom("first", Kind.WORD)
        if first in self.main:
            self.main.remove(first)
        self._finish("before")

    def _predicate(self, at: int) -> None:
        """ "The cache is not empty" is read as "not empty cache"."""
        self.predicate = len(self.main) if self.into is self.main and self.main else None

    def _join(self, at: int) -> None:
        """ "A and B" is "B and A" where both are single words; two things to do one after the other stay in order."""
        after = self.tokens[at + 1] if at + 1 < len(self.tokens) else None
        verbs = len(self.main) == 1 and self.into is self.main
        if self.into and after is not None and after.text != "then" and not verbs:
            self.joined = (self.into, len(self.into))

    def _sign(self, sign: str, at: int) -> None:
        after = self.tokens[at + 1].text if at + 1 < len(self.tokens) else ""
        if sign in _END_OF_SENTENCE or (sign == "," and self._says_again(at)):
            self._finish(MAIN)
        elif sign == "," and after in _REFERRING and self.relator == MAIN and self.main and not self.fronted_phrase:
            self._finish("because")
        elif sign == "," and self.fronted_phrase:
            self.into = self.main
            self.fronted_phrase = False
        elif sign == "," and self.relator not in (MAIN, INSTEAD) and self.main and self._is_fronted():
            self._finish(MAIN)
        elif sign not in ",()":
            self._add(Atom(sign, Kind.SIGN))
        self.of = None

    def _says_again(self, at: int) -> bool:
        """Whether the verb of the clause at hand follows once more, as in "do not use X, use Y"."""
        verb = self.main[0] if self.main and self.relator == MAIN else None
        after = next((token for token in self.tokens[at + 1 :] if token.text not in (NOT, "not", "but")), None)
        if after is None or verb is None or after.kind is not Kind.WORD:
            return False
        if not self.fronted_phrase and after.text in _ADVISING:
            return True
        return self.words.base(after.text) == verb.text or (verb == _NOT_USE and after.text in _PREFERRING)

    def _is_fronted(self) -> bool:
        """Whether the clause at hand stands before the main clause of its sentence."""
        return not self.done or self.done[-1].relator != MAIN

    def _contrasts(self, at: int) -> bool:
        """Whether the "not" at `at` sets what follows against what went before, as in "an object, not an id"."""
        before = self.tokens[at - 1] if at else None
        if before is None or not self.main or self.relator != MAIN:
            return False
        if before.kind is Kind.WORD and (before.text in vocabulary.AUXILIARIES or before.text in _RELATORS):
            return False
        after = self.tokens[at + 1] if at + 1 < len(self.tokens) else None
        return after is not None and after.text not in ("all", "only", "every")

    def _participle_after(self, at: int) -> int | None:
        for there in range(at + 1, min(at + 5, len(self.tokens))):
            token = self.tokens[there]
            if token.kind is not Kind.WORD:
                return None
            if token.text in (NOT, "not") or token.text in _IDLE or _is_adverb(token.text):
                continue
            base = self.words.base(token.text)
            if not self.words.is_verb(base):
                return None
            regular = token.text.endswith("ed") and token.text != base
            irregular = self.words.forms.get(token.text) == base and not token.text.endswith("ing")
            return there if regular or irregular or token.text in vocabulary.PARTICIPLES_LIKE_THE_VERB else None
        return None

    def _make_passive(self, at: int, verb_at: int) -> None:
        for token in self.tokens[at + 1 : verb_at]:
            if token.text in (NOT, "not"):
                self.negated = not self.negated
            elif _is_adverb(token.text):
                self.phrases.append((_ADVERB, [Atom(token.text, Kind.WORD)]))
        self.of = None
        self.into = self.main
        self.fronted_phrase = False
        subject = list(self.main)
        self.main.clear()
        self._word(verb_at)
        self.main.extend(subject)
        self.passive = True

    def _preposition(self, text: str) -> None:
        self.of = None
        if text in ("over", "to") and self.main and self.main[0].text in _PREFERRING and self.relator == MAIN:
            self._finish(INSTEAD)
            return
        negated, self.negated = self.negated, False
        self.fronted_phrase = not self.main
        self.into = []
        text = "in" if text in ("on", "at") else text
        self.phrases.append((f"not {text}" if negated else text, self.into))

    def _word(self, at: int) -> None:
        text = self.tokens[at].text
        if _is_adverb(text) and self.into is self.main:
            self.phrases.append((_ADVERB, [Atom(text, Kind.WORD, self.negated)]))
            self.negated = False
            return
        base = self.words.base(text)
        if base == "avoid" and not (self.phrases and self.into is self.phrases[-1][1] and self.phrases[-1][0] == "to"):
            self.negated = not self.negated
            after = self.tokens[at + 1].text if at + 1 < len(self.tokens) else ""
            gerund = after.endswith("ing") and self.words.base(after) != after
            if not gerund:
                self._add(Atom("use", Kind.WORD))
            return
        only = Atom("only", Kind.WORD)
        if len(self.main) > 1 and self.into is self.main and self.main[-1] == only and self.words.is_verb(base):
            self.main.pop()
            self._add(Atom(base, Kind.WORD))
            self._add(only)
            return
        self._add(Atom(base, Kind.WORD))

    def _add(self, atom: Atom) -> None:
        if self.negated:
            atom = replace(atom, negated=True)
            self.negated = False
        if self.of is not None and 0 <= self.of < len(self.into):
            self.into.insert(self.of, atom)
            self.of += 1
        else:
            self.into.append(atom)


_SUBJECTS = frozenset({"the", "a", "an", "we", "you", "they", "it", "i", "this", "these", "those", "our", "your"})
_ADVISING = frozenset({"use", "prefer", "avoid", "call", "run", "set"})
"""Verbs that begin a sentence of their own behind a comma: "X is deprecated, use Y"."""
_TURNING = frozenset({INSTEAD, "unless", "until", "except", "before", "after"})
"""What turns a sentence round even where nothing follows."""
_REFERRING = frozenset({"it", "this", "that", "they"})
"""What begins a remark behind a comma: "avoid X, it creates a cycle"."""
_PREFERRING = frozenset({"prefer", "favor", "favour", "choose", "pick", "select"})


def _by_text(atom: Atom) -> str:
    return atom.text


def _is_adverb(text: str) -> bool:
    return text.endswith("ly") and text not in _NO_ADVERBS and len(text) > 4


def _clause(relator: str, main: list[Atom], phrases: list[tuple[str, list[Atom]]], *, passive: bool) -> Clause:
    kept = [(preposition, tuple(words)) for preposition, words in phrases]
    if passive:
        agent = next((phrase for phrase in kept if phrase[0] == "by"), None)
        if agent is not None:
            kept.remove(agent)
            main = [*agent[1], *main]
    return Clause(relator, tuple(main), tuple(kept))


def _normal(clauses: list[Clause]) -> tuple[Clause, ...]:
    """The same clauses in the form that all ways of saying them share."""
    found = [replaced for clause in clauses for replaced in _replacement(clause)]
    found = _turned(_contrasted(found))
    return tuple(found)


def _replacement(clause: Clause) -> list[Clause]:
    """ "Replace X with Y" is "use Y instead of X"."""
    phrases = dict(clause.phrases)
    by = "with" if "with" in phrases else "by"
    if len(clause.main) > 1 and clause.main[0] == Atom("replace", Kind.WORD) and phrases.get(by):
        kept = tuple(phrase for phrase in clause.phrases if phrase[0] != by)
        use = Clause(clause.relator, (_USE, *phrases[by]), kept)
        return [use, Clause(INSTEAD, clause.main[1:])]
    into = phrases.get("to")
    if len(clause.main) > 1 and clause.main[0] == Atom("set", Kind.WORD) and into:
        kept = tuple(phrase for phrase in clause.phrases if phrase[0] != "to")
        return [Clause(clause.relator, (*clause.main[1:], *into), kept)]
    return [clause]


_USE = Atom("use", Kind.WORD)
_NOT_USE = Atom("use", Kind.WORD, negated=True)


def _contrasted(clauses: list[Clause]) -> list[Clause]:
    """ "Do not use X; use Y" and "avoid X in favour of Y" are "use Y instead of X"."""
    found: list[Clause] = []
    for clause in clauses:
        last = found[-1] if found else None
        if clause.relator == INSTEAD and clause.main:
            head = _positive(clause.main[0])
            same_verb = last is not None and last.main and _positive(last.main[0]) == head
            main = clause.main[1:] if head == _USE or same_verb else clause.main
            found[-1:] = _instead(last, main, clause.phrases) if last else [replace(clause, main=main)]
        elif last and last.main and clause.main and clause.relator == _IN_FAVOUR:
            verb = _positive(last.main[0])
            meant = Clause(last.relator, (verb, *clause.main), clause.phrases)
            found[-1:] = _instead(meant, last.main[1:], last.phrases)
        elif (
            last
            and last.main
            and clause.main
            and clause.relator in (MAIN, "but")
            and last.relator == MAIN
            and last.main[0].text == clause.main[0].text
            and last.main[0].negated != clause.main[0].negated
        ):
            meant, other = (clause, last) if last.main[0].negated else (last, clause)
            found[-1:] = _instead(replace(meant, relator=MAIN), other.main[1:], other.phrases)
        else:
            found.append(clause)
    return found


def _instead(meant: Clause, other: tuple[Atom, ...], phrases: tuple[Phrase, ...]) -> list[Clause]:
    """What is said, and what it is said against. A phrase that only one of them has belongs to the whole."""
    taken = {preposition for preposition, _ in meant.phrases}
    whole = tuple(phrase for phrase in phrases if phrase[0] not in taken)
    own = tuple(phrase for phrase in phrases if phrase[0] in taken and phrase not in meant.phrases)
    return [replace(meant, phrases=meant.phrases + whole), Clause(INSTEAD, other, own)]


def _turned(clauses: list[Clause]) -> list[Clause]:
    """ "A after B" is "B before A", "A, so B" is "B because A"; a clause before its main clause goes behind it."""
    if len(clauses) > 1 and clauses[0].relator not in (MAIN, INSTEAD) and clauses[1].relator == MAIN:
        clauses = [clauses[1], clauses[0], *clauses[2:]]
    at = next((at for at, clause in enumerate(clauses) if clause.relator == "so"), 0)
    if at and clauses[at - 1].relator == MAIN:
        clauses = list(clauses)
        clauses[at - 1 : at + 1] = [replace(clauses[at], relator=MAIN), replace(clauses[at - 1], relator="because")]
    mains = [clause for clause in clauses if clause.relator == MAIN]
    afters = [clause for clause in clauses if clause.relator == "after"]
    if len(mains) == len(afters) == 1:
        main, after = mains[0], afters[0]
        turned = {id(main): replace(after, relator=MAIN), id(after): replace(main, relator="before")}
        clauses = [turned.get(id(clause), clause) for clause in clauses]
    return clauses


def _positive(atom: Atom) -> Atom:
    return replace(atom, negated=False)


def _rewritten(tokens: Sequence[Token]) -> list[Token]:
    """Phrases of several words as what they are read as (`vocabulary.PHRASES_TEXT`), the longest first."""
    found: list[Token] = []
    at = 0
    while at < len(tokens):
        words, length = _phrase_at(tokens, at)
        if length:
            found.extend(Token(word, Kind.WORD) for word in words)
            at += length
        else:
            found.append(tokens[at])
            at += 1
    return found


def _phrase_at(tokens: Sequence[Token], at: int) -> tuple[tuple[str, ...], int]:
    if tokens[at].kind is not Kind.WORD:
        return (), 0
    text = tokens[at].text
    if text.startswith("un") and text.endswith("ed") and lexicon().is_verb(lexicon().base(text[2:])):
        return (NOT, text[2:]), 1
    if text == "once":
        after = tokens[at + 1] if at + 1 < len(tokens) else None
        counts = after is None or after.kind is Kind.SIGN or after.text in _PREPOSITIONS or after.text in ("a", "and")
        return (("<1>",) if counts else ("when",)), 1
    for wanted, words in _PHRASES.get(tokens[at].text, ()):
        if tuple(token.text for token in tokens[at : at + len(wanted)]) == wanted:
            return words, len(wanted)
    return (), 0


def _phrases() -> dict[str, list[tuple[tuple[str, ...], tuple[str, ...]]]]:
    found: dict[str, list[tuple[tuple[str, ...], tuple[str, ...]]]] = {}
    for line in vocabulary.PHRASES_TEXT.strip().splitlines():
        wanted, _, words = line.partition(": ")
        found.setdefault(wanted.split()[0], []).append((tuple(wanted.split()), _markers(words)))
    for choices in found.values():
        choices.sort(key=lambda choice: -len(choice[0]))
    return found


def _markers(text: str) -> tuple[str, ...]:
    """Splits at blanks, but not within "<need not>"."""
    return tuple(re.findall(r"<[^>]+>|\S+", text))


_PHRASES = _phrases()
