"""Tells by which edges a vertex was reached."""

from __future__ import annotations

from sluice.contracts.graph.model import EdgeType, NodeLabel, Origin
from sluice.contracts.graph.retrieval import GraphPath, PathStep
from sluice.graph.generations.found import How
from sluice.graph.generations.view import GraphView, Step, short_name

_BY_RULE = {How.ALIAS: EdgeType.ALIAS_OF, How.INHERITED: EdgeType.INHERITS}


def told_step(view: GraphView, source: int, number: int) -> list[PathStep]:
    """One step of the walk from the vertex `source`, as the stated edges that it is made of."""
    step = view.step(number)
    edge = view.edge(step.edge)
    if edge.type is EdgeType.DEFINED_IN:
        return [_to_document(view, EdgeType.DEFINED_IN, Origin.DEFINITION, step.target, None)]
    name = view.node(edge.target)
    through = PathStep(
        edge=edge.type,
        is_reverse=False,
        origin=edge.origin,
        label=name.label,
        name=short_name(name),
        line=step.first or None,
        candidates=edge.candidates,
    )
    if step.how is How.OUTSIDE:
        if not step.is_reverse:
            return [through]
        return [_to_document(view, edge.type, edge.origin, edge.owner, step.first or None, is_reverse=True)]
    defined = source if step.is_reverse else step.target
    told = [through, *_by_rule(view, step, defined), _defined(view, defined, name.label)]
    return told if not step.is_reverse else _turned(view, told, edge.owner, source, step)


def without_loops(path: GraphPath) -> GraphPath:
    """The path without ways that lead back to a document that it had been at; one that ends where it began stays."""
    kept: list[PathStep] = []
    for step in path.steps:
        named = (step.label, step.name)
        been = [(path.start_label, path.start), *((one.label, one.name) for one in kept)]
        if step.label is not NodeLabel.DOCUMENT or named not in been:
            kept.append(step)
        elif at := been.index(named):
            kept = [*kept[: at - 1], kept[at - 1].model_copy(update={"line": step.line})]
        else:
            kept = []
    return path.model_copy(update={"steps": tuple(kept)}) if kept else path


def _by_rule(view: GraphView, step: Step, defined: int) -> list[PathStep]:
    """The re-export or the inheritance between a name and what it means, where that bears another name."""
    kind = _BY_RULE.get(step.how)
    if kind is None or defined < view.nodes:
        return []
    node = view.node(view.definition(defined).node)
    return [PathStep(edge=kind, origin=Origin.DEFINITION, label=node.label, name=short_name(node))]


def _defined(view: GraphView, vertex: int, named: NodeLabel) -> PathStep:
    if vertex >= view.nodes:
        span = view.definition(vertex)
        return _to_document(view, EdgeType.DEFINED_IN, Origin.DEFINITION, span.document, span.first or None)
    kind = EdgeType.RESOLVES_TO if named is NodeLabel.URL else EdgeType.DEFINED_IN
    return _to_document(view, kind, Origin.DEFINITION, vertex, None)


def _turned(view: GraphView, told: list[PathStep], owner: int, source: int, step: Step) -> list[PathStep]:
    """The same edges walked the other way, from the definition to the document that refers to it."""
    names = [(entry.label, entry.name) for entry in told[:-1]]
    turned: list[PathStep] = []
    for place, entry in enumerate(reversed(told)):
        if place < len(names):
            label, name = names[len(names) - 1 - place]
            line = None
        else:
            label, name, line = NodeLabel.DOCUMENT, document_name(view, owner), step.first or None
        turned.append(entry.model_copy(update={"is_reverse": True, "label": label, "name": name, "line": line}))
    return turned


def _to_document(
    view: GraphView, kind: EdgeType, origin: Origin, document: int, line: int | None, *, is_reverse: bool = False
) -> PathStep:
    return PathStep(
        edge=kind,
        is_reverse=is_reverse,
        origin=origin,
        label=NodeLabel.DOCUMENT,
        name=document_name(view, document),
        line=line,
    )


def document_name(view: GraphView, document: int) -> str:
    """What people know a document by."""
    return view.path(document) or view.title(document) or view.url(document) or view.node(document).key
