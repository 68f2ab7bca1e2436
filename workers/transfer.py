"""Exports a corpus to one file and imports it again, in shares of some seconds; neither is ever whole in memory.

An export becomes visible under its name only when it is complete and flushed; what changes while it is written is in it
as it was or as it is. An import hands the parts of the file to
the stages that index any other document: what this instance exported keeps its vectors, what was uploaded is inspected
and embedded as if it had just been chunked. Either may run again at any point.
"""

from __future__ import annotations

import hashlib
import io
import math
import os
import shutil
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
import zstandard
from pydantic import ValidationError

from sluice.contracts.document import ChunkBatch, ChunkedDocument, DocumentFacts
from sluice.contracts.errors import Corrupted, InvalidInput, NotFound
from sluice.contracts.event import Done, Event, Next, Outcome
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
from sluice.ledger.ledger import Ledger
from sluice.workers.runtime.blob_store import BlobStore
from sluice.workers.runtime.claims import check_cancelled
from sluice.workers.runtime.observers import utc_now
from sluice.workers.wiring.corpora import CorpusReaders, Reader
from sluice.workers.wiring.models import EmbeddingService

if TYPE_CHECKING:
    from sluice.disk.cache import FileCache
    from sluice.disk.object_store import ObjectStore

PARTS = ".parts"
"""The end of the name of a folder in which an export is being written."""
SHARE_SECONDS = 20.0
"""Seconds of an export or import that one event takes, however large the corpus: other work has its turn between."""
CHUNKS_AT_ONCE = 1_000
"""Chunks from which on a part of an import is whole: some seconds' work of its own."""
LONGEST_LINE = 256 * 1024 * 1024
"""Most characters of a document's line: what one submission may hold, several times over."""
MOST_MANIFEST_BYTES = 1_000_000


class Artefacts:
    """Files of exports and uploads, by ids that were checked: in a folder of the data directory. Machines that share an
    object store keep them below `artefacts/` there, and in `cache` what was used within the hour."""

    def __init__(self, folder: Path, store: ObjectStore | None, cache: FileCache) -> None:
        self.folder, self._store, self._cache = folder, store, cache

    def path(self, artefact_id: str) -> Path:
        """Return the path of an artefact on this machine, to which it is fetched. Raises `NotFound` without it."""
        name = f"{artefact_id}.tar"
        path = self.folder / name
        if self._store is None:
            if not path.is_file():
                raise NotFound(f"there is no artefact {artefact_id!r}")
            return path
        try:
            size = self._store.size(f"{ARTEFACTS}/{name}")
        except NotFound as error:
            self._cache.remove(name)  # it was removed on another machine
            raise NotFound(f"there is no artefact {artefact_id!r}") from error
        download = self._store.download
        return self._cache.path(name, lambda new: download(f"{ARTEFACTS}/{name}", size, new))

    def keep(self, written: Path, artefact_id: str) -> None:
        """Give a whole file its name, durably, and for all machines."""
        if self._store is not None:
            self._store.upload(f"{ARTEFACTS}/{artefact_id}.tar", written)
            written.unlink()
            return
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fsync_path(written)
        os.replace(written, self.folder / f"{artefact_id}.tar")
        fsync_path(self.folder)

    def ids(self, before: float = math.inf) -> list[str]:
        """Return the ids of those written before a moment, in seconds since the epoch."""
        if self._store is not None:
            found = ((one.path, one.written_at) for one in self._store.listed(ARTEFACTS))
        else:
            found = ((str(path), path.stat().st_mtime) for path in self.folder.glob("[au]??_*.tar"))
        return sorted(Path(name).stem for name, at in found if at < before)

    def remove(self, artefact_id: str) -> None:
        """Remove an artefact."""
        if self._store is not None:
            self._store.delete([f"{ARTEFACTS}/{artefact_id}.tar"])
        self._cache.remove(f"{artefact_id}.tar")
        (self.folder / f"{artefact_id}.tar").unlink(missing_ok=True)

    def remove_unfinished(self, before: float | None = None) -> None:
        """Remove what exports have written so far: they may hold what is being forgotten, and begin anew. With
        `before`, only what is older, uploads that were cut off too."""
        for one in self.folder.glob("*" if before else f"*{PARTS}"):
            if before is None or (one.suffix != ".tar" and one.stat().st_mtime < before):
                shutil.rmtree(one, ignore_errors=True) if one.is_dir() else one.unlink(missing_ok=True)


