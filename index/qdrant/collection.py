"""The operations on a Qdrant collection: points, conditions, searches; as a Protocol.

A corpus is one collection with two vectors, `dense` (inner product of vectors of length 1) and `terms` (sparse, with
the `idf` modifier). `index.qdrant.server` sends them over HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sluice.index.qdrant.sparse_bm25 import Weights

DENSE = "dense"
TERMS = "terms"
KEYWORDS = ("kind", "document", "languages", "domains", "source", "metadata")
PREFIXED = ("url", "path")
NUMBERS = ("since", "until", "fetched_at", "ordinal")
"""The fields of a payload that conditions name, by their kind of index."""

Payload = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Point:
    """What is stored: a payload under an id (a UUID), with or without vectors."""

    id: str
    payload: Payload
    dense: Sequence[float] | None = None
    terms: Weights | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """What is found. `score` is 0 where nothing was ranked."""

    id: str
    score: float
    payload: Payload
    dense: Sequence[float] | None = None
    terms: Weights | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """Conditions that a point must all meet. `one_of`: the field is, or holds, one of the values."""

    one_of: tuple[tuple[str, tuple[str, ...]], ...] = ()
    prefixes: tuple[tuple[str, str], ...] = ()
    above: tuple[tuple[str, int], ...] = ()
    at_most: tuple[tuple[str, int], ...] = ()
    absent_or_above: tuple[tuple[str, int], ...] = ()
    ids: tuple[str, ...] | None = None

    def __and__(self, other: Condition) -> Condition:
        """Both."""
        both = self.ids if other.ids is None else other.ids
        if self.ids is not None and other.ids is not None:
            both = tuple(one for one in self.ids if one in other.ids)
        return Condition(
            self.one_of + other.one_of,
            self.prefixes + other.prefixes,
            self.above + other.above,
            self.at_most + other.at_most,
            self.absent_or_above + other.absent_or_above,
            both,
        )


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """One ranked search: by `dense` or by `terms`, among the points that meet `where`."""

    limit: int
    where: Condition
    dense: Sequence[float] | None = None
    terms: Weights | None = None
    fields: tuple[str, ...] = field(default=())
    """Fields of the payload to bring."""
    with_terms: bool = False
    """Whether to bring the sparse vector."""
