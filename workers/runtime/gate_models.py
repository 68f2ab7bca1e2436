"""Where models of the gate are read from: files of trained models, and the blobs that decisions name them by.

A trained model is the file `FOLDER/VERSION/model.json`. The instance's own are in `evaluation/rag_gate` of the data
directory, those that come with the package in its `evaluation/rag_gate`. A model that is rolled out is kept among the
blobs under its SHA-256: the file may change or go, and recorded decisions can still be computed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import evaluation
from contracts.errors import Conflict, NotFound
from gate.learned.model import GateModel
from workers.runtime.blob_store import BlobStore
from workers.settings import Settings

FILE = "model.json"


def model_folders(settings: Settings) -> tuple[Path, ...]:
    """The folders that models are looked for in, the first that has one wins."""
    return settings.data_dir / "evaluation" / "rag_gate", Path(evaluation.__file__).parent / "rag_gate"


def read_model_file(version: str, folders: Sequence[Path]) -> bytes:
    """The file of the trained model of a version, which was checked.

    Raises:
        NotFound: none of the folders has it.
        InvalidInput: its file holds no model that this release can score.
        Conflict: the file holds a model of another version.
    """
    file = next((folder / version / FILE for folder in folders if (folder / version / FILE).is_file()), None)
    if file is None:
        looked = " or ".join(str(folder) for folder in folders)
        raise NotFound(f"no model {version!r} in {looked}; `sluice gate train` makes one")
    raw = file.read_bytes()
    if (held := GateModel.from_bytes(raw).version) != version:
        raise Conflict(f"{file} holds model {held}, not {version}")
    return raw


def list_model_files(folders: Sequence[Path]) -> tuple[str, ...]:
    """The versions that can be read, sorted."""
    return tuple(sorted({file.parent.name for folder in folders for file in folder.glob(f"*/{FILE}")}))


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
