"""Which documents a request to forget means."""

from __future__ import annotations

from sluice.contracts.operations.forget import Selection
from sluice.index.journal.document_facts import DocumentFacts
from sluice.index.search.filters import matches


def is_selected(facts: DocumentFacts, selection: Selection) -> bool:
    """Whether the document is among those that the selection means."""
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
