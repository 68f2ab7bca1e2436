"""Removes the text of pages with `nosnippet`, which are ranked by their text and cited by title and address alone.

Applied last, after ranking, duplicates and reranking have used the text. Headings and symbol names are removed with
it, as they are text of the page too.
"""

from __future__ import annotations

from sluice.contracts.retrieval import Retrieval, RetrievedChunk


def hide_nosnippet_texts(found: Retrieval) -> Retrieval:
    """Copy the result without the text of chunks whose site asks that none be shown."""
    if not any(chunk.provenance.nosnippet for chunk in found.chunks):
        return found
    return found.model_copy(update={"chunks": tuple(map(_hide_text, found.chunks))})


def _hide_text(chunk: RetrievedChunk) -> RetrievedChunk:
    if not chunk.provenance.nosnippet:
        return chunk
    return chunk.model_copy(update={"text": "", "section_path": (), "symbol_path": None, "token_estimate": 0})
