"""Loads models of the gate: from files of trained models, and from the blobs that decisions name.

`evaluation.learned_gate` knows the places of the files. A model that is rolled out is stored as a blob
under its SHA-256: the file may change or vanish, and recorded decisions can still be recomputed.
"""

from __future__ import annotations

from pathlib import Path

from sluice.contracts.errors import Conflict
from sluice.evaluation.learned_gate import MODEL, find_model
from sluice.gate.learned.model import GateModel
from sluice.workers.runtime.blob_store import BlobStore


def read_model_file(version: str, data_dir: Path) -> bytes:
    """Return the file of a version's trained model, after checking its version.

    Raises:
        NotFound: there is none.
        InvalidInput: its file holds no model that this release can score.
        Conflict: the file holds a model of another version.
    """
    file = find_model(version, data_dir) / MODEL
    raw = file.read_bytes()
    if (held := GateModel.from_bytes(raw).version) != version:
        raise Conflict(f"{file} holds model {held}, not {version}")
    return raw


class GateModels:
    """The models among the blobs. Caches the last one that was read: most decisions need the same."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._latest: GateModel | None = None

    def keep(self, raw: bytes) -> GateModel:
        """Store a model's file as a blob and return the model."""
        return self.named(self._blobs.put(raw).sha256)

    def named(self, sha256: str) -> GateModel:
        """Return the model with that hash.

        Raises:
            NotFound: no blob has that hash.
            InvalidInput: its bytes are no model that this release can score.
        """
        if self._latest is None or self._latest.sha256 != sha256:
            self._latest = GateModel.from_bytes(self._blobs.named(sha256))
        return self._latest
