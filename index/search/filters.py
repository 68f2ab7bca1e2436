"""Filters as masks of the rows of a segment that a query may find, computed before ranking.

Segments are immutable, so a segment's mask for a filter is computed once and kept with it.
"""

from __future__ import annotations

import numpy as np

from sluice.contracts.document import DocumentFacts, is_under, parse_host
from sluice.contracts.operations.forget import Selection
from sluice.contracts.retrieval import Filters
from sluice.index.generations.view import Masks, Part, View
from sluice.index.journal.records import document_key
from sluice.index.segments.segment import Mask, Segment

_NO_CONDITION = Filters()
_MOST_MASKS = 32
"""Number of masks kept with a segment, each one byte per chunk."""


def find_masks(view: View, filters: Filters) -> Masks:
    """Find the mask, for each segment, of live rows that meet every condition; None where all do."""
    if not has_conditions(filters):
        return view.live_masks()
    name = filters.model_dump_json()
    return [_find_mask(part, filters, name) for part in view.parts]


def _find_mask(part: Part, filters: Filters, name: str) -> Mask:
    masks = part.segment.masks
    mask = masks.get(name)
    if mask is None:
        if len(masks) >= _MOST_MASKS:
            masks.clear()
        mask = masks[name] = find_matching_rows(part.segment, filters)
    return mask if part.alive is None else mask & part.alive


def has_conditions(filters: Filters) -> bool:
    """Return whether the filters have any condition."""
    return filters != _NO_CONDITION


def find_matching_rows(segment: Segment, filters: Filters) -> Mask:
    """Return the rows of a segment that meet every condition, dead or live: bool (rows,)."""
    if filters.document_ids:
        allowed = _rows_of_documents(segment, filters.document_ids)
    else:
        allowed = np.ones(len(segment.numbers), dtype=np.bool_)
    if filters.languages:
        allowed &= np.isin(segment.languages, [language.lower() for language in filters.languages])
    if _looks_at_facts(filters) and allowed.any():
        allowed &= segment.allowed(lambda facts: matches(facts, filters))
    return allowed


def matches(facts: DocumentFacts, filters: Filters) -> bool:
    """Return whether a document meets every condition except language, which belongs to each chunk."""
    provenance = facts.provenance
    return (
        (not filters.document_ids or facts.document_id in filters.document_ids)
        and (filters.url_prefix is None or (facts.url or "").startswith(filters.url_prefix))
        and (filters.path_prefix is None or (facts.file_path or "").startswith(filters.path_prefix))
        and (not filters.domains or is_under(parse_host(facts.url), filters.domains))
        and (not filters.sources or provenance.source in filters.sources)
        and (filters.fetched_after is None or provenance.fetched_at > filters.fetched_after)
        and all(_holds(facts, name, value) for name, value in filters.metadata.items())
    )


def _holds(facts: DocumentFacts, name: str, value: object) -> bool:
    """Return whether the metadata value is equal in value and in kind: `True` is not `1`."""
    found = facts.metadata.get(name)
    return found == value and isinstance(found, bool) == isinstance(value, bool)


def _looks_at_facts(filters: Filters) -> bool:
    return filters.model_copy(update={"languages": (), "document_ids": ()}) != _NO_CONDITION


def _rows_of_documents(segment: Segment, document_ids: tuple[str, ...]) -> Mask:
    allowed = np.zeros(len(segment.numbers), dtype=np.bool_)
    for document_id in document_ids:
        for document in segment.find_document(document_key(document_id)):
            rows = segment.rows_of(document)
            allowed[rows.start : rows.stop] = True
    return allowed


def is_selected(facts: DocumentFacts, selection: Selection) -> bool:
    """Return whether the document belongs to the selection."""
    provenance = facts.provenance
    if selection.filters is not None:
        languages = [language.lower() for language in selection.filters.languages]
        speaks = not languages or (facts.language or "").lower() in languages
        return speaks and matches(facts, selection.filters)
    return (
        (selection.url is not None and facts.url == selection.url)
        or (selection.url_prefix is not None and (facts.url or "").startswith(selection.url_prefix))
        or (selection.document_id is not None and facts.document_id == selection.document_id)
        or (selection.run_id is not None and provenance.run_id == selection.run_id)
        or (selection.submitted_by is not None and provenance.submitted_by == selection.submitted_by)
    )
