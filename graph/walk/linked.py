"""Finds documents that are linked to a failing test that touches a module."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from math import log
from typing import NamedTuple

from sluice.contracts.errors import NotFound
from sluice.contracts.graph.api import DocumentKind, Linked, LinkedDocument
from sluice.contracts.graph.model import GraphPath, NodeLabel, Origin
from sluice.graph.generations.definitions import CLASS, How, last_segment
from sluice.graph.generations.view import GraphView
from sluice.graph.walk.nodes import Kind, document_of, kind_of, nearly_called, node_view, nodes_named
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
    view: GraphView, module: str, *, failing_only: bool = False, top_k: int = 10, kind: DocumentKind | None = None
) -> Linked:
    """Return the tests that touch a module (by name, path or id of a node), and the documents linked to these tests.

    A test touches a module that it refers to or that it defines nothing of but inherits from. With `failing_only` it is
    one that an indexed test report names. A document is linked to a test that refers to what the document defines or
    refers to. Pages, code and other tests are ranked apart, so that each kind's best has the score 1; `kind` asks for
    one of them. Files of tests that touch the module are left out, and so are the reports that name them. Raises
    `NotFound` for an unknown name.
    """
    subjects = frozenset(vertices_of(view, module))
    tests = _touching(view, subjects)
    reports = {vertex: _reports(view, vertex) for vertex in tests}
    failing = [vertex for vertex in tests if reports[vertex]]
    chosen = (failing if failing_only else list(dict.fromkeys([*failing, *tests])))[:_MOST_TESTS]
    files = {document_of(view, vertex) for vertex in tests}.union(*reports.values())
    documents = [
        LinkedDocument(
            document=node_view(view, one.document), kind=one.kind.value, score=one.score, path=_path(view, one)
        )
        for one in _ranked(view, {test: tests[test] for test in chosen}, subjects, files)
        if kind in (None, one.kind)
    ][:top_k]
    return Linked(
        module=module,
        tests=tuple(node_view(view, _node_of(view, vertex)) for vertex in chosen),
        documents=tuple(documents),
        generation=view.name,
    )


_MOST_TESTS = 200


def _touching(view: GraphView, subjects: frozenset[int]) -> dict[int, set[int]]:
    """Return the tests that refer to one of the subjects, those with most references first, each with the vertices
    whose references are its own: the test, functions within it, and the helpers and fixtures that it uses."""
    found: dict[bool, dict[int, Counter[int]]] = {True: {}, False: {}}
    for subject in subjects:
        for user, how in _users_in_tests(view, subject):
            tests = found[how < How.OVERRIDE]
            own = test_around(view, user)
            others = () if own is not None else (test_around(view, one) for one, _ in _users_in_tests(view, user))
            users = [one for one in (own, *others) if one is not None] or [user]
            for test in dict.fromkeys(users):
                tests.setdefault(test, Counter())[user] += 1
    surest = found[True] or found[False]
    order = sorted(surest, key=lambda test: (-surest[test].total(), test))
    return {test: {test, *surest[test]} for test in order}


def _users_in_tests(view: GraphView, vertex: int) -> Iterator[tuple[int, How]]:
    steps = (step for step in view.steps(vertex) if step.is_reverse and kind_of(view, step.target) is Kind.TEST)
    return ((step.target, step.how) for step in steps)


def test_around(view: GraphView, vertex: int) -> int | None:
    """Return the test that a vertex is or stands in; None: it is a helper of tests, or a file.

    That is the outermost function around it whose name begins as those of tests do.
    """
    if vertex < view.nodes:
        return None
    span = view.definition(vertex)
    for place in view.definitions_in(span.document):
        around = view.definition(place)
        is_around = around.first <= span.first and span.last <= around.last
        if is_around and _TEST.match(last_segment(view.node(around.node).key)) and not _is_class(view, around.node):
            return place
    return None


_TEST = re.compile(r"test", re.IGNORECASE)


def _is_class(view: GraphView, node: int) -> bool:
    return any(view.edge(number).detail == CLASS for number in view.edges_from(node))


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


def _ranked(
    view: GraphView, tests: dict[int, set[int]], subjects: frozenset[int], files: set[int | None]
) -> list[_Link]:
    """Return the documents linked to the tests, the best first; the scores of each kind are at most 1.

    What the tests refer to has a weight. The document that defines it gets that; the documents of each kind that refer
    to it share it, by how often they do and how little else they refer to.
    """
    links: dict[int, list[_Link]] = {}
    for definition, (weight, test, number) in _touched(view, tests, subjects).items():
        found = [(document_of(view, definition), weight, -1)]
        for kind, strengths in _users(view, definition).items():
            share = weight / sum(strength for strength, _ in strengths.values()) * (1.0 if kind is Kind.PAGE else USERS)
            found += [(document, share * strength, by) for document, (strength, by) in strengths.items()]
        for document, score, by in found:
            if document is not None and document not in files and (kind_found := kind_of(view, document)):
                links.setdefault(document, []).append(_Link(document, kind_found, score, test, number, by))
    summed = [max(own, key=_score)._replace(score=sum(map(_score, own))) for own in links.values()]
    most = {kind: max((one.score for one in summed if one.kind is kind), default=1.0) for kind in Kind}
    scaled = [one._replace(score=one.score / most[one.kind]) for one in summed if one.score > 0]
    return sorted(scaled, key=lambda one: (-one.score, _ORDER[one.kind], one.document))


_ORDER = {Kind.PAGE: 0, Kind.CODE: 1, Kind.TEST: 2}


def _score(link: _Link) -> float:
    return link.score


def _touched(
    view: GraphView, tests: dict[int, set[int]], subjects: frozenset[int]
) -> dict[int, tuple[float, int, int]]:
    """Return what the tests refer to, each with its weight, the test that gives it most, and the step from there."""
    touched: dict[int, list[tuple[float, int, int]]] = {}
    for sources in tests.values():
        for source in sources:
            for number, step in enumerate(view.steps(source), int(view.step_offsets[source])):
                if not step.is_reverse and step.how is not How.OUTSIDE:
                    weight = float(view.step_shares[number]) * (1.0 if step.target in subjects else OTHERS)
                    touched.setdefault(step.target, []).append((weight, source, number))
    return {target: (sum(one[0] for one in own), *max(own)[1:]) for target, own in touched.items()}


def _users(view: GraphView, definition: int) -> dict[Kind, dict[int, tuple[float, int]]]:
    """Return, by kind, the documents that refer to a definition: how strongly, and by which step to there."""
    users: dict[Kind, dict[int, tuple[float, int]]] = {}
    for number, step in enumerate(view.steps(definition), int(view.step_offsets[definition])):
        document = document_of(view, step.target)
        if step.is_reverse and document is not None and (kind := kind_of(view, document)):
            strength = float(view.step_shares[number]) * (1 + log(max(1, len(view.edge(step.edge).lines))))
            own = users.setdefault(kind, {})
            before, by = own.get(document, (0.0, number))
            own[document] = before + strength, by
    return users


def _path(view: GraphView, link: _Link) -> GraphPath:
    """Return the way from the test to the definition, and on to the document that refers to it."""
    node = _node_of(view, link.test)
    label, steps = view.node(node).label, told_step(view, link.test, link.touched_by)
    if label is not NodeLabel.DOCUMENT:
        steps = [defined_step(view, link.test, label), *steps]
    if link.refers_by >= 0:
        steps += told_step(view, view.source_of(link.refers_by), link.refers_by)
    return without_loops(GraphPath(start=node_view(view, node).name, start_label=label, steps=tuple(steps)))


def _node_of(view: GraphView, vertex: int) -> int:
    return view.definition(vertex).node if vertex >= view.nodes else vertex
