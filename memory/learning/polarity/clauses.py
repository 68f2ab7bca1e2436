"""Reads a text as clauses in one normal form, so that other words for the same statement come out alike.

"Don't mock the clock", "never mock the clock" and "the clock must not be mocked" are the same clause: a negated verb
and its object. A clause has its words in the order of an active sentence, and its phrases by their preposition, in no
order; beside the main clause stand those that a conjunction ties to it ("before", "when", "instead of"). It is no
grammar: a misread sentence is only compared less well, and both sides alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from sluice.memory.learning.polarity.lexicon import (
    AUXILIARIES,
    BE,
    CAN,
    CLAUSES,
    INSTEAD,
    MUST,
    NEED_NOT,
    NOT,
    PARTICIPLES_LIKE_THE_VERB,
    SHOULD,
    VOCABULARY,
    Lexicon,
    lexicon,
)
from sluice.memory.learning.polarity.normal import IN_FAVOUR, MAIN, Atom, Clause, Reading, normal
from sluice.memory.learning.polarity.tokens import Kind, Token, rewritten, tokens_of

_MAY, _ADVERB = "<may>", "<adverb>"
_RELATORS = CLAUSES | {IN_FAVOUR, "which", "who", "whose"}
_END_OF_SENTENCE = frozenset(".!?;:")


@lru_cache(maxsize=2048)
def read(text: str) -> Reading:
    """Read a text; never fails. The last readings are cached, as each learning is compared many times."""
    reader = _Reader(rewritten(tokens_of(text)), lexicon())
    return Reading(normal(reader.clauses()), frozenset(reader.modality))


class _Reader:
    """Passes over the tokens once, filling the current clause."""

    def __init__(self, tokens: Sequence[Token], words: Lexicon) -> None:
        self.tokens = tokens
        self.words = words
        self.modality: set[str] = set()
        self.done: list[Clause] = []
        self._begin(MAIN)

    def clauses(self) -> list[Clause]:
        """Return all clauses, in the order of the text."""
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
            if at == len(words) - 1 and not (self.phrases and self._are_deeds(words[at - 1 :])):
                words[at - 1 :] = sorted(words[at - 1 :], key=lambda atom: atom.text)
        if self.predicate is not None and self.predicate == len(self.main) - 1 and self.main[-1].kind is Kind.WORD:
            self.main.insert(0, self.main.pop())
        place = next((phrase for phrase in self.phrases if phrase[0] == "in"), None)
        is_there = self.exists or (self.predicate is not None and self.predicate == len(self.main))
        if is_there and place is not None and place[1]:
            self.phrases.remove(place)
            self.main[:0] = place[1]
        if self.negated:
            self.into.append(Atom(NOT, Kind.SIGN))
        if self.main or self.phrases or self.relator in _TURNING:
            self.done.append(_clause(self.relator, self.main, self.phrases, passive=self.passive))
        self._begin(following)

    def _are_deeds(self, atoms: Sequence[Atom]) -> bool:
        """Return whether all are verbs: "passes locally and fails in CI" has a phrase for each, and no other order."""
        return self.into is not self.main or all(self.words.is_verb(atom.text) for atom in atoms)

    def _take(self, at: int) -> int:
        """Take in the token at `at` and those that belong to it; return the next position."""
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
            restricts = text == "which" and at > 0 and self.tokens[at - 1].text != ","
            self._finish("who" if restricts else text)
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
        elif text in VOCABULARY.words("prepositions"):
            self._preposition(text)
        elif text == "and":
            self._join(at)
        elif text == "instead" or text in VOCABULARY.words("idle"):
            self._idle(at)
        else:
            self._word(at)
        return at + 1

    def _idle(self, at: int) -> None:
        text = self.tokens[at].text
        if text in BE:
            self.of = None
            if self.main and not self.fronted_phrase:
                self.into = self.main
            # "The cache is not empty" is read as "not empty cache".
            self.predicate = len(self.main) if self.into is self.main and self.main else None
        elif text in _SUBJECTS and self._ends_condition():
            self._finish(MAIN)
        elif self.fronted_phrase and self.into and text in _SUBJECTS and self.phrases[-1][0] != "to":
            self._sign(",", at)
        elif text == "there" and at + 1 < len(self.tokens) and self.tokens[at + 1].text in BE:
            self.exists = True

    def _then(self, at: int) -> None:
        """Read "First A, then B" as "A before B"; behind "if X", "then" only ends the condition."""
        if self.relator != MAIN or not self.main:
            self._sign(",", at)
            return
        first = Atom("first", Kind.WORD)
        if first in self.main:
            self.main.remove(first)
        self._finish("before")

    def _ends_condition(self) -> bool:
        """Return whether a condition at the head ends without a comma: "after a timeout the client stops"."""
        is_condition = self.relator not in (MAIN, INSTEAD) and self._is_fronted()
        return is_condition and bool(self.main) and not self.words.is_verb(self.main[-1].text)

    def _join(self, at: int) -> None:
        """Make "A and B" equal to "B and A" for single words; two things to do one after the other stay in order."""
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
        """Return whether the verb of the current clause follows once more, as in "do not use X, use Y"."""
        verb = self.main[0] if self.main and self.relator == MAIN else None
        after = next((token for token in self.tokens[at + 1 :] if token.text not in (NOT, "not", "but")), None)
        if after is None or verb is None or after.kind is not Kind.WORD:
            return False
        if not self.fronted_phrase and after.text in _ADVISING:
            return True
        return self.words.base(after.text) == verb.text or (verb == _NOT_USE and after.text in _PREFERRING)

    def _is_fronted(self) -> bool:
        """Return whether the current clause stands before the main clause of its sentence."""
        return not self.done or self.done[-1].relator != MAIN

    def _contrasts(self, at: int) -> bool:
        """Return whether the "not" at `at` contrasts what follows with what precedes, as in "an object, not an id"."""
        before = self.tokens[at - 1] if at else None
        if before is None or not self.main or self.relator != MAIN:
            return False
        if before.kind is Kind.WORD and (before.text in AUXILIARIES or before.text in _RELATORS):
            return False
        after = self.tokens[at + 1] if at + 1 < len(self.tokens) else None
        return after is not None and after.text not in ("all", "only", "every")

    def _participle_after(self, at: int) -> int | None:
        for there in range(at + 1, min(at + 5, len(self.tokens))):
            token = self.tokens[there]
            if token.kind is not Kind.WORD:
                return None
            if token.text in (NOT, "not") or token.text in VOCABULARY.words("idle") or _is_adverb(token.text):
                continue
            base = self.words.base(token.text)
            if not self.words.is_verb(base):
                return None
            regular = token.text.endswith("ed") and token.text != base
            irregular = self.words.forms.get(token.text) == base and not token.text.endswith("ing")
            return there if regular or irregular or token.text in PARTICIPLES_LIKE_THE_VERB else None
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
"""Words that turn a sentence round even where nothing follows."""
_REFERRING = frozenset({"it", "this", "that", "they"})
"""Words that begin a remark behind a comma: "avoid X, it creates a cycle"."""
_NOT_USE = Atom("use", Kind.WORD, negated=True)
_PREFERRING = frozenset({"prefer", "favor", "favour", "choose", "pick", "select"})


def _is_adverb(text: str) -> bool:
    return text.endswith("ly") and text not in VOCABULARY.words("no_adverbs") and len(text) > 4


def _clause(relator: str, main: list[Atom], phrases: list[tuple[str, list[Atom]]], *, passive: bool) -> Clause:
    kept = [(preposition, tuple(words)) for preposition, words in phrases]
    if passive:
        agents = ("by", "for") if main and main[0].text in ("need", "require") else ("by",)
        agent = next((phrase for phrase in kept if phrase[0] in agents), None)
        if agent is not None:
            kept.remove(agent)
            main = [*agent[1], *main]
    return Clause(relator, tuple(main), tuple(kept))
