"""Clauses of a short text, and the normal form that all its wordings share."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sluice.memory.learning.polarity.lexicon import INSTEAD
from sluice.memory.learning.polarity.tokens import Kind

IN_FAVOUR = "<in favour>"
MAIN = ""
"""The relator of a main clause."""


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
    """A clause. `relator` ties it to the main clause, whose own relator is empty."""

    relator: str
    main: tuple[Atom, ...]
    phrases: tuple[Phrase, ...] = ()


@dataclass(frozen=True, slots=True)
class Reading:
    """A text as read. `modality`: its words of obligation, "<must>" and "<should>"."""

    clauses: tuple[Clause, ...]
    modality: frozenset[str]


_USE = Atom("use", Kind.WORD)


def normal(clauses: list[Clause]) -> tuple[Clause, ...]:
    """Return the clauses in the form that all wordings share."""
    found = [replaced for clause in clauses for replaced in _replacement(clause)]
    return tuple(_turned(_contrasted(found)))


def _replacement(clause: Clause) -> list[Clause]:
    """Rewrite "replace X with Y" as "use Y instead of X"; "X contains Y" and "set X to Y" as "X Y"."""
    phrases = dict(clause.phrases)
    by = "with" if "with" in phrases else "by"
    if len(clause.main) > 1 and clause.main[0] == Atom("replace", Kind.WORD) and phrases.get(by):
        kept = tuple(phrase for phrase in clause.phrases if phrase[0] != by)
        use = Clause(clause.relator, (_USE, *phrases[by]), kept)
        return [use, Clause(INSTEAD, clause.main[1:])]
    holding = next((at for at, atom in enumerate(clause.main) if atom.text == "contain" and not atom.negated), 0)
    if 0 < holding < len(clause.main) - 1:
        return [replace(clause, main=clause.main[:holding] + clause.main[holding + 1 :])]
    into = phrases.get("to")
    if len(clause.main) > 1 and clause.main[0] == Atom("set", Kind.WORD) and into:
        kept = tuple(phrase for phrase in clause.phrases if phrase[0] != "to")
        return [Clause(clause.relator, (*clause.main[1:], *into), kept)]
    return [clause]


def _contrasted(clauses: list[Clause]) -> list[Clause]:
    """Rewrite "do not use X; use Y" and "avoid X in favour of Y" as "use Y instead of X"."""
    found: list[Clause] = []
    for clause in clauses:
        last = found[-1] if found else None
        if clause.relator == INSTEAD and clause.main:
            head = _positive(clause.main[0])
            same_verb = last is not None and last.main and _positive(last.main[0]) == head
            main = clause.main[1:] if head == _USE or same_verb else clause.main
            found[-1:] = _instead(last, main, clause.phrases) if last else [replace(clause, main=main)]
        elif last and last.main and clause.main and clause.relator == IN_FAVOUR:
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
    """Return clause `meant` and the one that it rejects; the former also gets phrases whose preposition it lacks."""
    taken = {preposition for preposition, _ in meant.phrases}
    whole = tuple(phrase for phrase in phrases if phrase[0] not in taken)
    own = tuple(phrase for phrase in phrases if phrase[0] in taken and phrase not in meant.phrases)
    return [replace(meant, phrases=meant.phrases + whole), Clause(INSTEAD, other, own)]


def _turned(clauses: list[Clause]) -> list[Clause]:
    """Turn "A after B" into "B before A", "A, so B" into "B because A"; put a leading clause behind its main clause."""
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
