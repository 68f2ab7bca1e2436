"""Finds a document's own addresses, and the addresses that it links to."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from urllib.parse import unquote, urlsplit

import ada_url

from sluice.contracts.graph.model import Edge, EdgeType, GraphDocument, Node, NodeLabel, Origin, document_node
from sluice.graph.extract.prose import Kind, Piece, bare_urls

PATH = "path:"
UNKNOWN_FOLDER = "path:?/"
MOST_PARTS = 24
"""Most path endings by which one path can be found."""
_FOLDER_NAMES = frozenset({"readme", "index", "__init__"})
_PROSE = frozenset({".md", ".markdown", ".mdx", ".rst", ".txt", ".html", ".htm", ".xhtml", ".adoc"})
_WEB = frozenset({"http", "https"})


def own_addresses(document: GraphDocument) -> Iterator[Edge]:
    """Yield RESOLVES_TO edges from each address of the document to it. `detail` is the kind of address."""
    target = document_node(document.document_id)
    for address, kind in _addresses(document):
        yield Edge(EdgeType.RESOLVES_TO, address, target, Origin.DEFINITION, (), kind)


def path_address(path: str) -> Node:
    """Return the node of a path, with `.` and `..` resolved."""
    return Node(NodeLabel.URL, PATH + _normal(path))


def name_address(name: str) -> Node:
    """Return the node of a file in an unknown folder."""
    return Node(NodeLabel.URL, UNKNOWN_FOLDER + name)


def web_address(url: str, base: str | None = None) -> Node | None:
    """Return the node of a web address without its fragment, resolved against `base`; None for any other address."""
    try:
        parsed = ada_url.URL(url.strip(), base=base) if base else ada_url.URL(url.strip())
        if parsed.protocol.rstrip(":") not in _WEB or parsed.username or parsed.password:
            return None
        parsed.hash = ""
        return Node(NodeLabel.URL, str(parsed.href))
    except (ValueError, UnicodeError):
        return None


def link_target(document: GraphDocument, address: str) -> Node | None:
    """Return the target of a document's link: a web address, or a path relative to the document's own.

    None for a link within the document, and for an address of no page or file (`mailto:`, `javascript:`).
    """
    address = address.strip()
    if not address or address.startswith("#"):
        return None
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    if parts.scheme.lower() in _WEB or (not parts.scheme and parts.netloc):
        return web_address(address if parts.scheme else f"https:{address}")
    if parts.scheme:
        return None
    if document.path is None:
        return web_address(address, document.url) if document.url else None
    return path_beside(document.path, unquote(parts.path))


def path_beside(own_path: str, path: str) -> Node | None:
    """Return the node of a path that is written relative to the folder of `own_path`.

    A path with a leading slash counts from an unknown root: with two parts or more it is the end of a path; a single
    name is looked up in the first folder of `own_path`. None outside the read files, or for the document itself.
    """
    own = _normal(own_path)
    if path.startswith("/"):
        root, _, rest = own.partition("/")
        absolute = _normal(path)
        resolved = f"{root}/{absolute}" if rest and "/" not in absolute else absolute
    else:
        resolved = _normal(posixpath.join(posixpath.dirname(own), path))
    if resolved in ("", ".", own) or resolved.startswith(".."):
        return None
    return Node(NodeLabel.URL, PATH + resolved)


def _addresses(document: GraphDocument) -> Iterator[tuple[Node, str]]:
    if document.path:
        path = _normal(document.path)
        yield Node(NodeLabel.URL, PATH + path), "path"
        yield name_address(path.rpartition("/")[2]), "name"
        yield from _ends(path)
        stem, suffix = posixpath.splitext(path)
        if suffix.lower() in _PROSE:
            yield Node(NodeLabel.URL, PATH + stem), "path"
            yield from _ends(stem)
        folder, _, name = stem.rpartition("/")
        if folder and name.lower() in _FOLDER_NAMES:
            yield Node(NodeLabel.URL, PATH + folder), "folder"
            yield from _ends(folder)
    if document.url and (address := web_address(document.url)) is not None:
        yield address, "url"


def _ends(path: str) -> Iterator[tuple[Node, str]]:
    parts = path.split("/")
    for count in range(2, min(len(parts), MOST_PARTS)):
        yield Node(NodeLabel.URL, PATH + "/".join(parts[-count:])), "end"


def _normal(path: str) -> str:
    return posixpath.normpath(path.replace("\\", "/")).strip("/")


_LABEL = "label:"


def link_edges(document: GraphDocument, pieces: Iterable[Piece]) -> Iterator[Edge]:
    """Yield LINKS_TO edges of the links among `pieces`, with their words.

    Also yields RESOLVES_TO edges from the document's own labels. A relative address is resolved against the document's
    path, or else its URL. Fragments are dropped, queries kept.
    """
    source = document_node(document.document_id)
    for piece in pieces:
        if piece.kind is Kind.LINK:
            target = link_target(document, piece.address)
            if target is not None:
                yield Edge(EdgeType.LINKS_TO, source, target, Origin.LINK, (piece.line,), piece.text)
        elif piece.kind is Kind.WORDS:
            for url in bare_urls(piece.text):
                if (target := web_address(url)) is not None:
                    yield Edge(EdgeType.LINKS_TO, source, target, Origin.LINK, (piece.line,))
        elif piece.kind is Kind.LABEL:
            yield Edge(EdgeType.LINKS_TO, source, _label(piece.address), Origin.LINK, (piece.line,), piece.text)
        elif piece.kind is Kind.OWN_LABEL:
            yield Edge(EdgeType.RESOLVES_TO, _label(piece.address), source, Origin.DEFINITION, (piece.line,), "label")


def _label(name: str) -> Node:
    return Node(NodeLabel.URL, _LABEL + name)
