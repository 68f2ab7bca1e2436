"""A corpus in one file: exported with its vectors, and imported again without embedding anything.

The file is a tar of `manifest.json`, `documents.jsonl.zst` (a document with its chunks in each line) and
`vectors.f32.zst` (float32, little endian, row i for chunk i in the order of the lines).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sluice.contracts.base import CorpusName, Moment, Sha256, Value
from sluice.contracts.event import Body

MANIFEST, DOCUMENTS, VECTORS = "manifest.json", "documents.jsonl.zst", "vectors.f32.zst"
ARTEFACTS = "artefacts"
"""The folder of the data directory that holds exported and uploaded corpora. `sluice prune` removes old ones."""
UPLOADED = "upl_"
"""The beginning of ids of what was uploaded; those of this instance's own exports begin with `art_`."""
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
    """Write the corpus, as it is served when this is handled, to an artefact of this instance."""

    artefact_id: ArtefactId


class CorpusExported(Body):
    """The artefact is complete."""

    artefact_id: ArtefactId
    bytes: int
    manifest: ExportManifest


class ImportDirected(Body, queue="index"):
    """Write the documents of an artefact to the corpus, with their vectors if they may be used."""

    artefact_id: ArtefactId
    manifest: ExportManifest


class ImportRequest(Value):
    """`POST /v1/corpora/{corpus}/import`: from an artefact that this instance exported, or that was uploaded."""

    artefact_id: ArtefactId


class Artefact(Value):
    """A file of the instance under `/v1/artefacts/{id}`."""

    id: ArtefactId
    bytes: int
    manifest: ExportManifest
