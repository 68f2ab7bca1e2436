"""Reads a generation: its nodes, documents, edges, definitions and steps, from the arrays of its file."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property
from itertools import takewhile
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluice.contracts.graph.model import DECORATED, RESULT, UNKNOWN, EdgeType, Node, NodeLabel, Origin
from sluice.graph.generations.definitions import How, name_of
from sluice.graph.generations.fold import REVERSE
from sluice.graph.generations.stated import LABEL_CODES, LABELS, ORIGINS, TYPES, Arrays, Texts

Numbers = NDArray[np.int32]
_INIT = "/__init__.py"


class StatedEdge(NamedTuple):
    """An edge as its document states it. `source`, `target` and `owner` are places of nodes."""

    number: int
    type: EdgeType
    source: int
    target: int
    origin: Origin
    owner: int
    lines: tuple[int, ...]
    detail: str
    candidates: int
    """Definitions that its name can mean; 1 where it is unambiguous, or not in the corpus."""


class DefinedSpan(NamedTuple):
    """A definition: the symbol's node, and its lines; 0 and 0: its document as a whole."""

    document: int
    node: int
    first: int
    last: int


class Step(NamedTuple):
    """A step of the walk: its edge, whether it goes against it, its rule, and the lines of the reference."""

    target: int
    edge: int
    is_reverse: bool
    how: How
    first: int
    last: int


class Meant(NamedTuple):
    """A meaning of a name that differs from the definition's own: by a re-export, a base, or the end of a path."""

    name: int
    """The node of the name."""
    document: int
    how: How
    first: int
    last: int
    """Lines of the definition; 0 and 0: the document as a whole."""
    candidates: int


