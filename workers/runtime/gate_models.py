"""Loads models of the gate: from files of trained models, and from the blobs that decisions name.

Where the files lie is told by `evaluation.learned_gate`. A model that is rolled out is kept among the blobs
under its SHA-256: the file may change or go, and recorded decisions can still be computed again.
"""

from __future__ import annotations

from pathlib import Path

from sluice.contracts.errors import Conflict
from sluice.evaluation.learned_gate import MODEL, find_model
from sluice.gate.learned.model import GateModel
from sluice.workers.runtime.blob_store import BlobStore


def read_model_file(version: str, data_dir: Path) -> bytes:
    """The file of the trained model of a version, which was checked.

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
    """The models among the blobs. The last one that was read is kept: most decisions need the same."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._latest: GateModel | None = None

    def keep(self, raw: bytes) -> GateModel:
        """Keep a model's file among the blobs; the model in it."""
        return self.named(self._blobs.put(raw).sha256)

    def named(self, sha256: str) -> GateModel:
        """The model of that name.

        Raises:
            NotFound: it is not among the blobs.
            InvalidInput: its bytes are no model that this release can score.
        """
        if self._latest is None or self._latest.sha256 != sha256:
            self._latest = GateModel.from_bytes(self._blobs.named(sha256))
        return self._latest
