"""Short snippets: where a page's site or licence requires it, only a few words and the page's address are shown.

A site requires it by `max-snippet:N` in its robots directives; an operator names licences in `trust.snippet_licences`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from sluice.contracts.document import Provenance, Scalar
from sluice.contracts.retrieval import Retrieval, RetrievedChunk
from sluice.text.words import estimate_tokens

MOST_CHARACTERS = 200
"""Most characters shown of a text whose licence allows only a snippet."""
_LEAST_TO_KEEP = 0.5
"""Share of the allowed length that a cut at a word's end must keep; otherwise the cut is made within the word."""


def snippet_length(provenance: Provenance, metadata: Mapping[str, Scalar], licences: Sequence[str]) -> int | None:
    """Return the number of characters of a document's text that may be shown; None for all of it."""
    licence = str(metadata.get("licence", "")).lower()
    is_listed = bool(licence) and any(fnmatchcase(licence, pattern.lower()) for pattern in licences)
    limits = [provenance.max_snippet, MOST_CHARACTERS if is_listed else None]
    return min((limit for limit in limits if limit is not None), default=None)


def shorten_snippets(found: Retrieval, licences: Sequence[str]) -> Retrieval:
    """Return the retrieval with the texts cut to snippets where required, each followed by its address."""
    chunks = tuple(shorten(chunk, snippet_length(chunk.provenance, chunk.metadata, licences)) for chunk in found.chunks)
    if all(after is before for after, before in zip(chunks, found.chunks, strict=True)):
        return found
    return found.model_copy(update={"chunks": chunks})


def shorten(chunk: RetrievedChunk, limit: int | None) -> RetrievedChunk:
    """Return the chunk cut to `limit` characters at a word's end, plus its address; lines and spans adapted."""
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
    """Return the first `limit` characters, without a word cut at the end, unless it is long."""
    if len(text) <= limit:
        return text
    space = max(text.rfind(" ", 0, limit + 1), text.rfind("\n", 0, limit + 1))
    return text[: space if space > limit * _LEAST_TO_KEEP else limit].rstrip()
