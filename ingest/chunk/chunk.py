"""Splits a document into the passages that are embedded, ranked and cited.

Promises: the same document gives the same chunks with the same ids; every word of the text is in a
chunk; no chunk is empty; a chunk and its breadcrumb fit the embedding model's window together; lines
are 1-based and inclusive in the chunked text (for source code, in the file itself). Of a document of more than
`max_document_tokens` only the beginning is chunked; `Tokenized` gives the number of characters left out.

A text is encoded once for all counting, and the ids of its chunks come from that encoding. What fits is never
split, so the splitters, which encode again, only see what is too large. `chunk_batch` and `embedding_texts` carry these
ids to the embedder, so that it need not tokenise again.
"""

from __future__ import annotations

import base64
import hashlib
import unicodedata
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import TypeAlias

import numpy as np
from tokenizers import Tokenizer

from sluice.contracts.document import (
    Chunk,
    ChunkBatch,
    ChunkedDocument,
    Document,
    Provenance,
    Scalar,
    TokenIds,
    embedding_text,
    is_publication_date,
    sha256_text,
)
from sluice.contracts.errors import Corrupted
from sluice.ingest.chunk.code import Code, line_starts
from sluice.ingest.chunk.language import natural_language
from sluice.ingest.chunk.passage import Breadcrumbs, Passage, Places, bounded, trimmed
from sluice.ingest.chunk.prose import Prose, Splitters, sections_of
from sluice.ingest.embed.tokens import TokenizedText, TokenSpans
from sluice.ingest.extract.extracted import Extracted
from sluice.ingest.settings import ChunkSettings

_CHARS_PER_TOKEN = 16
"""Most characters of a chunk per token of the limit: a line of base64 can be a single unknown token."""
MAX_FACT_CHARACTERS = 500
"""Longest licence or site name; anything longer is text, not a name, and would be returned with every result."""

Ids: TypeAlias = "array[int] | None"
"""Token ids of one text, without special tokens; None if only tokenising the text can give them."""


@dataclass(frozen=True, slots=True)
class Tokenized:
    """A chunked document, with the token ids of each chunk's embedding text.

    `characters_left_out` counts the characters beyond the token limit of a document, which are in no chunk.
    """

    document: ChunkedDocument
    ids: tuple[Ids, ...]
    characters_left_out: int = 0


def chunk_document(
    document: Document, extracted: Extracted, settings: ChunkSettings, tokenizer: Tokenizer
) -> ChunkedDocument:
    """Split the text `extracted` from `document`. An empty text gives no chunks."""
    return chunk_and_tokenize(document, extracted, settings, tokenizer).document


def chunk_and_tokenize(
    document: Document, extracted: Extracted, settings: ChunkSettings, tokenizer: Tokenizer
) -> Tokenized:
    """Chunk like `chunk_document`, with ids that equal those of `tokenizer` for `document.embedding_texts()`."""
    title = document.title or extracted.title
    breadcrumbs = Breadcrumbs(title, settings, tokenizer)
    language = extracted.code_language or extracted.language or natural_language(extracted.text)
    spans = TokenSpans(extracted.text, tokenizer, settings.max_document_tokens)
    left_out = len(extracted.text) - spans.end
    if left_out:
        extracted = replace(extracted, text=extracted.text[: spans.end])
    splitters = _splitters(tokenizer)
    chunks = _chunks(
        document, extracted, language, _passages(extracted, spans, breadcrumbs, settings, splitters), breadcrumbs, spans
    )
    chunked = ChunkedDocument(
        document_id=document.id,
        checksum=sha256_text(f"{normalised(title or '')}\n{normalised(extracted.text)}"),
        url=document.url,
        file_path=document.file_path,
        title=breadcrumbs.title,
        language=language,
        metadata=_metadata(document.metadata, extracted),
        provenance=_provenance(document.provenance, extracted),
        chunks=tuple(chunk for chunk, _ in chunks),
    )
    return Tokenized(chunked, _embedding_ids(chunks, chunked.title, tokenizer), left_out)


def _embedding_ids(chunks: Sequence[tuple[Chunk, Ids]], title: str | None, tokenizer: Tokenizer) -> tuple[Ids, ...]:
    """Return each chunk's heading ids followed by its text ids, since a line break separates words."""
    of_headings = {"": array("I")}
    found: list[Ids] = []
    for chunk, ids in chunks:
        heading = embedding_text(title, chunk).removesuffix(chunk.text)
        if heading not in of_headings:
            of_headings[heading] = array("I", tokenizer.encode(heading, add_special_tokens=False).ids)
        found.append(None if ids is None else of_headings[heading] + ids)
    return tuple(found)


