"""From ranked chunks to the judged documents, each ranked by its best chunk."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from sluice.contracts.retrieval import RetrievedChunk


class Ranked(NamedTuple):
    """A document (or, where chunks were judged, a chunk) by the name that the case has for it."""

    name: str
    chunk: RetrievedChunk


def rank_documents(chunks: Sequence[RetrievedChunk], judged: Collection[str]) -> tuple[Ranked, ...]:
    """Best first, each name once, at its best rank.

    A chunk goes by its id, its URL, its path or its document's id, whichever was `judged`. What was not judged goes
    by its document's id, so that a document takes one place however many of its chunks were found; but by its own
    where a judged chunk was found, since chunks compete with chunks.
    """
    best: dict[str, Ranked] = {}
    for one in name_chunks(chunks, judged):
        best.setdefault(one.name, one)
    return tuple(best.values())


def name_chunks(chunks: Sequence[RetrievedChunk], judged: Collection[str]) -> Iterator[Ranked]:
    """Every chunk in its order under the name that `rank_documents` has for it."""
    of_chunks = any(chunk.chunk_id in judged for chunk in chunks)
    return (Ranked(_name(chunk, judged, of_chunks), chunk) for chunk in chunks)


def _name(chunk: RetrievedChunk, judged: Collection[str], of_chunks: bool) -> str:
    for name in (chunk.chunk_id, chunk.url, chunk.file_path, chunk.document_id):
        if name is not None and name in judged:
            return name
    return chunk.chunk_id if of_chunks else chunk.document_id
