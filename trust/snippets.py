"""Short snippets: of a page whose site or licence asks for it, a few words are shown and the address to read on.

A site asks by `max-snippet:N` in its robots directives; an operator names licences in `trust.snippet_licences`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from sluice.contracts.document import Provenance, Scalar
from sluice.contracts.retrieval import Retrieval, RetrievedChunk
from sluice.text.words import estimate_tokens

MOST_CHARACTERS = 200
"""Of a text whose licence lets only a snippet be shown."""
_LEAST_TO_KEEP = 0.5
"""A cut is made at a word's end unless that would take more than this share of what may be shown."""


def snippet_length(provenance: Provenance, metadata: Mapping[str, Scalar], licences: Sequence[str]) -> int | None:
    """How many characters of a document's text may be shown; None for all of it."""
    licence = str(metadata.get("licence", "")).lower()
    is_listed = bool(licence) and any(fnmatchcase(licence, pattern.lower()) for pattern in licences)
    limits = [provenance.max_snippet, MOST_CHARACTERS if is_listed else None]
    return min((limit for limit in limits if limit is not None), default=None)


def shorten_snippets(found: Retrieval, licences: Sequence[str]) -> Retrieval:
    """Return the retrieval with the texts cut of which only a snippet may be shown, their address behind the cut."""
    chunks = tuple(shorten(chunk, snippet_length(chunk.provenance, chunk.metadata, licences)) for chunk in found.chunks)
    if all(after is before for after, before in zip(chunks, found.chunks, strict=True)):
        return found
    return found.model_copy(update={"chunks": chunks})


def shorten(chunk: RetrievedChunk, limit: int | None) -> RetrievedChunk:
    """The chunk with at most `limit` characters of its text, at a word's end, and its address; lines and spans fit."""
    if limit is None or len(chunk.text) <= limit:
        return chunk
    cut = cut_at_word(chunk.text, limit)
    text = f"{cut} … {chunk.url}" if chunk.url else f"{cut} …"
    changes: dict[str, object] = {
        "text": text,
        "end_line": min(chunk.end_line, chunk.start_line + cut.count("\n")),
        "token_estimate": min(chunk.token_estimate, estimate_tokens(text)),
    }
    if chunk.inspection:
        private = tuple(span for span in chunk.inspection.private if span.end <= len(cut))
        findings = tuple(
            one.model_copy(update={"start": min(one.start, len(cut)), "end": min(one.end, len(cut))})
            for one in chunk.inspection.findings
        )
        changes["inspection"] = chunk.inspection.model_copy(update={"private": private, "findings": findings})
    return chunk.model_copy(update=changes)


def cut_at_word(text: str, limit: int) -> str:
    """Return the first `limit` characters, without a word that they cut; of one long word all of them."""
    if len(text) <= limit:
        return text
    space = max(text.rfind(" ", 0, limit + 1), text.rfind("\n", 0, limit + 1))
    return text[: space if space > limit * _LEAST_TO_KEEP else limit].rstrip()
