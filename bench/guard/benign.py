"""Harmless texts: sets of chunks as ingestion makes them, so that warnings are counted for what is served."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path

from bench.guard.addressed_texts import ADDRESSED_TEXTS
from bench.guard.security_texts import SECURITY_TEXTS
from sluice.contracts.document import ChunkedDocument, Document, Provenance
from sluice.contracts.errors import InvalidInput
from sluice.ingest.chunk.chunk import chunk_document
from sluice.ingest.embed.minilm import ensure_model, load_tokenizer
from sluice.ingest.extract.extract import extract_document
from sluice.ingest.settings import ChunkSettings
from tests.support.repository import MODELS, REPOSITORY

Documents = list[ChunkedDocument]
PROVENANCE = Provenance(source="crawl", fetched_at=datetime(2026, 1, 1, tzinfo=UTC))
RETRIEVAL_SETS = ("squad20_dev", "cosqa_dev", "cacm", "scifact_train", "climate_fever_sent", "npl")
_SYSTEM_DOCS = Path("/usr/share/doc")


class Chunker:
    """Texts to chunked documents, by the project's own extraction and chunking."""

    def __init__(self) -> None:
        self._tokenizer = load_tokenizer(ensure_model(MODELS))

    def chunk(self, text: str, media_type: str, *, name: str, title: str | None = None) -> ChunkedDocument | None:
        """None where nothing of it can be read."""
        path = name if media_type == "text/x-python" else None
        document = Document(
            id=name, media_type=media_type, provenance=PROVENANCE, text=text, title=title, file_path=path
        )
        try:
            chunked = chunk_document(document, extract_document(document), ChunkSettings(), self._tokenizer)
        except InvalidInput:
            return None
        return chunked if chunked.chunks else None


def benign_sets(data: Path, chunker: Chunker, most_chunks: int) -> Iterator[tuple[str, Documents]]:
    """Each set by its name, of about `most_chunks` chunks. What is not installed is left out."""
    for name in RETRIEVAL_SETS:
        if (data / name).is_dir():
            yield name, _sample(_retrieval(data / name), chunker, most_chunks)
    for name, folder, pattern in (
        ("git-doc", _SYSTEM_DOCS / "git/html", "*.html"),
        ("python-doc", _SYSTEM_DOCS / "python3.11/html", "**/*.html"),
        ("debian-doc", _SYSTEM_DOCS, "*/README*"),
        ("licences", Path("/usr/share/common-licenses"), "*"),
        ("own-docs", REPOSITORY, "*.md"),
    ):
        files = sorted(path for path in folder.glob(pattern) if path.is_file() and path.suffix != ".gz")
        if name == "own-docs":
            files += sorted((REPOSITORY / "docs").rglob("*.md"))
        if files:
            yield name, _sample(_files(files), chunker, most_chunks)
    yield "package-readmes", _sample(_readmes(), chunker, most_chunks)
    for name, texts in (("security", SECURITY_TEXTS), ("addressed", ADDRESSED_TEXTS)):
        sources = ((f"{name}-{number}", text, "text/markdown") for number, text in enumerate(texts))
        yield name, _sample(sources, chunker, most_chunks)


Source = tuple[str, str, str]
"""Name, text, media type."""
_MOST_CHARS = 60_000
"""Of one document, so that no set is one book."""


def _sample(sources: Iterator[Source], chunker: Chunker, most: int) -> Documents:
    everything = list(sources)
    random.Random(7).shuffle(everything)
    documents: Documents = []
    count = 0
    for name, text, media_type in everything:
        if count >= most:
            break
        if chunked := chunker.chunk(text[:_MOST_CHARS], media_type, name=name):
            documents.append(chunked)
            count += len(chunked.chunks)
    return documents


def _retrieval(folder: Path) -> Iterator[Source]:
    with (folder / "corpus.jsonl").open() as lines:
        for line in lines:
            entry = json.loads(line)
            text = "\n\n".join(part for part in (entry.get("title"), entry["text"]) if part)
            kind = "text/x-python" if folder.name == "cosqa_dev" else "text/plain"
            yield f"{entry['_id']}.py" if kind == "text/x-python" else entry["_id"], text, kind


def _files(files: Sequence[Path]) -> Iterator[Source]:
    for path in files:
        kind = {".html": "text/html", ".md": "text/markdown"}.get(path.suffix, "text/plain")
        yield str(path), path.read_text("utf-8", "replace"), kind


def _readmes() -> Iterator[Source]:
    for package in sorted(distributions(), key=lambda one: one.metadata["Name"] or ""):
        text = str(package.metadata.get_payload())
        if len(text) > 500:
            kind = package.metadata.get("Description-Content-Type") or "text/plain"
            yield package.metadata["Name"], text, "text/markdown" if "markdown" in kind else "text/plain"
