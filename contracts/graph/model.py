"""Nodes and edges of the graph, as they are read from one document and stored, and the passages that it adds.

A reference is bound late: it points at a *name*, never at a file. The document that defines the name owns an edge from
the name to itself. So exactly one document owns every edge, and the edge is made from that document alone; a changed
document touches only its own edges, and the graph does not depend on the order in which documents come and go.

Names of symbols are written `language:qualified.name`, like `python:shop.cart.Cart.add`. An unknown receiver is a
question mark: `python:?.add`. A definition of `add` matches that name too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Annotated, NamedTuple, Protocol

from pydantic import Field

from sluice.contracts.base import Switch, Value, is_none
from sluice.contracts.document import PageLink

UNKNOWN = "?"
"""Replaces the unknown holder in a symbol's name."""

RESULT, DECORATED = "<result>", "<decorated>"
"""Parts of a symbol's name: for the result of a function, and for the object that decorators replace it with."""


class NodeLabel(StrEnum):
    """The kind of a node."""

    DOCUMENT = "Document"
    """Key: the document's id."""
    SYMBOL = "Symbol"
    """Key: `language:qualified.name`."""
    URL = "URL"
    """Key: an address without its fragment, or `path:` and a path; `path:?/name` for a file in an unknown folder."""
    TOOL = "Tool"
    """Key: `server/tool`, or the tool's name alone."""
    CONVERSATION = "Conversation"
    """Key: the session's id, or the run's where there is none."""


class EdgeType(StrEnum):
    """The relation of an edge. The decision record names the first six; the others bind names to names."""

    REFERS_TO = "REFERS_TO"
    """Document to Symbol."""
    LINKS_TO = "LINKS_TO"
    """Document to URL."""
    DEFINED_IN = "DEFINED_IN"
    """Symbol to Document, Tool to Document."""
    CITED_BY = "CITED_BY"
    """Document to Conversation."""
    RESOLVES_TO = "RESOLVES_TO"
    """URL to Document: the document at the address."""
    ALIAS_OF = "ALIAS_OF"
    """Symbol to Symbol: a re-export; the first name stands for the second."""
    INHERITS = "INHERITS"
    """Symbol to Symbol: members that the first class lacks are looked up in the second."""
    HAS_TYPE = "HAS_TYPE"
    """Symbol to Symbol: the variable is, or the function returns, an instance of the class."""


class Origin(StrEnum):
    """The evidence for an edge, the surest first."""

    SCOPE = "scope"
    """Defined in the same file, by the language's scope rules."""
    IMPORT = "import"
    """Bound by an import of the same file."""
    SELF = "self"
    """A member of the enclosing class."""
    DEFINITION = "definition"
    LINK = "link"
    """A hyperlink."""
    TOOL = "tool"
    """A server's own list of tools, or a definition that registers one."""
    RUN = "run"
    """An answer that cites the document."""
    TEST = "test"
    """A report that names a failing test."""
    NAME = "name"
    """Matched by name alone: the receiver is unknown."""
    MENTION = "mention"
    """Named in prose, in backquotes or as a path."""


class Node(NamedTuple):
    """A node: its label, and a key that is unique among nodes of that label in one corpus."""

    label: NodeLabel
    key: str


class Edge(NamedTuple):
    """One statement of one document. `lines` are its lines, from 1, ascending, each once; for a definition the first
    and the last line. `detail` is the kind of a definition (`function`, `class`, `method`, `module`, `variable`, …),
    the text of a link, or empty."""

    type: EdgeType
    source: Node
    target: Node
    origin: Origin
    lines: tuple[int, ...] = ()
    detail: str = ""


class GraphDocument(NamedTuple):
    """The graph's view of a document: its identifiers, and its text as indexed. Line `n` of `text` is line `n` of a
    citation. `metadata` are facts that ingest recorded."""

    document_id: str
    path: str | None
    url: str | None
    title: str | None
    language: str | None
    """For source code the programming language; for prose a natural one, or None."""
    text: str
    metadata: dict[str, str | int | float | bool]
    links: tuple[PageLink, ...] = ()
    """Links of a page, whose addresses are not in its text."""


