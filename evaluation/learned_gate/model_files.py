"""Where learned models of the gate lie: a folder each, named by its version, that says how it came to be.

    model.json      the model (`gate.learned.model`)
    metadata.json   what it was fitted on and by, with hashes, licences and measures
    unseen.json     what it says of cases that its fit did not see, for thresholds at other costs
    report.md       the measures, to read

Models that come with the package lie in `evaluation/rag_gate`, those of an instance in the same folder of its data
directory; an instance's own comes before one of the package with the same version.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sluice.contracts.errors import Conflict, NotFound

MODELS_DIR = Path(__file__).parent.parent / "rag_gate"
MODEL, METADATA, UNSEEN, REPORT = "model.json", "metadata.json", "unseen.json", "report.md"


def own_models_dir(data_dir: Path) -> Path:
    """Where the models of an instance lie."""
    return data_dir / "evaluation" / "rag_gate"


def list_models(data_dir: Path) -> Mapping[str, Path]:
    """The folder of each model, by its version, in order."""
    found = {
        path.parent.name: path.parent
        for folder in (MODELS_DIR, own_models_dir(data_dir))
        for path in sorted(folder.glob(f"*/{MODEL}"))
    }
    return dict(sorted(found.items()))


def find_model(version: str, data_dir: Path) -> Path:
    """The folder of the model of that version.

    Raises:
        NotFound: there is none; names those that there are.
    """
    known = list_models(data_dir)
    if version not in known:
        raise NotFound(f"no model {version!r}; there are {', '.join(known) or 'none: see sluice gate train'}")
    return known[version]


def write_model(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write a model's files into a new `folder`, the model last: a folder without one is none.

    Raises:
        Conflict: a model lies there.
    """
    if (folder / MODEL).exists():
        raise Conflict(f"{folder} holds a model: a version is written once; name another with --version")
    folder.mkdir(parents=True, exist_ok=True)
    for name in sorted(files, key=lambda name: name == MODEL):
        part = folder / f"{name}.part"
        part.write_bytes(files[name])
        part.replace(folder / name)
