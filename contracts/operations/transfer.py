"""A corpus in one file: exported with its vectors, and imported again without embedding anything.

The file is a tar of `manifest.json`, `documents.jsonl.zst` (a document with its chunks in each line) and
`vectors.f32.zst` (float32, little endian, row i for chunk i in the order of the lines).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sluice.contracts.base import CorpusName, LaterText, Moment, Sha256, Value, is_empty, is_none
from sluice.contracts.event import Body

MANIFEST, DOCUMENTS, VECTORS = "manifest.json", "documents.jsonl.zst", "vectors.f32.zst"
ARTEFACTS = "artefacts"
"""The folder of the data directory that holds exported and uploaded corpora. `sluice prune` removes old ones."""
UPLOADED = "upl_"
"""The beginning of ids of what was uploaded; those of this instance's own exports begin with `art_`."""
LaterCount = Annotated[int, Field(ge=0, exclude_if=is_empty)]
ArtefactId = Annotated[str, Field(pattern=r"^(art|upl)_[0-9a-f]{24}$")]


class ExportManifest(Value):
    """What an exported corpus holds, with the hashes of its two files as they are in the tar."""

    format: Literal[1] = 1
    corpus: CorpusName
    exported_at: Moment
    generation: str | None
    journal_offset: int
    documents: int
    chunks: int
    model: str | None
    """Fingerprint of the model of the vectors; None for an empty corpus."""
    dimension: int
    files: dict[str, Sha256]


class ExportDirected(Body, queue="index"):
    """Write the next share of the corpus, as it is served when this is handled, to an artefact of this instance."""

    artefact_id: ArtefactId
    after: LaterText = None
    """Id of the last document that is written; None at the beginning."""
    sizes: Annotated[tuple[int, ...], Field(min_length=2, max_length=2, exclude_if=lambda sizes: sizes == (0, 0))] = (
        0,
        0,
    )
    """Bytes written of documents and vectors."""
    so_far: Annotated[ExportManifest | None, Field(exclude_if=is_none)] = None


class CorpusExported(Body):
    """The artefact is complete."""

    artefact_id: ArtefactId
    bytes: int
    manifest: ExportManifest


class ImportDirected(Body, queue="index"):
    """Write the documents of an artefact to the corpus, with their vectors if they may be used. So many documents and
    chunks are written."""

    artefact_id: ArtefactId
    manifest: ExportManifest
    documents: LaterCount = 0
    chunks: LaterCount = 0


class ImportRequest(Value):
    """`POST /v1/corpora/{corpus}/import`: from an artefact that this instance exported, or that was uploaded."""

    artefact_id: ArtefactId


class Artefact(Value):
    """A file of the instance under `/v1/artefacts/{id}`."""

    id: ArtefactId
    bytes: int
    manifest: ExportManifest
