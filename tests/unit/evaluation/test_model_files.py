"""The learned gates that come with the package, and the folders that models lie in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sluice.contracts.errors import Conflict, NotFound
from sluice.disk.object_store import open_store
from sluice.evaluation.learned_gate import (
    METADATA,
    MODEL,
    MODELS_DIR,
    find_model,
    list_models,
    own_models_dir,
    share_models,
    write_model,
)
from sluice.gate.learned.model import FEATURES, GateModel
from sluice.index.settings import ObjectStoreSettings
from sluice.ingest.embed.minilm import FINGERPRINT

SHIPPED = sorted(path.parent for path in MODELS_DIR.glob(f"*/{MODEL}"))


def test_a_model_comes_with_the_package() -> None:
    assert SHIPPED


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda folder: folder.name)
def test_a_model_of_the_package_fits_this_release_and_says_what_it_was_fitted_on(folder: Path) -> None:
    model = GateModel.from_bytes((folder / MODEL).read_bytes())
    metadata = json.loads((folder / METADATA).read_text())
    assert model.version == folder.name
    assert metadata["model_sha256"] == model.sha256
    assert model.embedder_fingerprint == FINGERPRINT
    assert all(len(one["sha256"]) == 3 and one["licence"] for one in metadata["collections"])
    near, far = (model.probability(dict.fromkeys(FEATURES, 0.5) | {"best_cosine": cosine}) for cosine in (0.8, 0.1))
    assert near > 0.5 > far


def test_a_version_is_written_once_and_an_instances_own_comes_first(tmp_path: Path) -> None:
    own = own_models_dir(tmp_path) / SHIPPED[0].name
    write_model(own, {MODEL: b"{}", METADATA: b"{}"})
    assert list_models(tmp_path)[own.name] == own
    assert sorted(path.name for path in own.iterdir()) == [METADATA, MODEL]
    with pytest.raises(Conflict, match="written once"):
        write_model(own, {MODEL: b"{}"})


def test_an_unknown_model_is_answered_with_those_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=SHIPPED[0].name):
        find_model("no-such", tmp_path)


def test_machines_that_share_a_store_have_each_others_models(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}/store", ObjectStoreSettings())
    here, there = tmp_path / "here", tmp_path / "there"
    write_model(own_models_dir(here) / "v1", {MODEL: b"{}", METADATA: b"1"})
    write_model(own_models_dir(there) / "v2", {MODEL: b"[]"})
    share_models(here, store)
    for one in (there, here, here):
        share_models(one, store)
    for one in (here, there):
        folder = own_models_dir(one)
        assert sorted(path.relative_to(folder).as_posix() for path in folder.glob("*/*")) == [
            f"v1/{METADATA}",
            f"v1/{MODEL}",
            f"v2/{MODEL}",
        ]
    share_models(here, None)
