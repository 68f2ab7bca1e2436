"""Splits a document into the passages that are embedded, ranked and cited.

Promises: the same document gives the same chunks with the same ids; every word of the text is in a
chunk; no chunk is empty; a chunk and its breadcrumb fit the embedding model's window together; lines
are 1-based and inclusive in the chunked text (for source code, in the file itself). Of a document of more than
`max_document_tokens` only the beginning is chunked; `Chunked` gives the number of characters left out.

A text is encoded once for all counting. What fits is never split, so the splitters, which encode again, only see what
is too large.
"""

from __future__ import annotations

import hashlib
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from tokenizers import Tokenizer

from sluice.contracts.document import (
    Chunk,
    ChunkedDocument,
    Document,
    Provenance,
    Scalar,
    is_publication_date,
    sha256_text,
)
from sluice.ingest.chunk.code import Code, line_starts
from sluice.ingest.chunk.language import natural_language
from sluice.ingest.chunk.passage import Breadcrumbs, Passage, Places, bounded, trimmed
from sluice.ingest.chunk.prose import Prose, Splitters, sections_of
from sluice.ingest.embed.tokens import TokenSpans
from sluice.ingest.extract.extracted import Extracted
from sluice.ingest.settings import ChunkSettings

_CHARS_PER_TOKEN = 16
"""Most characters of a chunk per token of the limit: a line of base64 can be a single unknown token."""
MAX_FACT_CHARACTERS = 500
"""Longest licence or site name; anything longer is text, not a name, and would be returned with every result."""


class Chunked(NamedTuple):
    """A chunked document, and the number of its characters beyond the token limit, which are in no chunk."""

    document: ChunkedDocument
    characters_left_out: int


def chunk_document(
    document: Document, extracted: Extracted, settings: ChunkSettings, tokenizer: Tokenizer
) -> ChunkedDocument:
    """Split the text `extracted` from `document`. An empty text gives no chunks."""
    return chunk_to_limit(document, extracted, settings, tokenizer).document


def chunk_to_limit(document: Document, extracted: Extracted, settings: ChunkSettings, tokenizer: Tokenizer) -> Chunked:
    """Chunk like `chunk_document`, and say how much is left out."""
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
        chunks=tuple(chunks),
    )
    return Chunked(chunked, left_out)


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
) -> list[Chunk]:
    text = extracted.text
    lines = line_starts(text)
    places = Places(extracted)
    source = document.id if document.provenance.source == "submission" else document.source  # its URL is only claimed
    seen: Counter[str] = Counter()
    chunks: list[Chunk] = []
    for passage in passages:
        part, tokens = _content(passage, text, spans)
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
        chunks.append(chunk)
    return chunks


def _content(passage: Passage, text: str, spans: TokenSpans) -> tuple[str, int]:
    """Return the passage's text and token count: those of the repeated lines before its own."""
    ranges = (*passage.heads, (passage.start, passage.end))
    return "\n".join(text[start:end] for start, end in ranges), sum(spans.count(*one) for one in ranges)


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
