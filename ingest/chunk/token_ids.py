"""Carries token ids from the chunker to the embedder, so that the embedder need not tokenise again."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise

import numpy as np

from sluice.contracts.document import Chunk, ChunkBatch, TokenIds
from sluice.contracts.errors import Corrupted
from sluice.ingest.chunk.chunk import Tokenized
from sluice.ingest.embed.tokens import TokenizedText

_LARGEST_ID = 0xFFFF
_UNKNOWN = -1


def chunk_batch(documents: Sequence[Tokenized], tokenizer_sha256: str) -> ChunkBatch:
    """Return the documents of one event with their token ids, as the embedder reads them."""
    rows = [_carried(ids) for document in documents for ids in document.ids]
    tokens = TokenIds(
        tokenizer_sha256=tokenizer_sha256,
        counts=tuple(_UNKNOWN if row is None else len(row) for row in rows),
        ids=base64.b64encode(b"".join(_bytes(row) for row in rows if row is not None)),
    )
    return ChunkBatch(documents=tuple(document.document for document in documents), tokens=tokens)


def tokenized_texts(chunked: Tokenized, tokenizer_sha256: str) -> list[str]:
    """Return the embedding text of each chunk of one document, with its ids where they are known."""
    return [
        text if ids is None else TokenizedText.of(text, ids, tokenizer_sha256)
        for text, ids in zip(chunked.document.embedding_texts(), chunked.ids, strict=True)
    ]


def embedding_texts(batch: ChunkBatch) -> list[str]:
    """Return the embedding text of each chunk of `batch`, with its ids where the batch has them.

    Raises Corrupted if the batch's ids do not match the number of texts.
    """
    texts = [text for document in batch.documents for text in document.embedding_texts()]
    if batch.tokens is None:
        return texts
    return list(_with_ids(texts, batch.tokens))


def select_chunks(batch: ChunkBatch, is_kept: Callable[[Chunk], bool]) -> ChunkBatch:
    """Return the batch with only the kept chunks and their token ids; drops documents without a kept chunk.

    Raises Corrupted if the batch's ids do not match the number of texts.
    """
    kept = [is_kept(chunk) for document in batch.documents for chunk in document.chunks]
    if all(kept):
        return batch
    documents = (
        document.model_copy(update={"chunks": tuple(chunk for chunk in document.chunks if is_kept(chunk))})
        for document in batch.documents
    )
    tokens = batch.tokens and _select_ids(batch.tokens, kept)
    return ChunkBatch(documents=tuple(document for document in documents if document.chunks), tokens=tokens)


def _select_ids(tokens: TokenIds, kept: Sequence[bool]) -> TokenIds:
    _check_sizes(tokens, len(kept))
    ends = [*accumulate((2 * max(0, count) for count in tokens.counts), initial=0)]
    pieces = (tokens.ids[start:end] for (start, end), keep in zip(pairwise(ends), kept, strict=True) if keep)
    return TokenIds(
        tokenizer_sha256=tokens.tokenizer_sha256,
        counts=tuple(count for count, keep in zip(tokens.counts, kept, strict=True) if keep),
        ids=base64.b64encode(b"".join(pieces)),
    )


def _check_sizes(tokens: TokenIds, text_count: int) -> None:
    if len(tokens.counts) != text_count or 2 * sum(max(0, count) for count in tokens.counts) != len(tokens.ids):
        raise Corrupted(f"{len(tokens.ids)} bytes of token ids for {text_count} texts are not what their counts say")


def _with_ids(texts: Sequence[str], tokens: TokenIds) -> Iterable[str]:
    _check_sizes(tokens, len(texts))
    sizes = [max(0, count) for count in tokens.counts]
    ids = np.frombuffer(tokens.ids, dtype="<u2")
    borders = pairwise(accumulate(sizes, initial=0))
    for text, count, (start, end) in zip(texts, tokens.counts, borders, strict=True):
        yield text if count == _UNKNOWN else TokenizedText.of(text, ids[start:end].tolist(), tokens.tokenizer_sha256)


def _carried(ids: Sequence[int] | None) -> Sequence[int] | None:
    """Return None for ids that do not fit two bytes."""
    return None if ids is None or max(ids, default=0) > _LARGEST_ID else ids


def _bytes(ids: Sequence[int]) -> bytes:
    return np.array(ids, dtype="<u2").tobytes()
