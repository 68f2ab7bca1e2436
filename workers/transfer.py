"""Exports a corpus to one file and imports it again, in parts, so that neither is ever whole in memory.

An export becomes visible under its name only when it is complete and flushed. An import hands the parts of the file to
the stages that index any other document: what this instance exported keeps its vectors, what was uploaded is inspected
and embedded as if it had just been chunked. Either may run again at any point.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Protocol

import numpy as np
import zstandard
from pydantic import ValidationError

from sluice.contracts.document import ChunkBatch, ChunkedDocument, DocumentFacts
from sluice.contracts.errors import Corrupted, InvalidInput, NotFound
from sluice.contracts.event import Body, Done, Event, Next, Outcome
from sluice.contracts.ingest import ChunksEmbedded, ChunksPartlyEmbedded, DocumentChunked
from sluice.contracts.operations.transfer import (
    ARTEFACTS,
    DOCUMENTS,
    MANIFEST,
    UPLOADED,
    VECTORS,
    CorpusExported,
    ExportDirected,
    ExportManifest,
    ImportDirected,
)
from sluice.disk.durable import fsync_path
from sluice.workers.runtime.blob_store import BlobStore
from sluice.workers.runtime.claims import check_cancelled
from sluice.workers.runtime.observers import utc_now
from sluice.workers.settings import Settings
from sluice.workers.wiring.corpora import CorpusReaders, Reader
from sluice.workers.wiring.models import EmbeddingService

CHUNKS_AT_ONCE = 1_000
"""Chunks from which on a part of an import is whole: some seconds' work of its own."""
LONGEST_LINE = 256 * 1024 * 1024
"""Most characters of a document's line: what one submission may hold, several times over."""
MOST_MANIFEST_BYTES = 1_000_000


class Embedder(Protocol):
    """What an import needs of the embed stage."""

    @property
    def embedding(self) -> EmbeddingService:
        """The corpora's models."""

    def following(self, body: Body, texts: Sequence[str], event: Event) -> Next:
        """Return the event that follows once a part of a batch is embedded."""


def artefact_path(data_dir: Path, artefact_id: str) -> Path:
    """Return the path of an artefact, whose id was checked."""
    return data_dir / ARTEFACTS / f"{artefact_id}.tar"


def on_export_directed(event: Event, readers: CorpusReaders, settings: Settings) -> Outcome:
    """Write the served corpus to the artefact. A second run writes it anew."""
    directed = event.body_as(ExportDirected)
    path = artefact_path(settings.data_dir, directed.artefact_id)
    manifest = export(readers.existing(event.corpus).pin(), event.corpus, path)
    told = CorpusExported(artefact_id=directed.artefact_id, bytes=path.stat().st_size, manifest=manifest)
    return Done((Next(told, f"exported:{directed.artefact_id}"),))


def export(reader: Reader, corpus: str, path: Path) -> ExportManifest:
    """Write what `reader`, which is pinned, serves to a tar at `path`. Raises `Fenced` if the run was cancelled."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    stats = reader.stats()
    documents = chunks = dimension = 0
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".export-") as folder:
        lines, rows = Path(folder) / DOCUMENTS, Path(folder) / VECTORS
        with zstandard.open(lines, "wb") as out, zstandard.open(rows, "wb") as vectors_out:
            for _, facts in reader.listed("by_id"):
                check_cancelled()
                own, vectors = reader.chunks(facts.document_id), reader.vectors(facts.document_id)
                if vectors is None or len(vectors) != len(own):
                    raise Corrupted(f"document {facts.document_id} has {len(own)} chunks and other vectors")
                out.write(ChunkedDocument(**dict(facts), chunks=own).model_dump_json().encode() + b"\n")
                vectors_out.write(np.ascontiguousarray(vectors, dtype="<f4").tobytes())
                documents, chunks = documents + 1, chunks + len(own)
                dimension = vectors.shape[1] if len(own) else dimension
        manifest = ExportManifest(
            corpus=corpus,
            exported_at=utc_now(),
            generation=stats.generation,
            journal_offset=stats.journal_offset,
            documents=documents,
            chunks=chunks,
            model=stats.model_fingerprint,
            dimension=dimension,
            files={},
        )
        return pack(Path(folder), manifest, path)


def pack(folder: Path, manifest: ExportManifest, path: Path) -> ExportManifest:
    """Write the two files in `folder` to a tar at `path`; return the manifest with their hashes."""
    lines, rows, packed = folder / DOCUMENTS, folder / VECTORS, folder / "whole"
    files = {one.name: _sha256_in(one.open("rb")) for one in (lines, rows)}
    manifest = manifest.model_copy(update={"files": files})
    with tarfile.open(packed, "w") as tar:
        told = manifest.model_dump_json(indent=2).encode()
        head = tarfile.TarInfo(MANIFEST)
        head.size = len(told)
        tar.addfile(head, io.BytesIO(told))
        for one in (lines, rows):
            tar.add(one, one.name, filter=_anonymous)
    keep(packed, path)
    return manifest


def keep(written: Path, path: Path) -> None:
    """Give a whole file its name, durably."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fsync_path(written)
    os.replace(written, path)
    fsync_path(path.parent)


def read_manifest(path: Path) -> ExportManifest:
    """Return the manifest of an artefact. Raises `NotFound` without it, and `InvalidInput` if it is no export."""
    try:
        with tarfile.open(path, "r:") as tar:
            return ExportManifest.model_validate_json(_member(tar, MANIFEST).read(MOST_MANIFEST_BYTES))
    except FileNotFoundError as error:
        raise NotFound(f"there is no artefact {path.stem!r}") from error
    except (tarfile.TarError, Corrupted, ValidationError) as error:
        raise InvalidInput("body", f"is no export of a corpus: {error}", "export one, and upload it whole") from error