def on_export_directed(event: Event, readers: CorpusReaders, artefacts: Artefacts) -> Outcome:
    """Write some seconds' share of the served corpus behind the share before; once all is written, pack it. A second
    run writes its share anew. Where the shares before are gone, as something was forgotten, it begins anew."""
    directed = event.body_as(ExportDirected)
    if directed.artefact_id not in artefacts.ids():
        folder = artefacts.folder / f"{directed.artefact_id}{PARTS}"
        if not folder.is_dir():
            directed = ExportDirected(artefact_id=directed.artefact_id)
            folder.mkdir(mode=0o700, parents=True)
        reader = readers.existing(event.corpus).pin()  # after the folder: what is forgotten from now on removes that
        written, is_whole = export(reader, event.corpus, directed, folder)
        if not is_whole or written.so_far is None:
            return Done((Next(written),))
        artefacts.keep(pack(folder, written.so_far), directed.artefact_id)
        shutil.rmtree(folder)
    path = artefacts.path(directed.artefact_id)
    told = CorpusExported(artefact_id=directed.artefact_id, bytes=path.stat().st_size, manifest=read_manifest(path))
    return Done((Next(told, f"exported:{directed.artefact_id}"),))


def export(reader: Reader, corpus: str, directed: ExportDirected, folder: Path) -> tuple[ExportDirected, bool]:
    """Append what `reader`, which is pinned, serves behind `directed.after` to the two files in `folder`, for
    `SHARE_SECONDS`. Return where that ended, and whether with the last document. Raises `Fenced` if the run was
    cancelled."""
    stats, after = reader.stats(), directed.after
    so_far = directed.so_far or ExportManifest(
        corpus=corpus,
        exported_at=utc_now(),
        generation=stats.generation,
        journal_offset=stats.journal_offset,
        documents=0,
        chunks=0,
        model=stats.model_fingerprint,
        dimension=0,
        files={},
    )
    documents, chunks, dimension = so_far.documents, so_far.chunks, so_far.dimension
    until, is_whole = time.monotonic() + SHARE_SECONDS, True
    lines, rows = folder / DOCUMENTS, folder / VECTORS
    with _appending(lines, directed.sizes[0]) as out, _appending(rows, directed.sizes[1]) as vectors_out:
        for facts in reader.listed("by_id", after):
            check_cancelled()
            own, vectors = reader.chunks(facts.document_id), reader.vectors(facts.document_id)
            if vectors is None or len(vectors) != len(own):
                raise Corrupted(f"document {facts.document_id} has {len(own)} chunks and other vectors")
            out.write(ChunkedDocument(**dict(facts), chunks=own).model_dump_json().encode() + b"\n")
            vectors_out.write(np.ascontiguousarray(vectors, dtype="<f4").tobytes())
            documents, chunks, after = documents + 1, chunks + len(own), facts.document_id
            dimension = vectors.shape[1] if len(own) else dimension
            if time.monotonic() > until:
                is_whole = False
                break
    told = {"documents": documents, "chunks": chunks, "dimension": dimension, "model": stats.model_fingerprint}
    sizes = lines.stat().st_size, rows.stat().st_size
    changes = {"so_far": so_far.model_copy(update=told), "after": after, "sizes": sizes}
    return directed.model_copy(update=changes), is_whole


@contextmanager
def _appending(path: Path, size: int) -> Iterator[IO[bytes]]:
    """Yield a writer of a zstd frame behind the first `size` bytes of a file, whose rest goes. Flushes to disk."""
    with path.open("r+b" if size else "wb") as file:
        file.truncate(size)
        file.seek(size)
        with zstandard.ZstdCompressor().stream_writer(file, closefd=False) as out:
            yield out
        file.flush()
        os.fsync(file.fileno())


