"""Small models of the gate, for tests of what is done with one."""

from __future__ import annotations

from pathlib import Path

from sluice.gate.learned.model import FEATURES_VERSION, GateModel, Term, Thresholds


def small_model(version: str, fingerprint: str, *, bias: float = -6.0) -> GateModel:
    """A model of one feature. With the bias of -6 it believes in no answer and goes outside; with 6 it never does."""
    return GateModel(
        version=version,
        features_version=FEATURES_VERSION,
        embedder_fingerprint=fingerprint,
        bias=bias,
        terms=(Term(feature="best_cosine", mean=0.5, scale=0.1, weight=0.1),),
        calibration_method="none",
        thresholds=Thresholds(search_below=0.5, full_loop_below=0.2),
    )


def write_small_model(model: GateModel, data_dir: Path) -> None:
    """Put a model where `sluice gate train` of that instance would."""
    folder = data_dir / "evaluation" / "rag_gate" / model.version
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.json").write_bytes(model.to_bytes())
