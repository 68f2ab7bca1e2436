"""Finds documents that are linked to a failing test that touches a module."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from math import log
from typing import NamedTuple

from sluice.contracts.errors import NotFound
from sluice.contracts.graph.api import Linked, LinkedDocument
from sluice.contracts.graph.model import GraphPath, NodeLabel, Origin
from sluice.graph.generations.definitions import How
from sluice.graph.generations.fold import REVERSE
from sluice.graph.generations.view import GraphView
from sluice.graph.walk.nodes import Kind, document_name, document_of, kind_of, nearly_called, node_view, nodes_named
from sluice.graph.walk.paths import defined_step, told_step, without_loops

_LANGUAGES = ("python", "javascript", "go", "rust", "java", "c")


def vertices_of(view: GraphView, module: str) -> list[int]:
    """Return the vertices of a module and of all its definitions.

    `module` is whatever `nodes_named` finds: a dotted name (`shop.cart`, also its end), a class or a function, a path,
    the id of a node; or a package. Of several with the name all count. Raises `NotFound` where the graph has nothing of
    that name.
    """
    nodes = nodes_named(view, module)
    found = [vertex for node in nodes for vertex in _under(view, node)]
    if not found:
        name = module.rpartition(":")[2]
        found = [vertex for language in _LANGUAGES for vertex in _inner(view, f"{language}:{name}")]
    vertices = dict.fromkeys(found)
    for vertex in found:
        if vertex < view.documents:
            vertices.update(dict.fromkeys(view.definitions_in(vertex)))
    if not vertices:
        raise NotFound(f"the graph knows no module, package or file {module!r}{nearly_called(view, module)}")
    return list(vertices)


def _under(view: GraphView, place: int) -> list[int]:
    node = view.node(place)
    if place < view.documents:
        return [place]
    if node.label is NodeLabel.URL:
        return [view.edge(number).target for number in view.edges_from(place)]
    return view.definitions_of(place) + _inner(view, node.key)


def _inner(view: GraphView, key: str) -> list[int]:
    """Return the definitions whose names begin with that of a package or a class."""
    return [vertex for node in view.beginning(NodeLabel.SYMBOL, f"{key}.") for vertex in view.definitions_of(node)]


def linked(
    view: GraphView, module: str, *, failing_only: bool = False, top_k: int = 10, kind: Kind | None = None
) -> Linked:
    """Return the tests that touch a module (by name, path or id of a node), and the documents linked to these tests.

    A test touches a module that it refers to or that it defines nothing of but inherits from. With `failing_only` it is
    one that an indexed test report names. A document is linked to a test that refers to what the document defines or
    refers to. Pages, code and other tests are ranked apart, so that each kind's best has the score 1; `kind` asks for
    one of them. Files of tests that touch the module are left out, and so are the reports that name them. Raises
    `NotFound` for an unknown name.
    """
    subjects = vertices_of(view, module)
    tests = _touching(view, subjects)
    reports = {vertex: _reports(view, vertex) for vertex in tests}
    failing = [vertex for vertex in tests if reports[vertex]]
    chosen = (failing if failing_only else list(dict.fromkeys(failing + tests)))[:_MOST_TESTS]
    files = {document_of(view, vertex) for vertex in tests}.union(*reports.values())
    documents = [
        LinkedDocument(
            document=node_view(view, one.document), kind=one.kind.value, score=one.score, path=_path(view, one)
        )
        for one in _ranked(view, chosen, frozenset(subjects), files)
        if kind in (None, one.kind)
    ][:top_k]
    return Linked(
        module=module,
        tests=tuple(node_view(view, _node_of(view, vertex)) for vertex in chosen),
        documents=tuple(documents),
        generation=view.name,
    )


_MOST_TESTS = 200


def _touching(view: GraphView, targets: Iterable[int]) -> list[int]:
    """Return vertices in test files that refer to one of the targets, by the number of their references."""
    counts: dict[int, int] = {}
    doubtful: dict[int, int] = {}
    for vertex in targets:
        for step in view.steps(vertex):
            if step.is_reverse and kind_of(view, step.target) is Kind.TEST:
                kind = doubtful if step.how in (How.NAME, How.OVERRIDE) else counts
                kind[step.target] = kind.get(step.target, 0) + 1
    counts = counts or doubtful
    return sorted(counts, key=lambda vertex: (-counts[vertex], vertex))


def _reports(view: GraphView, vertex: int) -> set[int | None]:
    """Return the test reports that name the definition at the vertex."""
    steps = (step for step in view.steps(vertex) if step.is_reverse and view.edge(step.edge).origin is Origin.TEST)
    return {document_of(view, step.target) for step in steps}


OTHERS = 0.2
"""Weight of all that a test refers to outside the module; what it refers to in the module has 1."""
USERS = 0.2
"""Weight of other code that uses what a test refers to; the code that defines it has 1."""


class _Link(NamedTuple):
    """A document, and how one test leads to it: the step to a definition, and the one by which the document refers to
    that; -1 where it is the document's own."""

    document: int
    kind: Kind
    score: float
    test: int
    touched_by: int
    refers_by: int


