"""Questions about what is related, worded in many ways: of Python, Go, TypeScript, Markdown and reStructuredText.

    named     the question has the name of a function, class, test or page: who calls it, what tests it, its base
    told      it has what that says of itself, and no answer has a rare word of it
    two steps the callee of what a test exercises, the page that a linked page links to
    direct    no hop: a function by what it says of itself, by its name, by the words of its name

All are made by rule from `bench.graph.relations`, always the same ones, each worded by `bench.graph.wordings`.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from bench.graph.questions import LEAST_WORDS, QUESTIONS_AN_ANSWER, Files
from bench.graph.relations import braces, pages, python
from bench.graph.relations.relation import Relation, RelationKind, Thing
from bench.graph.trees import Tree
from bench.graph.truth import Definition
from bench.graph.wordings import WORDINGS, worded

MOST_ANSWERS = 5
QUESTIONS_A_KIND = 25
"""Of one tree at most."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


class Asked(NamedTuple):
    """A question, and the places that answer it."""

    kind: str
    told: str
    answers: tuple[Definition, ...]
    start: Definition
    """What the question is about."""

    @property
    def text(self) -> str:
        """As it is asked."""
        return worded(self.kind, self.told)


def make_asked(tree: Tree, a_kind: int = QUESTIONS_A_KIND) -> list[Asked]:
    """The questions of a tree, at most so many of each kind."""
    files = Files.of(tree)
    texts = dict(files.texts)
    by_kind: defaultdict[str, list[Asked]] = defaultdict(list)
    for asked in _all(texts):
        needs_a_hop = "told" in asked.kind or "sentence" in asked.kind or asked.kind.count("→") > 1
        if asked.kind.startswith("direct"):
            needs_a_hop = False
        elif any(place.path == asked.start.path for place in asked.answers):
            continue
        if not needs_a_hop or (len(asked.told.split()) >= LEAST_WORDS and files.needs_a_hop(asked.told, asked.answers)):
            by_kind[asked.kind].append(asked)
    return [asked for kind in WORDINGS for asked in islice(_drawn(by_kind[kind]), a_kind)]


def _drawn(asked: Iterable[Asked]) -> Iterator[Asked]:
    count: Counter[tuple[Definition, ...]] = Counter()
    seen: set[str] = set()
    for one in sorted(asked, key=lambda one: hashlib.sha256(one.text.encode()).hexdigest()):
        count[one.answers] += 1
        if count[one.answers] <= QUESTIONS_AN_ANSWER and one.told not in seen:
            seen.add(one.told)
            yield one


def _all(texts: dict[str, str]) -> Iterator[Asked]:
    code = python.PythonTree({path: text for path, text in texts.items() if path.endswith(".py")})
    things = [*code.things(), *braces.things_of({p: t for p, t in texts.items() if p.endswith((".go", ".ts", ".tsx"))})]
    relations = [*code.relations(), *braces.relations_of(texts), *pages.page_relations(texts, things)]
    unique = Counter(thing.name for thing in things)
    out: defaultdict[tuple[RelationKind, Thing], set[Thing]] = defaultdict(set)
    into: defaultdict[tuple[RelationKind, Thing], set[Thing]] = defaultdict(set)
    for relation in relations:
        out[relation.kind, relation.source].add(relation.target)
        into[relation.kind, relation.target].add(relation.source)
    for (kind, thing), others in (*out.items(), *into.items()):
        is_out = others is out.get((kind, thing))
        if len(others) > MOST_ANSWERS:
            continue
        answers = _places(others)
        name, told = _KINDS[kind, is_out]
        if name and unique[thing.name] == 1 and len(thing.name) > 3 and thing.kind != "page" and " " not in thing.name:
            yield Asked(name, thing.name, answers, thing.place)
        if name and thing.kind == "page" and len(thing.name) > 5:
            yield Asked(name, thing.name, answers, thing.place)
        if told and thing.told and thing.kind != "page":
            yield Asked(told, thing.told, answers, thing.place)
    yield from _links(relations, out)
    yield from _tested(out)
    yield from _direct(things, unique)


_KINDS: dict[tuple[RelationKind, bool], tuple[str, str]] = {
    ("tests", True): ("named test → code", "told test → code"),
    ("tests", False): ("named → tests", "told → tests"),
    ("calls", True): ("named → callees", "told → callees"),
    ("calls", False): ("named → callers", "told → callers"),
    ("inherits", True): ("named → base", "told → base"),
    ("inherits", False): ("named → subclasses", ""),
    ("names", True): ("", ""),
    ("names", False): ("named → pages", "told → page"),
    ("links", True): ("page → pages linked", ""),
    ("links", False): ("page → pages linking", ""),
}
"""By relation and whether it goes out: the kind that names that, and the one that tells of it."""


def _links(relations: Iterable[Relation], out: dict[tuple[RelationKind, Thing], set[Thing]]) -> Iterator[Asked]:
    for relation in relations:
        if relation.kind == "links" and relation.told:
            yield Asked("sentence → page", relation.told, (relation.target.place,), relation.source.place)
            further = out.get(("links", relation.target), set()) - {relation.source}
            if 0 < len(further) <= MOST_ANSWERS:
                yield Asked("page → page → page", relation.told, _places(further), relation.source.place)


def _tested(out: dict[tuple[RelationKind, Thing], set[Thing]]) -> Iterator[Asked]:
    for (kind, test), tested in list(out.items()):
        if kind == "tests" and test.told and len(tested) <= 2:
            direct = {thing.place for thing in tested}
            called = {one for thing in tested for one in out.get(("calls", thing), ())}
            further = {one for one in called if one.place not in direct}
            if 0 < len(further) <= MOST_ANSWERS:
                yield Asked("test → code → callee", test.told, _places(further), test.place)


def _direct(things: Iterable[Thing], unique: Counter[str]) -> Iterator[Asked]:
    for thing in things:
        if thing.kind not in ("function", "class") or "test" in thing.place.path.lower():
            continue
        if len(thing.told.split()) >= LEAST_WORDS:
            yield Asked("direct, told", thing.told, (thing.place,), thing.place)
        if unique[thing.name] == 1 and len(thing.name) > 4:
            yield Asked("direct, named", thing.name, (thing.place,), thing.place)
            if len(words := _WORD.findall(thing.name)) >= 3:
                yield Asked("direct, words", " ".join(words).lower(), (thing.place,), thing.place)


def _places(things: Iterable[Thing]) -> tuple[Definition, ...]:
    return tuple(sorted({thing.place for thing in things}))