def symbol(language: str, name: str) -> Node:
    """Return the node of a symbol by its qualified name."""
    return Node(NodeLabel.SYMBOL, f"{language}:{name}")


def unknown(language: str, name: str) -> Node:
    """Return the node of a name whose holder is unknown."""
    return Node(NodeLabel.SYMBOL, f"{language}:{UNKNOWN}.{name}")


def document_node(document_id: str) -> Node:
    """Return the node of a document."""
    return Node(NodeLabel.DOCUMENT, document_id)


class DocumentRow(NamedTuple):
    """A document of the graph in the ledger: its identifiers, and the edges made from its text."""

    document_id: str
    path: str | None
    url: str | None
    title: str | None
    edges: tuple[Edge, ...]


class CitationRow(NamedTuple):
    """An answer that cited a document. `conversation` is the session's id, or the run's where there is none."""

    document_id: str
    conversation: str
    lines: tuple[int, ...] = ()
    """First lines of the cited passages, from 1, ascending, each once."""


class PathStep(Value):
    """One edge of a path, in reading direction: from the previous node to `name`. `is_reverse`: the edge points the
    other way. `candidates` is the number of definitions that the name may refer to; 1 if unambiguous."""

    edge: EdgeType
    is_reverse: Switch = False
    origin: Origin
    label: NodeLabel
    name: str
    line: Annotated[int | None, Field(ge=1, exclude_if=is_none)] = None
    candidates: Annotated[int, Field(ge=1, exclude_if=lambda count: count == 1)] = 1


class GraphPath(Value):
    """The edges that connect a result with the start of the walk: a retrieved passage, or a node of the question."""

    start: str
    start_label: NodeLabel
    steps: tuple[PathStep, ...]

    def __str__(self) -> str:
        """Return the path like `test_login.py REFERS_TO Session DEFINED_IN session.py`."""
        told = [self.start]
        for step in self.steps:
            arrow = f"<-{step.edge}-" if step.is_reverse else step.edge
            told += [arrow, step.name + (f" (1 of {step.candidates})" if step.candidates > 1 else "")]
        return " ".join(told)


class GraphHit(NamedTuple):
    """A passage that other retrievers found: a possible start of a walk."""

    document_id: str
    start_line: int
    end_line: int
    score: float


class GraphCandidate(NamedTuple):
    """A passage that the walk reached: the one with `line` of the document; without a line, the document as a whole.
    `score` is in (0, 1], higher for nearer and surer passages. `tell_path` computes the path on demand, as most
    candidates do not become results."""

    document_id: str
    line: int | None
    score: float
    tell_path: Callable[[], GraphPath]

    @property
    def path(self) -> GraphPath:
        """Return the path of the walk to it."""
        return self.tell_path()


class Expansion(NamedTuple):
    """The passages that a walk reached, best first, each once; or the reason why there are none. `is_asked_for`: the
    question requests things related to its subject, so that itself is not the answer; `is_named`: and names it."""

    candidates: Sequence[GraphCandidate] = ()
    abstained: str = ""
    generation: str | None = None
    is_asked_for: bool = False
    is_named: bool = False


class GraphUse(Value):
    """The graph's contribution to one search. `candidates` counts the passages that it reached. `abstained` is the
    reason why there are none; if `generation` is also None, there was no graph to walk. `is_asked_for`: the question
    requests what is related to a thing that it names."""

    candidates: Annotated[int, Field(ge=0)] = 0
    abstained: str = ""
    is_asked_for: Switch = False
    generation: str | None = None
    duration_ms: float = 0.0


class GraphArm(Protocol):
    """Walks the graph of one corpus. Safe for threads."""

    def expand(self, question: str, hits: Sequence[GraphHit]) -> Expansion:
        """Walk from the hits and from the nodes that the question names. Raises nothing: without a graph, or with a
        damaged one, it abstains and gives the reason."""
        ...
