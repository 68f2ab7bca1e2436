"""Conditions on documents: as masks of the rows of a segment that a query may find, and on one document's facts.

Segments are immutable, so a segment's mask for a condition is computed once and kept with it. Trust depends on a
document's age: a mask by trust is that of the day.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import reduce
from typing import Any

import numpy as np

from sluice.contracts.document import DocumentFacts, TrustScorer, is_under, parse_host
from sluice.contracts.filters import METADATA, Where, kind_of, moment_of
from sluice.contracts.operations.forget import Selection
from sluice.index.generations.view import Masks, Part, View
from sluice.index.journal.records import document_key
from sluice.index.segments.segment import Mask, Segment

_MOST_MASKS = 32
"""Number of masks kept with a segment, each one byte per chunk."""
OF_ROWS = frozenset({"language", "id"})
"""Fields that are compared for each row, or found without reading the documents."""

Matches = Callable[[DocumentFacts], bool]
GetValue = Callable[[DocumentFacts], Any]


def find_masks(view: View, where: Where | None, trust: TrustScorer | None, now: datetime) -> Masks:
    """Find the mask, for each segment, of live rows that meet the condition; None where all do."""
    if where is None:
        return view.live_masks()
    name = where.model_dump_json()
    if "trust" in where.fields:
        name = f"{now.date()} {name}"
    return [_find_mask(part, where, name, trust, now) for part in view.parts]


def _find_mask(part: Part, where: Where, name: str, trust: TrustScorer | None, now: datetime) -> Mask:
    masks = part.segment.masks
    mask = masks.get(name)
    if mask is None:
        if len(masks) >= _MOST_MASKS:
            masks.clear()
        mask = masks[name] = find_matching_rows(part.segment, where, trust, now)
    return mask if part.alive is None else mask & part.alive


def find_matching_rows(segment: Segment, where: Where, trust: TrustScorer | None, now: datetime) -> Mask:
    """Return the rows of a segment that meet the condition, dead or live: bool (rows,)."""
    if where.fields.isdisjoint(OF_ROWS):
        return segment.allowed(matcher(where, trust, now))
    if where.none_of:
        return ~find_matching_rows(segment, where.none_of, trust, now)
    if where.parts:
        masks = (find_matching_rows(segment, part, trust, now) for part in where.parts)
        return reduce(operator.and_ if where.all_of else operator.or_, masks)
    if where.field == "language":
        spoken, rows = np.unique(segment.languages, return_inverse=True)
        is_meant = _tests(where, lambda facts: facts)
        return np.array([is_meant(str(one) or None) for one in spoken], dtype=np.bool_)[rows]
    comparisons = where.comparisons
    names = comparisons.get("in", (comparisons.get("eq"),))
    if comparisons.keys() <= {"in", "eq"} and len(comparisons) == 1:
        return _rows_of_documents(segment, names)
    return segment.allowed(matcher(where, trust, now))


def matcher(where: Where, trust: TrustScorer | None, now: datetime) -> Matches:
    """Return the test of one document by the condition; its language is the document's."""
    if where.none_of:
        inner = matcher(where.none_of, trust, now)
        return lambda facts: not inner(facts)
    if where.parts:
        parts = [matcher(part, trust, now) for part in where.parts]
        every = all if where.all_of else any
        return lambda facts: every(part(facts) for part in parts)
    if where.field == "trust":
        return _tests(where, lambda facts: score(facts, trust, now))
    return _tests(where, _getter(where.field or ""))


def score(facts: DocumentFacts, trust: TrustScorer | None, now: datetime) -> float:
    """Return the trust in a document's source now; 1 where none is scored."""
    return trust.score(facts.url, facts.provenance, "", now).score if trust else 1.0


_GETTERS: Mapping[str, GetValue] = {
    "id": lambda facts: facts.document_id,
    "url": lambda facts: facts.url,
    "path": lambda facts: facts.file_path,
    "title": lambda facts: facts.title,
    "domain": lambda facts: parse_host(facts.url),
    "language": lambda facts: facts.language and facts.language.lower(),
    **{
        name: operator.attrgetter(f"provenance.{name}")
        for name in ("source", "origin", "author", "run_id", "submitted_by", "fetched_at", "published_at")
    },
}


def _getter(field: str) -> GetValue:
    if field.startswith(METADATA):
        name = field.removeprefix(METADATA)
        return lambda facts: facts.metadata.get(name)
    return _GETTERS[field]


_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}


def _tests(where: Where, get: GetValue) -> Callable[[Any], bool]:
    """Return the test of what `get` gets by every comparison of the condition. None meets only that it be missing."""
    field = where.field or ""
    tests = [(name == "ne", _test(field, name, bound)) for name, bound in where.comparisons.items()]

    def holds(facts: Any) -> bool:
        value = get(facts)
        return all(test(value) is not is_negated for is_negated, test in tests)

    return holds


def _test(field: str, name: str, bound: Any) -> Callable[[Any], bool]:
    if name == "exists":
        return lambda value: (value is not None) is bound
    if field == "domain" and name in ("eq", "ne", "in"):
        domains = tuple(bound) if name == "in" else (bound,)
        return lambda value: is_under(value, domains)
    fold = str.lower if field == "language" else lambda one: one
    if kind_of(field) == "moment":
        fold = moment_of
    if name == "in":
        values = [fold(one) for one in bound]
        return lambda value: any(_equals(value, one) for one in values)
    value_of_bound = fold(bound)
    if name in ("eq", "ne"):
        return lambda value: _equals(value, value_of_bound)
    if name in _ORDERS:
        order = _ORDERS[name]
        return lambda value: _are_ordered(value, value_of_bound) and order(value, value_of_bound)
    if name == "prefix":
        return lambda value: isinstance(value, str) and value.startswith(value_of_bound)
    text = bound.casefold()
    return lambda value: isinstance(value, str) and text in value.casefold()


def _equals(value: object, bound: object) -> bool:
    """Return whether they are equal in value and in kind: `True` is not `1`."""
    return value == bound and isinstance(value, bool) == isinstance(bound, bool)


def _are_ordered(value: object, bound: object) -> bool:
    numbers = (int, float)
    if isinstance(value, bool) or value is None:
        return False
    return (isinstance(value, numbers) and isinstance(bound, numbers)) or type(value) is type(bound)


def _rows_of_documents(segment: Segment, document_ids: tuple[str, ...]) -> Mask:
    allowed = np.zeros(len(segment.numbers), dtype=np.bool_)
    for document_id in document_ids:
        for document in segment.find_document(document_key(document_id)):
            rows = segment.rows_of(document)
            allowed[rows.start : rows.stop] = True
    return allowed


def selector(selection: Selection, trust: TrustScorer | None = None, now: datetime | None = None) -> Matches:
    """Return the test whether a document belongs to the selection; `trust` scores a condition's `trust`."""
    if selection.condition is None:
        return lambda facts: True
    return matcher(selection.condition, trust, now or datetime.now(UTC))