def on_import_directed(
    event: Event, readers: CorpusReaders, embedder: Embedder, blobs: BlobStore, settings: Settings
) -> Outcome:
    """Direct the indexing of the artefact's documents, part by part. A second run directs the same.

    Vectors are used if this instance exported them, and with the corpus's own model. A second index gets its own.
    """
    directed = event.body_as(ImportDirected)
    path, manifest = artefact_path(settings.data_dir, directed.artefact_id), directed.manifest
    check_hashes(path, manifest)
    model, fallback = readers.reader(event.corpus).model_fingerprint, readers.fallback_model(event.corpus)
    is_own = not directed.artefact_id.startswith(UPLOADED)
    has_vectors = is_own and manifest.model == (model or embedder.embedding.fingerprint(event.corpus))
    directed_next = list[Next]()
    for batch, vectors in read_batches(path, manifest):
        check_cancelled()
        batch = batch if is_own else _as_claimed(batch, event.run_id)
        blob = blobs.put(batch.model_dump_json().encode())
        if not has_vectors:
            directed_next.append(Next(DocumentChunked.of(batch, blob)))
            continue
        embedded = ChunksEmbedded(
            chunks_blob=blob,
            vectors_blob=blobs.put(vectors),
            model_fingerprint=manifest.model or "",
            dimension=max(1, manifest.dimension),
            chunk_count=len(batch.embedding_texts()),
        )
        directed_next.append(Next(embedded))
        if fallback is not None:
            own = ChunksPartlyEmbedded(chunks_blob=blob, model_fingerprint=fallback)
            directed_next.append(embedder.following(own, batch.embedding_texts(), event))
    return Done(tuple(directed_next))


def _as_claimed(batch: ChunkBatch, run_id: str) -> ChunkBatch:
    """Return documents of another instance without what only this one can know: inspections, keys and operators."""
    unknown = {"run_id": run_id, "submitted_by": None, "signed_by": None, "by_operator": False}

    def claimed(document: ChunkedDocument) -> ChunkedDocument:
        chunks = tuple(chunk.model_copy(update={"inspection": None}) for chunk in document.chunks)
        provenance = document.provenance.model_copy(update=unknown)
        return document.model_copy(update={"chunks": chunks, "provenance": provenance, "inspected_by": None})

    return batch.model_copy(update={"documents": tuple(map(claimed, batch.documents))})


def artefacts_with(data_dir: Path, corpus: str, is_meant: Callable[[DocumentFacts], bool]) -> Iterator[Path]:
    """Yield the exports of a corpus, and the uploads, that hold a meant document. Reads them whole."""
    for path in sorted((data_dir / ARTEFACTS).glob("[au]??_*.tar")):
        try:
            manifest = read_manifest(path)
            is_of_corpus = path.name.startswith(UPLOADED) or manifest.corpus == corpus
            batches = read_batches(path, manifest) if is_of_corpus else ()
            if any(is_meant(document) for batch, _ in batches for document in batch.documents):
                yield path
        except NotFound:  # removed meanwhile
            continue


def check_hashes(path: Path, manifest: ExportManifest) -> None:
    """Raise `Corrupted` unless the artefact's files are those that its manifest names."""
    with tarfile.open(path, "r:") as tar:
        for name in (DOCUMENTS, VECTORS):
            if manifest.files.get(name) != _sha256_in(_member(tar, name)):
                raise Corrupted(f"{name} of artefact {path.stem} is not what its manifest says")


def read_batches(path: Path, manifest: ExportManifest) -> Iterator[tuple[ChunkBatch, bytes]]:
    """Yield the documents of an artefact with the bytes of their vectors, some at a time. Raises `Corrupted` if they
    do not fit one another or the manifest."""
    with tarfile.open(path, "r:") as first, tarfile.open(path, "r:") as second:
        lines, rows = _unpacked(first, DOCUMENTS), _unpacked(second, VECTORS)
        documents, chunks, left = list[ChunkedDocument](), 0, manifest.documents
        while (line := lines.readline(LONGEST_LINE)) or documents:
            if line:
                try:
                    documents.append(ChunkedDocument.model_validate_json(line))
                except ValidationError as error:
                    raise Corrupted(f"artefact {path.stem} holds a line that is no document: {error}") from error
                chunks += max(1, len(documents[-1].chunks))
                left -= 1
            if chunks < CHUNKS_AT_ONCE and line:
                continue
            byte_count = 4 * manifest.dimension * sum(len(one.chunks) for one in documents)
            vectors = rows.read(byte_count)
            if left < 0 or len(vectors) != byte_count:
                raise Corrupted(f"artefact {path.stem} has more documents or fewer vectors than its manifest says")
            yield ChunkBatch(documents=tuple(documents)), vectors
            documents, chunks = [], 0


def _unpacked(tar: tarfile.TarFile, name: str) -> IO[bytes]:
    return io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(_member(tar, name)), 1 << 20)


def _member(tar: tarfile.TarFile, name: str) -> IO[bytes]:
    """Open a plain file of the tar. Raises `Corrupted` without it."""
    try:
        member = tar.getmember(name)
    except KeyError:
        raise Corrupted(f"{name} is missing") from None
    file = None if member.issparse() else tar.extractfile(member)
    if file is None or not member.isfile():
        raise Corrupted(f"{name} is no plain file")
    return file


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Leave out who wrote the file, and when."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    member.mode = 0o600
    return member


def _sha256_in(file: IO[bytes]) -> str:
    with file:
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
