"""Finds documents that are linked to a failing test that touches a module."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from sluice.contracts.errors import NotFound
from sluice.contracts.graph.api import Linked, LinkedDocument
from sluice.contracts.graph.model import NodeLabel, Origin
from sluice.graph.generations.definitions import How
from sluice.graph.generations.view import GraphView
from sluice.graph.walk.nodes import (
    Kind,
    document_name,
    document_of,
    documents_at,
    find_node,
    is_called,
    keys_of_path,
    kind_of,
    node_view,
)
from sluice.graph.walk.paths import Trails
from sluice.graph.walk.push import Seeds, push
from sluice.graph.walk.seeds import Begun, Start

_LANGUAGES = ("python", "javascript", "go", "rust", "java", "c")
_MOST_NAMED = 256
_LABELLED = re.compile(rf"(?:{'|'.join(NodeLabel)}):.")


def vertices_of(view: GraphView, module: str) -> list[int]:
    """Return the vertices of a module and of all its definitions.

    `module` is a dotted name (`shop.cart`, also its end: `cart` for `shop.cart`), a package, a class or a function, a
    path, or the id of a node. Raises `NotFound` where the graph has nothing of that name.
    """
    if _LABELLED.match(module):
        found = _by_id(view, module)
    else:
        path = module.strip("/").removeprefix("./")
        found = documents_at(view, keys_of_path(path)) or _by_name(view, module)
    vertices = dict.fromkeys(found)
    for vertex in found:
        if vertex < view.documents:
            vertices.update(dict.fromkeys(view.definitions_in(vertex)))
    if not vertices:
        raise NotFound(f"the graph knows no module, package or file {module!r}")
    return list(vertices)


def _by_id(view: GraphView, node_id: str) -> list[int]:
    place = find_node(view, node_id)
    return [place] if place < view.documents else _under(view, place)


def _under(view: GraphView, place: int) -> list[int]:
    node = view.node(place)
    if node.label is NodeLabel.URL:
        return [view.edge(number).target for number in view.edges_from(place)]
    return view.definitions_of(place) + _inner(view, node.key)


def _by_name(view: GraphView, module: str) -> list[int]:
    name = module.partition(":")[2] or module
    ends = [node for node in view.named(name.rpartition(".")[2], _MOST_NAMED) if is_called(view.node(node), name)]
    exact = [node for node in ends if view.node(node).key.partition(":")[2] == name]
    defined = [vertex for node in exact for vertex in _under(view, node)]
    defined = defined or [vertex for node in ends for vertex in _under(view, node)]
    return defined or [vertex for language in _LANGUAGES for vertex in _inner(view, f"{language}:{name}")]


def _inner(view: GraphView, key: str) -> list[int]:
    """Return the definitions whose names begin with that of a package or a class."""
    return [vertex for node in view.beginning(NodeLabel.SYMBOL, f"{key}.") for vertex in view.definitions_of(node)]


def linked(view: GraphView, module: str, *, failing_only: bool = False, top_k: int = 10) -> Linked:
    """Return the tests that touch a module (by name, path or id of a node), and the documents linked to these tests.

    A test touches a module that it refers to or that it defines nothing of but inherits from. With `failing_only` it is
    one that an indexed test report names. Documents are ranked by a walk from the tests; files of tests that touch the
    module are left out, and so are the reports that name them. Raises `NotFound` for an unknown name.
    """
    tests = _touching(view, vertices_of(view, module))
    reports = {vertex: _reports(view, vertex) for vertex in tests}
    failing = [vertex for vertex in tests if reports[vertex]]
    chosen = failing if failing_only else list(dict.fromkeys(failing + tests))
    files = {document_of(view, vertex) for vertex in tests}.union(*reports.values())
    return Linked(
        module=module,
        tests=tuple(node_view(view, _node_of(view, vertex)) for vertex in chosen[:_MOST_TESTS]),
        documents=tuple(_reached(view, chosen[:_MOST_TESTS], files, top_k)) if chosen else (),
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


def _reached(view: GraphView, tests: list[int], files: set[int | None], top_k: int) -> list[LinkedDocument]:
    count = len(tests)
    seeds = Seeds(np.array(tests, np.int64), np.full(count, 1 / count), np.full(count, -1, np.int64), np.arange(count))
    starts = [_start(view, vertex) for vertex in tests]
    walked = push(view, seeds)
    trails = Trails(view, Begun(seeds, starts, ""), walked)
    scores: dict[int, float] = {}
    best: dict[int, int] = {}
    order = np.lexsort((walked.vertices, -walked.scores))
    for place in order.tolist():
        vertex = int(walked.vertices[place])
        document = document_of(view, vertex)
        if document is None or document in files or trails.passage(vertex) is None:
            continue
        scores[document] = scores.get(document, 0.0) + float(walked.scores[place])
        best.setdefault(document, vertex)
    ranked = sorted(
        (document for document in scores if scores[document] > 0), key=lambda found: (-scores[found], found)
    )
    most = max(scores.values(), default=1.0)
    return [
        LinkedDocument(
            document=node_view(view, document), score=scores[document] / most, path=trails.path(best[document])
        )
        for document in ranked[:top_k]
    ]


def _start(view: GraphView, vertex: int) -> Start:
    node = view.node(_node_of(view, vertex))
    if node.label is NodeLabel.DOCUMENT:
        return Start(NodeLabel.DOCUMENT, document_name(view, vertex))
    return Start(node.label, node.key.partition(":")[2])


def _node_of(view: GraphView, vertex: int) -> int:
    return view.definition(vertex).node if vertex >= view.nodes else vertex
