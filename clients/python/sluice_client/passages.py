"""What the retrievers of LangChain and LlamaIndex share: the call, and the passages of its answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sluice_client.errors import TimedOut
from sluice_client.models import Retrieval, RetrievedChunk, RunAccepted, RunView


def found_by(ask: bool, query: str, corpus: str, top_k: int, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the client's method and its arguments."""
    return "gate" if ask else "query", {"query": query, "corpus": corpus, "top_k": top_k, **options}


def passages_of(found: Retrieval | RunView | RunAccepted) -> Iterator[tuple[RetrievedChunk, str | None]]:
    """Yield the passages of an answer, with the id of its run. Raises `TimedOut` if the run is not finished."""
    if isinstance(found, RunAccepted):
        raise TimedOut(f"the run {found.run_id} is not finished: ask with a later deadline_seconds")
    if isinstance(found, Retrieval):
        yield from ((chunk, None) for chunk in found.chunks)
    elif found.answer:
        yield from ((chunk, found.run_id) for chunk in found.answer.chunks)


def metadata_of(chunk: RetrievedChunk, run_id: str | None) -> dict[str, Any]:
    """Return where a passage is from and how it was ranked, without what is not known."""
    known = {
        "document_id": chunk.document_id,
        "chunk_id": chunk.chunk_id,
        "url": chunk.url,
        "file_path": chunk.file_path,
        "title": chunk.title,
        "start_line": chunk.start_line,
        "end_line": chunk.end_line,
        "section": " > ".join(chunk.section_path) or None,
        "score": chunk.fused_score,
        "rank": chunk.rank,
        "trust": chunk.trust,
        "fetched_at": chunk.provenance.fetched_at.isoformat(),
        "run_id": run_id,
    }
    return {**chunk.metadata, **{name: value for name, value in known.items() if value is not None}}