def pack(folder: Path, manifest: ExportManifest) -> Path:
    """Write the two files in `folder`, and the manifest with their hashes, to a tar beside them; return its path."""
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
    return packed


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
    event: Event,
    readers: CorpusReaders,
    embedding: EmbeddingService,
    ledger: Ledger,
    blobs: BlobStore,
    artefacts: Artefacts,
) -> Outcome:
    """Direct the indexing of some seconds' share of the artefact's documents, part by part, and then of the next share.
    A second run directs the same.

    Vectors are used if this instance exported them, and with the corpus's own model. A second index gets its own.
    """
    directed = event.body_as(ImportDirected)
    path, manifest = artefacts.path(directed.artefact_id), directed.manifest
    if not directed.documents:
        check_hashes(path, manifest)
    documents, chunks, until = directed.documents, directed.chunks, time.monotonic() + SHARE_SECONDS
    model, fallback = readers.reader(event.corpus).model_fingerprint, readers.fallback_model(event.corpus)
    is_own = not directed.artefact_id.startswith(UPLOADED)
    has_vectors = is_own and manifest.model == (model or embedding.fingerprint(event.corpus))
    directed_next = list[Next]()
    for batch, vectors in read_batches(path, manifest, documents, chunks):
        check_cancelled()
        if time.monotonic() > until and directed_next:
            directed_next.append(Next(directed.model_copy(update={"documents": documents, "chunks": chunks})))
            break
        documents, chunks = documents + len(batch.documents), chunks + len(batch.embedding_texts())
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
            left, texts = ledger.budget_left(event.run_id), batch.embedding_texts()
            directed_next.append(Next(own, reserve=embedding.reserve(texts, event.corpus, left, fallback)))
    return Done(tuple(directed_next))


def _as_claimed(batch: ChunkBatch, run_id: str) -> ChunkBatch:
    """Return documents of another instance without what only this one can know: inspections, keys and operators."""
    unknown = {"run_id": run_id, "submitted_by": None, "signed_by": None, "by_operator": False}

    def claimed(document: ChunkedDocument) -> ChunkedDocument:
        chunks = tuple(chunk.model_copy(update={"inspection": None}) for chunk in document.chunks)
        provenance = document.provenance.model_copy(update=unknown)
        return document.model_copy(update={"chunks": chunks, "provenance": provenance, "inspected_by": None})

    return batch.model_copy(update={"documents": tuple(map(claimed, batch.documents))})


def artefacts_with(artefacts: Artefacts, corpus: str, is_meant: Callable[[DocumentFacts], bool]) -> Iterator[str]:
    """Yield the ids of the exports of a corpus, and of the uploads, that hold a meant document. Reads them whole."""
    for artefact_id in artefacts.ids():
        try:
            manifest = read_manifest(path := artefacts.path(artefact_id))
            is_of_corpus = artefact_id.startswith(UPLOADED) or manifest.corpus == corpus
            batches = read_batches(path, manifest) if is_of_corpus else ()
            if any(is_meant(document) for batch, _ in batches for document in batch.documents):
                yield artefact_id
        except NotFound:  # removed meanwhile
            continue


def check_hashes(path: Path, manifest: ExportManifest) -> None:
    """Raise `Corrupted` unless the artefact's files are those that its manifest names."""
    with tarfile.open(path, "r:") as tar:
        for name in (DOCUMENTS, VECTORS):
            if manifest.files.get(name) != _sha256_in(_member(tar, name)):
                raise Corrupted(f"{name} of artefact {path.stem} is not what its manifest says")


def read_batches(
    path: Path, manifest: ExportManifest, skipped_documents: int = 0, skipped_chunks: int = 0
) -> Iterator[tuple[ChunkBatch, bytes]]:
    """Yield the documents of an artefact with the bytes of their vectors, some at a time, behind the skipped ones.

    Raises `Corrupted` if they do not fit one another or the manifest.
    """
    with tarfile.open(path, "r:") as first, tarfile.open(path, "r:") as second:
        lines, rows = _unpacked(first, DOCUMENTS), _unpacked(second, VECTORS)
        documents, chunks, left = list[ChunkedDocument](), 0, manifest.documents - skipped_documents
        for _ in range(skipped_documents):
            lines.readline(LONGEST_LINE)
        for _ in range(skipped_chunks):
            rows.read(4 * manifest.dimension)
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
    reader = zstandard.ZstdDecompressor().stream_reader(_member(tar, name), read_across_frames=True)
    return io.BufferedReader(reader, 1 << 20)


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
