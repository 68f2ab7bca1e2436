"""Where a walk begins: at what the passages that were found refer to and define, and at what the question names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from contracts.graph.model import NodeLabel
from contracts.graph.retrieval import GraphHit
from graph.generations.steps import REVERSE
from graph.generations.view import GraphView
from graph.walk.identifiers import Named, names_in
from graph.walk.push import Seeds

NAMED_WEIGHT = 0.5
"""Of all that the question names, together; the passages that were found have 1 together, too."""
USERS_WEIGHT = 1.0
"""Of what refers to the definitions that begin in a passage, beside what the passage refers to itself, which has 1."""
OUTER_WEIGHT = 0.2
"""Of the rest of the passage's document, beside these."""
MOST_HITS = 10
MOST_DEFINERS = 16
"""Definitions that one name of a question may mean; more say nothing."""
_MOST_NODES = 512
_MOST_STEPS = 128
"""Of one definition, the likeliest."""

_Entry = tuple[int, float, int]
"""A vertex, its weight, and the step that it was entered by; -1: by none."""


class Start(NamedTuple):
    """Where a path begins, for people."""

    label: NodeLabel
    name: str


class Begun(NamedTuple):
    """Seeds, and what each belongs to."""

    seeds: Seeds
    starts: list[Start]
    reason: str
    """Why there are none; empty where there are."""


class _Collected:
    def __init__(self) -> None:
        self.vertices: list[int] = []
        self.weights: list[float] = []
        self.steps: list[int] = []
        self.origins: list[int] = []
        self.starts: list[Start] = []

    def add(self, found: Sequence[_Entry], weight: float, origin: int) -> None:
        """Entries of (vertex, weight, step) under one origin; their weights are brought to `weight` together."""
        total = sum(share for _, share, _ in found)
        if total <= 0:
            return
        self.vertices += [vertex for vertex, _, _ in found]
        self.weights += [share * weight / total for _, share, _ in found]
        self.steps += [step for _, _, step in found]
        self.origins += [origin] * len(found)

    def begin(self, label: NodeLabel, name: str) -> int:
        self.starts.append(Start(label, name))
        return len(self.starts) - 1


def seeds_of(view: GraphView, question: str, hits: Sequence[GraphHit]) -> Begun:
    """The seeds of a walk; their weights add up to 1."""
    collected = _Collected()
    reasons: list[str] = []
    named = [(entry, _meant(view, entry)) for entry in names_in(question)]
    known = [(entry, vertices) for entry, vertices in named if 0 < len(vertices) <= MOST_DEFINERS]
    if any(len(vertices) > MOST_DEFINERS for _, vertices in named):
        reasons.append("what the question names has too many definitions")
    for entry, vertices in known:
        label = NodeLabel.SYMBOL if entry.kind == "symbol" else NodeLabel.URL
        origin = collected.begin(label, entry.text)
        share = NAMED_WEIGHT / len(known)
        collected.add([(vertex, 1.0, -1) for vertex in vertices], share, origin)
    for hit, share in _shares(hits):
        document = view.find(NodeLabel.DOCUMENT, hit.document_id)
        if document is None:
            reasons.append("a passage is of a document that the graph does not have")
            continue
        origin = collected.begin(NodeLabel.DOCUMENT, _title_of(view, document, hit))
        _add_hit(view, collected, document, hit, share, origin)
    total = sum(collected.weights)
    seeds = Seeds(
        np.array(collected.vertices, np.int64),
        np.array(collected.weights) / (total or 1.0),
        np.array(collected.steps, np.int64),
        np.array(collected.origins, np.int64),
    )
    if not len(seeds.vertices) and not reasons:
        reasons.append("nothing named, and no edges from what was found")
    return Begun(seeds, collected.starts, "" if len(seeds.vertices) else reasons[0])


def _shares(hits: Sequence[GraphHit]) -> Iterator[tuple[GraphHit, float]]:
    """Hits with the share of each: by the square of its rank, so that a walk keeps near to the best ones.

    With 1 / (rank + 10), as fusion counts, 66 % of the answers that are one step away were among the first ten, with
    this 78 % (the standard library; 60 and 79 % on fsspec).
    """
    first = hits[:MOST_HITS]
    weights = [1 / rank**2 for rank in range(1, len(first) + 1)]
    yield from zip(first, (weight / sum(weights) for weight in weights), strict=True)


def _add_hit(view: GraphView, collected: _Collected, document: int, hit: GraphHit, share: float, origin: int) -> None:
    """What the passage's lines refer to, what refers to the definitions in them, and, damped, what else stands around.

    That is: the rest of these definitions, the uses of those that the passage is within, and the document itself.
    """
    spans = view.definitions_in(document)
    places = slice(spans.start - view.nodes, spans.stop - view.nodes)
    firsts, lasts = view.definition_firsts[places], view.definition_lasts[places]
    touching = np.flatnonzero((firsts <= hit.end_line) & (lasts >= hit.start_line)) + spans.start
    defined = np.flatnonzero((firsts >= hit.start_line) & (firsts <= hit.end_line)) + spans.start
    referred: list[_Entry] = []
    users: list[_Entry] = []
    outer: list[_Entry] = [(document, 1.0, -1)]
    inside = set(defined.tolist())
    for vertex in [document, *touching.tolist()]:
        start = int(view.step_offsets[vertex])
        stop = min(int(view.step_offsets[vertex + 1]), start + _MOST_STEPS)
        is_back = (view.step_hows[start:stop] & REVERSE) != 0
        is_inside = (view.step_firsts[start:stop] <= hit.end_line) & (view.step_lasts[start:stop] >= hit.start_line)
        for number, target, share_of_step, back, within in zip(
            range(start, stop),
            view.step_targets[start:stop].tolist(),
            view.step_shares[start:stop].tolist(),
            is_back.tolist(),
            is_inside.tolist(),
            strict=True,
        ):
            if target == document or target in inside:
                continue
            if back:
                (users if vertex in inside else outer).append((target, share_of_step, number))
            else:
                (referred if within else outer).append((target, share_of_step, number))
    parts = [(referred, 1.0), (users, USERS_WEIGHT), (outer, OUTER_WEIGHT)]
    total = sum(weight for found, weight in parts if found)
    for found, weight in parts:
        collected.add(found, share * weight / total, origin)


def _title_of(view: GraphView, document: int, hit: GraphHit) -> str:
    return view.path(document) or view.title(document) or view.url(document) or hit.document_id


def _meant(view: GraphView, named: Named) -> list[int]:
    """The vertices that a name of a question can mean."""
    if named.kind != "symbol":
        return _at_address(view, named)
    wanted = f".{named.text}"
    last = named.text.rpartition(".")[2]
    nodes = [node for node in view.named(last, _MOST_NODES) if _ends(view.node(node).key, wanted)]
    defined = [vertex for node in nodes for vertex in view.definitions_of(node)]
    if not defined and len(nodes) <= 4:
        defined = nodes
    return list(dict.fromkeys(defined))


def _ends(key: str, wanted: str) -> bool:
    name = key.rpartition("/")[2] if ":" not in key else key.partition(":")[2]
    return f".{name}".endswith(wanted)


def _at_address(view: GraphView, named: Named) -> list[int]:
    keys = [named.text, f"{named.text}/"] if named.kind == "url" else [f"path:{named.text}", f"path:?/{named.text}"]
    for key in keys:
        node = view.find(NodeLabel.URL, key)
        if node is not None:
            documents = [view.edge(number) for number in view.edges_from(node)]
            return [edge.target for edge in documents] or [node]
    return []
