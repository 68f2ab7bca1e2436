"""Resolves all references of a corpus: candidates with their likelihood, and documents by path."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sluice.contracts.graph.model import DocumentRow, Edge, EdgeType, NodeLabel, Origin
from sluice.graph.generations.definitions import Bond, Definition, Found, How, definitions_of
from sluice.graph.generations.names import Names

PATH = "path:"


class Addresses:
    """Documents by the addresses that they answer to."""

    def __init__(self, resolving: Iterable[tuple[str, int]], paths: Sequence[str | None]) -> None:
        """`resolving` are keys of URL nodes, each with the document that is there (its place in the order of ids).

        `paths` are those of the documents, in order.
        """
        self._at: dict[str, list[int]] = {}
        for key, document in resolving:
            held = self._at.setdefault(key, [])
            if document not in held[-64:]:
                held.append(document)
        self._paths = paths

    def resolve(self, key: str, document: int) -> tuple[int, ...]:
        """The documents that `key` can mean where `document` links to it; of several paths those nearest to its own."""
        found = self._at.get(key, [])
        if len(found) < 2 or not key.startswith(PATH):
            return tuple(found)
        own = self._paths[document] or ""
        shared = [_shared(own, self._paths[place] or "") for place in found]
        most = max(shared)
        return tuple(place for place, share in zip(found, shared, strict=True) if share == most)


def _shared(one: str, other: str) -> int:
    count = 0
    for mine, theirs in zip(one.split("/")[:-1], other.split("/")[:-1], strict=False):
        if mine != theirs:
            break
        count += 1
    return count


_NEAR_SHARE = 0.8
"""Of a name with an unknown receiver: the share of those candidates that stand in the same document or in one that it
imports from. It is a guess: what is called is more often near than far."""
_OVERRIDE_SHARE = 0.2
"""Of a method that subclasses replace: the share of the replacements together. A guess too."""
_SURE = frozenset({Origin.SCOPE, Origin.IMPORT, Origin.SELF})


class Meaning(NamedTuple):
    """One definition that a reference can mean, by its place in `Resolver.definitions`; shares add up to 1."""

    definition: int
    how: How
    share: float


class Resolver:
    """Resolves the references of a corpus. Equal rows in equal order give equal answers. Not safe for threads."""

    def __init__(self, documents: Sequence[DocumentRow]) -> None:
        self._documents = documents
        self._places = {row.document_id: place for place, row in enumerate(documents)}
        self.definitions: list[Definition] = []
        further: list[tuple[str, Definition]] = []
        for place, row in enumerate(documents):
            found, also = definitions_of(place, row.edges)
            self.definitions += sorted(set(found))
            further += also
        order = {definition: place for place, definition in enumerate(self.definitions)}
        paths = [row.path for row in documents]
        self.keys = sorted({(key, order[definition]) for key, definition in further})
        """Further keys of definitions, like `python:?.save`, by the definition's place."""
        self._names = Names(
            self.definitions,
            self.keys,
            paths,
            aliases=self._bonds(EdgeType.ALIAS_OF),
            bases=self._bonds(EdgeType.INHERITS, EdgeType.HAS_TYPE),
        )
        self._addresses = Addresses(
            [
                (edge.source.key, place)
                for place, row in enumerate(documents)
                for edge in row.edges
                if edge.type is EdgeType.RESOLVES_TO
            ],
            paths,
        )
        self._near: dict[int, frozenset[int]] = {}

    def found(self, key: str, document: int) -> tuple[Found, ...]:
        """What the name of a symbol or a tool can mean in a document (its place); none: it is not in the corpus."""
        return self._names.resolve(key, document)

    def meanings(self, found: Sequence[Found], document: int, least_share: float = 0.0) -> list[Meaning]:
        """How likely a reference of the document means each that was found; those less likely are left out."""
        if not found or found[0].how is not How.NAME or len(found) == 1:
            return [one for one in _shared_out(found) if one.share >= least_share]
        near = self._near_documents(document)
        inner = [entry for entry in found if self.definitions[entry.definition].document in near]
        outer_count = len(found) - len(inner)
        inner_share = (_NEAR_SHARE if outer_count else 1.0) / max(1, len(inner))
        outer_share = ((1 - _NEAR_SHARE) if inner else 1.0) / max(1, outer_count)
        weighed = [Meaning(place, how, inner_share) for place, how in inner] if inner_share >= least_share else []
        if outer_share >= least_share:
            held = {entry.definition for entry in inner}
            weighed += [Meaning(place, how, outer_share) for place, how in found if place not in held]
        return weighed

    def addressed(self, key: str, document: int) -> tuple[int, ...]:
        """The documents (their places) that an address can mean where `document` links to it."""
        return self._addresses.resolve(key, document)

    def candidates_of(self, document_id: str, key: str) -> list[tuple[str, Definition, How, float]]:
        """What a name can mean, by ids: the defining document's id, the definition, by which rule, and its share."""
        document = self._places[document_id]
        told = [
            (self.definitions[place], how, share)
            for place, how, share in self.meanings(self.found(key, document), document)
        ]
        return [(self._documents[entry.document].document_id, entry, how, share) for entry, how, share in told]

    def _near_documents(self, document: int) -> frozenset[int]:
        """The document itself, and those that define what it imports."""
        known = self._near.get(document)
        if known is None:
            imported = {
                self.definitions[place].document
                for edge in self._documents[document].edges
                if edge.type is EdgeType.REFERS_TO and edge.origin in _SURE and _is_named(edge)
                for place, how in self._names.resolve(edge.target.key, document)
                if how is not How.NAME
            }
            known = self._near[document] = frozenset({document, *imported})
        return known

    def _bonds(self, *kinds: EdgeType) -> list[Bond]:
        return [
            Bond(edge.source.key, edge.target.key, place)
            for place, row in enumerate(self._documents)
            for edge in row.edges
            if edge.type in kinds
        ]


def _shared_out(found: Sequence[Found]) -> list[Meaning]:
    """Equal shares for all that a name can mean; the methods of subclasses have a smaller one among them."""
    overrides = sum(entry.how is How.OVERRIDE for entry in found)
    others = len(found) - overrides
    each = (1 - _OVERRIDE_SHARE if overrides else 1.0) / max(1, others)
    override = (_OVERRIDE_SHARE if others else 1.0) / max(1, overrides)
    return [Meaning(place, how, override if how is How.OVERRIDE else each) for place, how in found]


def _is_named(edge: Edge) -> bool:
    return edge.target.label in (NodeLabel.SYMBOL, NodeLabel.TOOL)
