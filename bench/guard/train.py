"""Fits the guard's model to all texts and writes its weights: `python -m bench.guard.train DATA_DIR [CACHE]`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.guard.dataset import Text, load_texts
from bench.guard.fit import fit
from sluice.trust.guard.model import WEIGHTS_FILE
from sluice.trust.guard.windows import COUNTED, NAMES

THRESHOLD = 0.65
"""The lowest, in steps of .05, at which manuals, documentation and letters to people have at most 2 % of their chunks
warned of by a model that has not seen the document. Of documentation without its whole set it was 3 % at .6."""
MOST_CHUNKS = 1_000
PER_TEMPLATE = 6
CACHE = Path(".cache/guard.sqlite")


def write_weights(texts: Sequence[Text], path: Path = WEIGHTS_FILE) -> None:
    """The weights of a model of all texts, rounded to what matters, with the names of the features."""
    model = fit(texts)
    weights = [float(f"{weight:.5g}") for weight in model.weights]
    vector, counts = weights[: -len(NAMES)], weights[-len(NAMES) :]
    data = {
        "threshold": THRESHOLD,
        "bias": float(f"{model.bias:.5g}"),
        "screen_bias": float(f"{model.screen_bias:.5g}"),
        "screen": {name: float(f"{weight:.5g}") for name, weight in zip(COUNTED, model.screen, strict=True)},
        "features": dict(zip(NAMES, counts, strict=True)),
        "vector": vector,
    }
    path.write_text(
        json.dumps(data, indent=None).replace('"features"', '\n"features"').replace('"vector"', '\n"vector"') + "\n"
    )


if __name__ == "__main__":
    write_weights(load_texts(Path(sys.argv[1]), Path(*sys.argv[2:3] or [CACHE]), MOST_CHUNKS, PER_TEMPLATE))
