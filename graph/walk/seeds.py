"""Chooses the start of a walk: the surroundings of the found passages, and the names in the question, with weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluice.contracts.graph.model import EdgeType, GraphHit, NodeLabel
from sluice.graph.generations.fold import REVERSE
from sluice.graph.generations.view import GraphView
from sluice.graph.walk.nodes import document_name, documents_at, keys_of_path, nodes_named
from sluice.graph.walk.push import OTHER_WAY, Seeds
from sluice.graph.walk.question import Named, Wanted, asking_clause, names_in, plain_name, wanted_by

USERS_WEIGHT = 1.0
"""Weight of references to the definitions that begin in a passage; the passage's own references have 1."""
OUTER_WEIGHT = 0.2
"""Weight of the rest of the passage's document, where the passage's own references have 1."""
BASE_WEIGHT = 5.0
"""Factor on the step from a class to its base or back, where the question asks for classes."""
_WAYS = {None: (1.0, 1.0), False: (1.0, OTHER_WAY), True: (OTHER_WAY, 1.0)}
_MOST_STEPS = 128
"""Most steps that are taken from one vertex, the likeliest first."""

Entry = tuple[int, float, int]
"""A vertex, its weight, and the step by which it was entered; -1: none."""


class Lines(NamedTuple):
    """Lines of a document, which is given by its vertex. `named`: the definition on them, if a question names it."""

    document: int
    first: int
    last: int
    named: int | None = None


class Part(NamedTuple):
    """Entries, and the share of the whole that they have together; the shares add up to 1 at most."""

    entries: list[Entry]
    share: float


def around(view: GraphView, lines: Lines, wanted: Wanted) -> list[Part]:
    """Return the references in the lines, the references to the definitions in them, and, damped, their surroundings.

    The surroundings are the rest of these definitions, the uses of those around the lines, and the document itself. For
    a named definition only its own uses count, for a document without definitions those of the document. If the
    question has a direction (`wanted.is_back`), the other one gets little weight, even where the first has no entries;
    and the innermost definition around the first line counts as if it began in the lines.
    """
    referred: list[Entry] = []
    users: list[Entry] = []
    outer: list[Entry] = [(lines.document, 1.0, -1)]
    outer_users: list[Entry] = []
    spans = view.definitions_in(lines.document)
    touching, inside = _definitions(view, spans, lines)
    own = _own(view, touching, inside, lines, wanted)
    for vertex in [lines.document, *touching.tolist()]:
        is_own = vertex in own or not len(spans)
        for entry, is_back, is_within in _steps(view, vertex, lines, is_base=wanted.is_base):
            if entry[0] == lines.document or entry[0] in inside:
                continue
            if is_back:
                (users if is_own else outer_users).append(entry)
            else:
                (referred if is_within else outer).append(entry)
    forward, back = _WAYS[wanted.is_back]
    weighed = [
        (referred, forward),
        (users, USERS_WEIGHT * back),
        (outer, OUTER_WEIGHT * forward),
        (outer_users, OUTER_WEIGHT * back),
    ]
    total = sum(weight for entries, weight in weighed if entries)
    if wanted.is_back is not None:
        total = max(total, 1.0)
    return [Part(entries, weight / total) for entries, weight in weighed if entries]


def _definitions(view: GraphView, spans: range, lines: Lines) -> tuple[NDArray[np.int64], set[int]]:
    """Return the definitions that overlap the lines, and those that begin in them."""
    places = slice(spans.start - view.nodes, spans.stop - view.nodes)
    firsts, lasts = view.definition_firsts[places], view.definition_lasts[places]
    touching = np.flatnonzero((firsts <= lines.last) & (lasts >= lines.first)) + spans.start
    inside = np.flatnonzero((firsts >= lines.first) & (firsts <= lines.last)) + spans.start
    return touching, set(inside.tolist())


def _own(view: GraphView, touching: NDArray[np.int64], inside: set[int], lines: Lines, wanted: Wanted) -> set[int]:
    """Return the definitions whose uses count as uses of the lines."""
    if lines.named is not None:
        return {lines.named}
    if wanted.is_back is None:
        return inside
    places = touching - view.nodes
    firsts = view.definition_firsts[places]
    holding = np.flatnonzero((firsts <= lines.first) & (view.definition_lasts[places] >= lines.first))
    return inside | {int(touching[place]) for place in holding[np.argsort(firsts[holding])[-1:]]}


def _steps(view: GraphView, vertex: int, lines: Lines, *, is_base: bool) -> Iterator[tuple[Entry, bool, bool]]:
    """Yield the likeliest steps from a vertex: entry, whether it goes back, whether its reference is in the lines."""
    start = int(view.step_offsets[vertex])
    stop = min(int(view.step_offsets[vertex + 1]), start + _MOST_STEPS)
    is_back = (view.step_hows[start:stop] & REVERSE) != 0
    is_within = (view.step_firsts[start:stop] <= lines.last) & (view.step_lasts[start:stop] >= lines.first)
    for number, target, share, back, within in zip(
        range(start, stop),
        view.step_targets[start:stop].tolist(),
        view.step_shares[start:stop].tolist(),
        is_back.tolist(),
        is_within.tolist(),
        strict=True,
    ):
        is_weighty = is_base and view.step_type(number) is EdgeType.INHERITS
        yield (target, share * BASE_WEIGHT if is_weighty else share, number), back, within


