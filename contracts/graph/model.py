"""Nodes and edges of the graph, as they are read from one document and as they are kept.

A reference is bound late: it points at a *name*, never at a file. Whoever defines the name owns an edge from the name
to itself. So every edge is owned by exactly one document and made from that document alone; a changed document touches
only its own edges, and in whatever order documents come and go, the graph is the same.

Names of symbols are written `language:qualified.name`, like `python:shop.cart.Cart.add`. A receiver that is not known
is a question mark: `python:?.add`. What defines `add` answers to that name too.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from sluice.contracts.document import PageLink

UNKNOWN = "?"
"""Stands in a symbol's name for what holds it, where that is not known."""

RESULT, DECORATED = "<result>", "<decorated>"
"""Stand in a symbol's name for what a call of a function gives, and for what decorators put in its place."""


class NodeLabel(StrEnum):
    """What a node stands for."""

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
    """What an edge says. The first six are named by the decision record; the others bind names to names."""

    REFERS_TO = "REFERS_TO"
    """Document to Symbol."""
    LINKS_TO = "LINKS_TO"
    """Document to URL."""
    DEFINED_IN = "DEFINED_IN"
    """Symbol to Document, Tool to Document."""
    CITED_BY = "CITED_BY"
    """Document to Conversation."""
    RESOLVES_TO = "RESOLVES_TO"
    """URL to Document: this is what is at the address."""
    ALIAS_OF = "ALIAS_OF"
    """Symbol to Symbol: a re-export; the first name means what the second means."""
    INHERITS = "INHERITS"
    """Symbol to Symbol: what the first class lacks is looked for in the second."""
    HAS_TYPE = "HAS_TYPE"
    """Symbol to Symbol: the variable is, or the function returns, an instance of the class."""


class Origin(StrEnum):
    """How an edge was found, the surest first."""

    SCOPE = "scope"
    """Defined in the same file, by the language's rules of scope."""
    IMPORT = "import"
    """By an import of the same file."""
    SELF = "self"
    """A member of the class that it stands in."""
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
    """By its name alone: the receiver is not known."""
    MENTION = "mention"
    """Named in prose, in backquotes or as a path."""


class Node(NamedTuple):
    """A node: its label, and a key that is unique among nodes of that label in one corpus."""

    label: NodeLabel
    key: str


class Edge(NamedTuple):
    """One statement of one document.

    `lines` are where it stands, from 1, ascending, each once; of a definition the first and the last line. `detail` is
    the kind of a definition (`function`, `class`, `method`, `module`, `variable`, …), the text of a link, or empty.
    """

    type: EdgeType
    source: Node
    target: Node
    origin: Origin
    lines: tuple[int, ...] = ()
    detail: str = ""


class GraphDocument(NamedTuple):
    """A document as the graph reads it: what identifies it, and its text as it is indexed.

    Line `n` of `text` is line `n` of a citation. `metadata` are facts that ingest recorded.
    """

    document_id: str
    path: str | None
    url: str | None
    title: str | None
    language: str | None
    """Of source code its programming language; of prose a natural one, or None."""
    text: str
    metadata: dict[str, str | int | float | bool]
    links: tuple[PageLink, ...] = ()
    """Of a page: its links, whose addresses are not in its text."""


def symbol(language: str, name: str) -> Node:
    """The node of a symbol by its qualified name."""
    return Node(NodeLabel.SYMBOL, f"{language}:{name}")


def unknown(language: str, name: str) -> Node:
    """The node of a name whose holder is not known."""
    return Node(NodeLabel.SYMBOL, f"{language}:{UNKNOWN}.{name}")


def document_node(document_id: str) -> Node:
    """The node of a document."""
    return Node(NodeLabel.DOCUMENT, document_id)


class DocumentRow(NamedTuple):
    """A document of the graph, as the ledger keeps it: what identifies it, and the edges made from its text."""

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
    """Where the cited passages begin, from 1, ascending, each once."""