class GraphView:
    """One generation of the graph of a corpus. Safe for threads; it stays readable when its file is deleted.

    Nodes are numbered by label and key; documents come first. A *vertex* of the walk is a node, or a definition:
    definition `d` is vertex `nodes + d`.
    """

    def __init__(self, arrays: Arrays, name: str, version: int) -> None:
        self.name = name
        self.version = version
        """Changes of the corpus's graph that it covers."""
        self._arrays = arrays
        self._keys = _texts(arrays, "key")
        self._details = _texts(arrays, "detail")
        self._paths, self._urls, self._titles = (_texts(arrays, part) for part in ("path", "url", "title"))
        self._label_starts = np.searchsorted(arrays["node_label"], np.arange(len(LABELS) + 1)).tolist()
        self._definition_nodes = arrays["definition_node"][arrays["definitions_by_node"]]
        self.nodes = len(arrays["node_label"])
        self.documents: int = self._label_starts[1]
        self.edges = len(arrays["edge_type"])
        self.definitions = len(arrays["definition_node"])
        self.step_offsets: NDArray[np.int64] = arrays["step_offsets"].astype(np.int64, copy=False)
        self.step_targets: Numbers = arrays["step_target"].astype(np.int32, copy=False)
        self.step_shares: NDArray[np.float32] = arrays["step_share"].astype(np.float32, copy=False)
        self.step_firsts: Numbers = arrays["step_first"].astype(np.int32, copy=False)
        self.step_lasts: Numbers = arrays["step_last"].astype(np.int32, copy=False)
        self.step_hows: NDArray[np.uint8] = arrays["step_how"].astype(np.uint8, copy=False)
        self.definition_firsts: Numbers = arrays["definition_first"].astype(np.int32, copy=False)
        self.definition_lasts: Numbers = arrays["definition_last"].astype(np.int32, copy=False)

    @property
    def vertices(self) -> int:
        """Count of nodes and definitions."""
        return self.nodes + self.definitions

    def node(self, place: int) -> Node:
        """Return label and key of a node."""
        return Node(LABELS[int(self._arrays["node_label"][place])], self._keys[place])

    def find(self, label: NodeLabel, key: str) -> int | None:
        """Return the place of a node; None: the graph has no such node."""
        code = LABEL_CODES[label]
        return self._keys.find(key, self._label_starts[code], self._label_starts[code + 1])

    def beginning(self, label: NodeLabel, start: str) -> range:
        """Return the places of a label's nodes whose keys begin with a text."""
        code = LABEL_CODES[label]
        first, end = self._label_starts[code], self._label_starts[code + 1]
        low = self._keys.place(start.encode(errors="replace"), first, end)
        return range(low, self._keys.place(start.encode(errors="replace") + b"\xff", low, end))

    def path(self, document: int) -> str | None:
        """Return the path of a document."""
        return self._paths[document] or None

    def url(self, document: int) -> str | None:
        """Return the address of a document."""
        return self._urls[document] or None

    def title(self, document: int) -> str | None:
        """Return the title of a document."""
        return self._titles[document] or None

    def edge(self, number: int) -> StatedEdge:
        """Return an edge by its number."""
        arrays = self._arrays
        start, end = arrays["line_offsets"][number : number + 2]
        return StatedEdge(
            number,
            TYPES[int(arrays["edge_type"][number])],
            int(arrays["edge_source"][number]),
            int(arrays["edge_target"][number]),
            ORIGINS[int(arrays["edge_origin"][number])],
            int(arrays["edge_owner"][number]),
            tuple(arrays["lines"][start:end].tolist()),
            self._details[int(arrays["edge_detail"][number])],
            int(arrays["edge_candidates"][number]),
        )

    def edges_from(self, node: int) -> range:
        """Return the numbers of the edges that begin at a node."""
        start, end = self._arrays["out_offsets"][node : node + 2]
        return range(int(start), int(end))

    def edges_to(self, node: int) -> list[int]:
        """Return the numbers of the edges that end at a node."""
        start, end = self._arrays["in_offsets"][node : node + 2]
        found: list[int] = self._arrays["in_edges"][start:end].tolist()
        return found

    def definition(self, vertex: int) -> DefinedSpan:
        """Return the definition of a vertex, which must be one."""
        place = vertex - self.nodes
        return DefinedSpan(*(int(self._arrays[f"definition_{name}"][place]) for name in DefinedSpan._fields))

    def definitions_in(self, document: int) -> range:
        """Return the vertices of the definitions in a document, in the order of their lines."""
        start, end = self._arrays["definition_offsets"][document : document + 2]
        return range(self.nodes + int(start), self.nodes + int(end))

    def definitions_of(self, node: int) -> list[int]:
        """Return the vertices of the definitions with the key of a node; for a module the node of its document."""
        start, end = np.searchsorted(self._definition_nodes, (node, node + 1))
        places = self._arrays["definitions_by_node"][start:end]
        return [
            self.nodes + place if first > 0 else document
            for place, first, document in zip(
                places.tolist(),
                self._arrays["definition_first"][places].tolist(),
                self._arrays["definition_document"][places].tolist(),
                strict=True,
            )
        ]

    def named(self, name: str, most: int) -> list[int]:
        """Return the nodes of symbols and tools whose last segment is `name`, at most `most`."""
        return self.starting(name, most, is_whole=True)

    def starting(self, start: str, most: int, *, is_whole: bool = False) -> list[int]:
        """Return the nodes of symbols and tools whose last segment begins with `start`, or is it, at most `most`."""
        order: Numbers = self._arrays["nodes_by_name"]
        wanted = start.encode(errors="replace")
        first = bisect_left(order, wanted, key=self._called)
        end = None if is_whole else len(wanted)
        return [
            int(one) for one in takewhile(lambda one: self._called(one)[:end] == wanted, order[first : first + most])
        ]

    def shown_name(self, place: int) -> str:
        """Return a node's name for people: a symbol of Python by the path by which it is imported, without its language
        and the folders above its package; the result of a call with parentheses; a path without its mark."""
        node = self.node(place)
        name = short_name(node)
        if node.label is not NodeLabel.SYMBOL:
            return name
        if node.key.startswith("python:"):
            stated = self.edges_from(place)
            path = (self.path(self.edge(stated[0]).owner) or "") if stated else name.replace(".", "/")
            fitting = (root for root in self._roots if path.startswith(root) and (stated or root.count("/") > 1))
            name = name.removeprefix(next(fitting, "").replace("/", "."))
        return name.replace(f".{RESULT}", "()").replace(f".{DECORATED}", "")

    @cached_property
    def _roots(self) -> list[str]:
        """The folders that hold Python packages, as `click/src/`, and the first folder of each; the longest first."""
        packages = {path[: -len(_INIT)] for path in self._paths if path.endswith(_INIT)}
        above = {package.rpartition("/")[0] for package in packages} - packages
        tops = {folder.partition("/")[0] for folder in above} - packages
        return sorted((f"{folder}/" for folder in above | tops if folder), key=len, reverse=True)

    def steps(self, vertex: int) -> Iterator[Step]:
        """Yield the steps from a vertex, the likeliest first."""
        for number in range(int(self.step_offsets[vertex]), int(self.step_offsets[vertex + 1])):
            yield self.step(number)

    def step(self, number: int) -> Step:
        """Return a step by its number."""
        how = int(self.step_hows[number])
        return Step(
            int(self.step_targets[number]),
            int(self._arrays["step_edge"][number]),
            bool(how & REVERSE),
            How(how & ~REVERSE),
            int(self.step_firsts[number]),
            int(self.step_lasts[number]),
        )

    def meant(self) -> Iterator[Meant]:
        """Yield names that are defined under another one, and their definitions; each pair once.

        Leaves out definitions that share only the last segment with the name.
        """
        arrays = self._arrays
        hows = arrays["step_how"]
        numbers = np.flatnonzero((hows & REVERSE == 0) & (hows <= How.INHERITED))
        vertices, names = self.step_targets[numbers], arrays["edge_target"][arrays["step_edge"][numbers]]
        is_definition = vertices >= self.nodes
        places = np.where(is_definition, vertices - self.nodes, 0)
        own = np.where(is_definition, arrays["definition_node"][places], -1) if self.definitions else names * 0 - 1
        is_named = np.isin(arrays["node_label"][names], [LABEL_CODES[NodeLabel.SYMBOL], LABEL_CODES[NodeLabel.URL]])
        apart = np.flatnonzero((own != names) & is_named & (names != vertices))
        pairs, first = np.unique(np.stack([names[apart], vertices[apart]]), axis=1, return_index=True)
        for name, vertex, number in zip(*pairs.tolist(), numbers[apart[first]].tolist(), strict=True):
            document, start, end = vertex, 0, 0
            if vertex >= self.nodes:
                document, _, start, end = self.definition(vertex)
            step = self.step(number)
            yield Meant(name, document, step.how, start, end, self.edge(step.edge).candidates)

    def step_type(self, number: int) -> EdgeType:
        """Return the type of a step's edge."""
        return TYPES[int(self._arrays["edge_type"][int(self._arrays["step_edge"][number])])]

    def source_of(self, number: int) -> int:
        """Return the vertex at which a step begins."""
        return int(np.searchsorted(self.step_offsets, number, side="right")) - 1

    def _called(self, node: int) -> bytes:
        label, key = self.node(int(node))
        return name_of(label, key).encode(errors="replace")


def short_name(node: Node) -> str:
    """Return a node's name for people: a symbol without its language, a path without its mark."""
    if node.label is NodeLabel.SYMBOL:
        return node.key.partition(":")[2].removeprefix(f"{UNKNOWN}.")
    return node.key.removeprefix("path:").removeprefix(f"{UNKNOWN}/")


def _texts(arrays: Arrays, name: str) -> Texts:
    return Texts(
        arrays[f"{name}_offsets"].astype(np.int64, copy=False), arrays[f"{name}_bytes"].astype(np.uint8, copy=False)
    )