NAMED_WEIGHT = 0.5
"""Weight of all names of the question together; the found passages have 1 together, too."""
NAMED_WEIGHT_IF_ASKED = 1.0
"""The same where the question asks for things related to something."""
NAMED_ITSELF = 0.5
"""Share of a named definition's weight that it keeps itself; the rest goes to its surroundings."""
NAMED_ITSELF_IF_ASKED = 0.2
"""The same where the question asks for things related to something."""
_LAST_LINE = 1_000_000
MOST_HITS = 10
MOST_DEFINERS = 16
"""Most definitions that one name of a question may mean; more say nothing."""


class Start(NamedTuple):
    """The start of a path, for people."""

    label: NodeLabel
    name: str


class Begun(NamedTuple):
    """Seeds, with their origins."""

    seeds: Seeds
    starts: list[Start]
    reason: str
    """The reason that there are no seeds; empty where there are some."""
    subjects: frozenset[int] = frozenset()
    """What the question names, and asks for relatives of."""


class _Collected:
    def __init__(self) -> None:
        self.vertices: list[int] = []
        self.weights: list[float] = []
        self.steps: list[int] = []
        self.origins: list[int] = []
        self.starts: list[Start] = []

    def add(self, found: Sequence[Entry], weight: float, origin: int) -> None:
        """Add entries of (vertex, weight, step) under one origin, scaled so that their weights add up to `weight`."""
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
    """Return the seeds of a walk; their weights add up to 1."""
    collected = _Collected()
    reasons: list[str] = []
    wanted = wanted_by(question)
    names = names_in(question)
    if not names and wanted.is_back is not None and (plain := plain_name(question)):
        names = [plain]
    named = [(entry, _meant(view, entry)) for entry in names]
    known = [(entry, vertices) for entry, vertices in named if 0 < len(vertices) <= MOST_DEFINERS]
    if any(len(vertices) > MOST_DEFINERS for _, vertices in named):
        reasons.append("what the question names has too many definitions")
    for entry, vertices in known:
        label = NodeLabel.SYMBOL if entry.kind == "symbol" else NodeLabel.URL
        origin = collected.begin(label, entry.text)
        weight = NAMED_WEIGHT if wanted.is_back is None else NAMED_WEIGHT_IF_ASKED
        _add_named(view, collected, vertices, weight / len(known), origin, wanted)
    clause = asking_clause(question)
    subjects = frozenset(one for entry, own in known if entry.text.lower() in clause for one in own)
    for hit, share in _shares(() if subjects else hits):  # what was found is about the subject, which is known
        document = view.find(NodeLabel.DOCUMENT, hit.document_id)
        if document is None:
            reasons.append("a passage is of a document that the graph does not have")
            continue
        origin = collected.begin(NodeLabel.DOCUMENT, document_name(view, document))
        _add_around(view, collected, Lines(document, hit.start_line, hit.end_line), share, origin, wanted)
    total = sum(collected.weights)
    seeds = Seeds(
        np.array(collected.vertices, np.int64),
        np.array(collected.weights) / (total or 1.0),
        np.array(collected.steps, np.int64),
        np.array(collected.origins, np.int64),
    )
    if not len(seeds.vertices) and not reasons:
        reasons.append("nothing named, and no edges from what was found")
    return Begun(seeds, collected.starts, "" if len(seeds.vertices) else reasons[0], subjects)


def _shares(hits: Sequence[GraphHit]) -> Iterator[tuple[GraphHit, float]]:
    """Yield hits with the share of each: by the inverse square of its rank, so that a walk stays near the best ones.

    Of the answers one step away 78 % were then among the first ten (the standard library; fsspec 79 %), and 66 %
    (fsspec 60 %) with 1 / (rank + 10), as fusion counts.
    """
    first = hits[:MOST_HITS]
    weights = [1 / rank**2 for rank in range(1, len(first) + 1)]
    yield from zip(first, (weight / sum(weights) for weight in weights), strict=True)


def _add_named(
    view: GraphView, collected: _Collected, vertices: Sequence[int], share: float, origin: int, wanted: Wanted
) -> None:
    """Add the named definitions themselves, and their surroundings as those of a found passage."""
    own = NAMED_ITSELF if wanted.is_back is None else NAMED_ITSELF_IF_ASKED
    collected.add([(vertex, 1.0, -1) for vertex in vertices], share * own, origin)
    for vertex in vertices:
        if vertex >= view.nodes:
            span = view.definition(vertex)
            lines = Lines(span.document, span.first, span.last, vertex)
        elif vertex < view.documents:
            lines = Lines(vertex, 1, _LAST_LINE, vertex)
        else:
            continue
        _add_around(view, collected, lines, share * (1 - own) / len(vertices), origin, wanted)


def _add_around(
    view: GraphView, collected: _Collected, lines: Lines, share: float, origin: int, wanted: Wanted
) -> None:
    for entries, part in around(view, lines, wanted):
        collected.add(entries, share * part, origin)


def _meant(view: GraphView, named: Named) -> list[int]:
    """Return the vertices that a name of a question can mean."""
    if named.kind == "symbol":
        nodes = nodes_named(view, named.text)
        defined = [vertex for node in nodes for vertex in view.definitions_of(node)]
        return list(dict.fromkeys(defined or (nodes if len(nodes) <= 4 else ())))
    keys = (named.text, f"{named.text}/") if named.kind == "url" else keys_of_path(named.text)
    places = (view.find(NodeLabel.URL, key) for key in keys)
    return documents_at(view, keys) or [place for place in places if place is not None][:1]