def _ranked(view: GraphView, tests: list[int], subjects: frozenset[int], files: set[int | None]) -> Iterator[_Link]:
    """Return the documents linked to the tests, the best first; the scores of each kind are at most 1.

    What the tests refer to has a weight. The document that defines it gets that; the documents of each kind that refer
    to it share it, by how often they do and how little else they refer to.
    """
    touched = _touched(view, tests, subjects)
    links: dict[int, list[_Link]] = {}
    for definition, (weight, test, number) in touched.items():
        home = document_of(view, definition)
        users = _users(view, definition)
        found = [(home, weight, -1)] if home is not None else []
        for kind, strengths in users.items():
            share = weight / sum(strength for strength, _ in strengths.values()) * (1.0 if kind is Kind.PAGE else USERS)
            found += [(document, share * strength, by) for document, (strength, by) in strengths.items()]
        for document, score, by in found:
            if document not in files and (kind := kind_of(view, document)) is not None:
                links.setdefault(document, []).append(_Link(document, kind, score, test, number, by))
    summed = [
        max(own, key=lambda one: one.score)._replace(score=sum(one.score for one in own)) for own in links.values()
    ]
    most = {kind: max((one.score for one in summed if one.kind is kind), default=1.0) for kind in Kind}
    scaled = (one._replace(score=one.score / most[one.kind]) for one in summed)
    return iter(sorted(scaled, key=lambda one: (-one.score, _ORDER[one.kind], one.document)))


_ORDER = {Kind.PAGE: 0, Kind.CODE: 1, Kind.TEST: 2}


def _touched(view: GraphView, tests: list[int], subjects: frozenset[int]) -> dict[int, tuple[float, int, int]]:
    """Return what the tests refer to, each with its weight, the test that gives it most, and that test's step."""
    touched: dict[int, tuple[float, int, int]] = {}
    most: defaultdict[int, float] = defaultdict(float)
    for test in tests:
        span = range(int(view.step_offsets[test]), int(view.step_offsets[test + 1]))
        steps = [(number, int(view.step_targets[number])) for number in span if not view.step_hows[number] & REVERSE]
        steps = [(number, target) for number, target in steps if view.step(number).how is not How.OUTSIDE]
        for is_own in (True, False):
            chosen = [(number, target) for number, target in steps if (target in subjects) is is_own]
            total = sum(float(view.step_shares[number]) for number, _ in chosen)
            for number, target in chosen:
                weight = float(view.step_shares[number]) / total * (1.0 if is_own else OTHERS) / len(tests)
                known = touched.get(target, (0.0, test, number))
                if weight > most[target]:
                    known, most[target] = (known[0], test, number), weight
                touched[target] = (known[0] + weight, *known[1:])
    return touched


def _users(view: GraphView, definition: int) -> dict[Kind, dict[int, tuple[float, int]]]:
    """Return, by kind, the documents that refer to a definition: how strongly, and by which step to there."""
    users: dict[Kind, dict[int, tuple[float, int]]] = {}
    for number in range(int(view.step_offsets[definition]), int(view.step_offsets[definition + 1])):
        step = view.step(number)
        document = document_of(view, step.target)
        if not step.is_reverse or document is None or (kind := kind_of(view, document)) is None:
            continue
        strength = float(view.step_shares[number]) * (1 + log(max(1, len(view.edge(step.edge).lines))))
        own = users.setdefault(kind, {})
        before, by = own.get(document, (0.0, number))
        own[document] = before + strength, by
    return users


def _path(view: GraphView, link: _Link) -> GraphPath:
    """Return the way from the test to the definition, and on to the document that refers to it."""
    node = _node_of(view, link.test)
    label, name, steps = view.node(node).label, view.shown_name(node), []
    if label is NodeLabel.DOCUMENT:
        name = document_name(view, node)
    else:
        steps = [defined_step(view, link.test, label)]
    steps += told_step(view, link.test, link.touched_by)
    if link.refers_by >= 0:
        steps += told_step(view, view.source_of(link.refers_by), link.refers_by)
    return without_loops(GraphPath(start=name, start_label=label, steps=tuple(steps)))


def _node_of(view: GraphView, vertex: int) -> int:
    return view.definition(vertex).node if vertex >= view.nodes else vertex