def normalised(text: str) -> str:
    """Return `text` in NFC with runs of white space collapsed, so that two spellings of a passage compare equal."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def chunk_id_for(source: str, normalised_text: str, occurrence: int) -> str:
    """Return 32 hex characters of SHA-256 over the source, the passage and its earlier occurrences in the document."""
    key = f"{source}\0{normalised_text}\0{occurrence}"
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _chunks(
    document: Document,
    extracted: Extracted,
    language: str | None,
    passages: Iterable[Passage],
    breadcrumbs: Breadcrumbs,
    spans: TokenSpans,
) -> list[tuple[Chunk, Ids]]:
    """Return the chunks, each with the ids of its text alone."""
    text = extracted.text
    lines = line_starts(text)
    places = Places(extracted)
    source = document.id if document.provenance.source == "submission" else document.source  # its URL is only claimed
    seen: Counter[str] = Counter()
    chunks: list[tuple[Chunk, Ids]] = []
    for passage in passages:
        part, tokens, ids = _content(passage, text, spans)
        identity = normalised(part)
        chunk = Chunk(
            chunk_id=chunk_id_for(source, identity, seen[identity]),
            document_id=document.id,
            ordinal=len(chunks),
            text=part,
            start_line=bisect_right(lines, passage.start),
            end_line=bisect_right(lines, passage.end - 1),
            section_path=breadcrumbs.path(passage.section_path),
            symbol_path=passage.symbol_path,
            language=language,
            token_estimate=tokens,
            checksum=sha256_text(part),
            anchor=places.anchor(passage),
            page=places.page(passage),
            links=places.links(passage, lines),
        )
        seen[identity] += 1
        chunks.append((chunk, ids))
    return chunks


def _content(passage: Passage, text: str, spans: TokenSpans) -> tuple[str, int, Ids]:
    """Return the passage's text, token count and ids: those of the repeated lines before its own."""
    ranges = (*passage.heads, (passage.start, passage.end))
    found = [spans.ids(*one) for one in ranges]
    ids = [each for each in found if each is not None]
    return (
        "\n".join(text[start:end] for start, end in ranges),
        sum(spans.count(*one) for one in ranges),
        sum(ids, array("I")) if len(ids) == len(found) else None,
    )


def _passages(
    extracted: Extracted, spans: TokenSpans, breadcrumbs: Breadcrumbs, settings: ChunkSettings, splitters: Splitters
) -> Iterator[Passage]:
    text, language = extracted.text, extracted.code_language
    if language:
        found = Code(text, language, spans, breadcrumbs).passages(settings.code_pack_tokens)
    else:
        prose = Prose(text, extracted.form, spans, breadcrumbs, splitters)
        found = prose.passages(sections_of(text, extracted.form))
    found = bounded(found, text, _CHARS_PER_TOKEN * settings.max_tokens)
    return trimmed(found, text, keep_indent=language is not None)


@lru_cache(maxsize=4)
def _splitters(tokenizer: Tokenizer) -> Splitters:
    return Splitters(tokenizer)


def _metadata(given: dict[str, Scalar], extracted: Extracted) -> dict[str, Scalar]:
    """Return the metadata submitted with the document, plus the document's own `licence` and `site_name`.

    They are metadata, not provenance, because queries filter by metadata. Linked data is not kept: its
    useful facts (title, author, date, licence) were extracted from it, and the raw page has the rest.
    """
    said = {"licence": extracted.licence, "site_name": extracted.site_name}
    return {name: fact[:MAX_FACT_CHARACTERS] for name, fact in said.items() if fact} | given


def _provenance(provenance: Provenance, extracted: Extracted) -> Provenance:
    """Fill missing provenance with the facts that the document states about itself."""
    facts: dict[str, object] = {"author": extracted.author}
    if is_publication_date(extracted.published_at, provenance.fetched_at):
        facts["published_at"] = extracted.published_at
    missing = {name: fact for name, fact in facts.items() if fact and getattr(provenance, name) is None}
    return provenance.model_copy(update=missing) if missing else provenance


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
