"""Text that may not be shown: a page with `nosnippet` is ranked by its text and cited by title and address alone.

Applied to what the engine has ranked, last of all, so that the text has done its work: words, meaning, duplicates and
reranking are judged by it. With it go the headings above it and the names of code, which are text of the page too.
"""

from __future__ import annotations

from contracts.retrieval import Retrieval, RetrievedChunk


def without_nosnippet(found: Retrieval) -> Retrieval:
    """The same result without the text of chunks whose site asks that none be shown."""
    if not any(chunk.provenance.nosnippet for chunk in found.chunks):
        return found
    return found.model_copy(update={"chunks": tuple(map(_shown, found.chunks))})


def _shown(chunk: RetrievedChunk) -> RetrievedChunk:
    if not chunk.provenance.nosnippet:
        return chunk
    return chunk.model_copy(update={"text": "", "section_path": (), "symbol_path": None, "token_estimate": 0})
