"""Exports a corpus to one file and imports it again, in parts, so that neither is ever whole in memory.

An export becomes visible under its name only when it is complete and flushed. An import may run again at any point:
what is recorded already is not recorded twice. What the negative list names is left out of an import.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
import zstandard
from pydantic import ValidationError

from sluice.contracts.document import ChunkBatch, ChunkedDocument
from sluice.contracts.errors import Corrupted, InvalidInput, NotFound
from sluice.contracts.event import Done, Event, Gap, Next, Outcome
from sluice.contracts.index import DocumentIndexed
from sluice.contracts.operations.transfer import (
    DOCUMENTS,
    MANIFEST,
    VECTORS,
    CorpusExported,
    ExportDirected,
    ExportManifest,
    ImportDirected,
)
from sluice.disk.durable import fsync_path
from sluice.ledger.ledger import Ledger
from sluice.workers.runtime.claims import check_cancelled
from sluice.workers.runtime.negative_list import batch_without_forgotten, refused_documents
from sluice.workers.runtime.observers import utc_now
from sluice.workers.settings import Settings
from sluice.workers.wiring.corpora import Corpora, Reader

FOLDER = "artefacts"
"""Folder of the data directory of exported and uploaded corpora."""
DOCUMENTS_AT_ONCE = 200
LONGEST_LINE = 256 * 1024 * 1024
"""Most characters of a document's line: what one submission may hold, several times over."""
MOST_MANIFEST_BYTES = 1_000_000


def artefact_path(data_dir: Path, artefact_id: str) -> Path:
    """Return the path of an artefact, whose id was checked."""
    return data_dir / FOLDER / f"{artefact_id}.tar"


def on_export_directed(event: Event, corpora: Corpora, settings: Settings) -> Outcome:
    """Write the served corpus to the artefact. A second run writes it anew."""
    directed = event.body_as(ExportDirected)
    path = artefact_path(settings.data_dir, directed.artefact_id)
    manifest = export(corpora.readers.existing(event.corpus).pin(), event.corpus, path)
    told = CorpusExported(artefact_id=directed.artefact_id, bytes=path.stat().st_size, manifest=manifest)
    return Done((Next(told, f"exported:{directed.artefact_id}"),))


def export(reader: Reader, corpus: str, path: Path) -> ExportManifest:
    """Write what `reader`, which is pinned, serves to a tar at `path`. Raises `Fenced` if the run was cancelled."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    stats, dimension = reader.stats(), 0
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".export-") as folder:
        lines, rows = Path(folder) / DOCUMENTS, Path(folder) / VECTORS
        documents = chunks = 0
        with zstandard.open(lines, "wb") as out, zstandard.open(rows, "wb") as vectors_out:
            for _, facts in reader.listed("by_id"):
                if documents % DOCUMENTS_AT_ONCE == 0:
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
            files={one.name: _sha256_of(one) for one in (lines, rows)},
        )
        packed = Path(folder) / "whole"
        with tarfile.open(packed, "w") as tar:
            told = manifest.model_dump_json(indent=2).encode()
            head = tarfile.TarInfo(MANIFEST)
            head.size = len(told)
            tar.addfile(head, io.BytesIO(told))
            for one in (lines, rows):
                tar.add(one, one.name, filter=_anonymous)
        fsync_path(packed)
        os.replace(packed, path)
    fsync_path(path.parent)
    return manifest


def read_manifest(path: Path) -> ExportManifest:
    """Return the manifest of an artefact. Raises `NotFound` without it, and `InvalidInput` if it is no export."""
    try:
        with tarfile.open(path, "r:") as tar:
            member = tar.extractfile(MANIFEST)
            return ExportManifest.model_validate_json(member.read(MOST_MANIFEST_BYTES) if member else b"")
    except FileNotFoundError as error:
        raise NotFound(f"there is no artefact {path.stem!r}") from error
    except (tarfile.TarError, KeyError, ValidationError) as error:
        raise InvalidInput(
            "artefact_id", f"is no export of a corpus: {error}", "export one, and upload it whole"
        ) from error


def on_import_directed(event: Event, corpora: Corpora, settings: Settings, ledger: Ledger) -> Outcome:
    """Append the artefact's documents to the journal. A second run appends what is missing."""
    directed = event.body_as(ImportDirected)
    path, manifest = artefact_path(settings.data_dir, directed.artefact_id), directed.manifest
    check_hashes(path, manifest)
    indexed, gaps = list[Next](), list[Gap]()
    for batch, vectors in read_batches(path, manifest):
        check_cancelled()
        refusals = refused_documents(batch, event.corpus, ledger.forgotten)
        kept = [chunk.document_id not in refusals for document in batch.documents for chunk in document.chunks]
        batch, refused = batch_without_forgotten(batch, "index", refusals)
        gaps += refused
        if not batch.documents:
            continue
        with corpora.writers.both(event.corpus) as (writer, _):
            offset = writer.append(batch, vectors[np.array(kept, dtype=np.bool_)], manifest.model or "")
        ids = tuple(document.document_id for document in batch.documents)
        told = DocumentIndexed(document_ids=ids, chunk_count=sum(kept), journal_offset=offset)
        indexed.append(Next(told))
    return Done(tuple(indexed), tuple(gaps))


def check_hashes(path: Path, manifest: ExportManifest) -> None:
    """Raise `Corrupted` unless the artefact's files are those that its manifest names."""
    with tarfile.open(path, "r:") as tar:
        for name in (DOCUMENTS, VECTORS):
            member = tar.extractfile(name)
            if member is None or manifest.files.get(name) != _sha256_in(member):
                raise Corrupted(f"{name} of artefact {path.stem} is not what its manifest says")


def read_batches(path: Path, manifest: ExportManifest) -> Iterator[tuple[ChunkBatch, np.ndarray]]:
    """Yield the documents of an artefact with their vectors, some at a time. Raises `Corrupted` if they do not fit."""
    with tarfile.open(path, "r:") as first, tarfile.open(path, "r:") as second:
        lines, rows = _unpacked(first, DOCUMENTS), _unpacked(second, VECTORS)
        documents: list[ChunkedDocument] = []
        while line := lines.readline(LONGEST_LINE):
            try:
                documents.append(ChunkedDocument.model_validate_json(line))
            except ValidationError as error:
                raise Corrupted(f"artefact {path.stem} holds a line that is no document: {error}") from error
            if len(documents) == DOCUMENTS_AT_ONCE:
                yield _with_vectors(documents, rows, manifest)
                documents = []
        if documents:
            yield _with_vectors(documents, rows, manifest)


def _with_vectors(
    documents: list[ChunkedDocument], rows: IO[bytes], manifest: ExportManifest
) -> tuple[ChunkBatch, np.ndarray]:
    count = sum(len(document.chunks) for document in documents)
    raw = rows.read(4 * count * manifest.dimension)
    if len(raw) != 4 * count * manifest.dimension:
        raise Corrupted("an exported corpus has fewer vectors than chunks")
    vectors = np.frombuffer(raw, dtype="<f4").reshape(count, manifest.dimension)
    return ChunkBatch(documents=tuple(documents)), vectors.astype(np.float32)


def _unpacked(tar: tarfile.TarFile, name: str) -> IO[bytes]:
    member = tar.extractfile(name)
    if member is None:
        raise Corrupted(f"{name} is missing")
    return io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(member), 1 << 20)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Leave out who wrote the file, and when."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    member.mode = 0o600
    return member


def _sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return _sha256_in(file)


def _sha256_in(file: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while part := file.read(1 << 20):
        digest.update(part)
    return digest.hexdigest()
