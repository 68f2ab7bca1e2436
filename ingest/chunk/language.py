"""Detects the natural language of a text: deterministic, from a prefix, by py3langid.

The library keeps 70 MB of tables in memory, and takes half a second to unpack them. `map_model` maps them from files,
so that processes share the pages they use.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from py3langid import langid

from sluice.ingest.built_files import ensure_files

_PREFIX_CHARS = 240
_FEWEST_LETTERS = 24
_WORDS = re.compile(r"[^\W\d_]+")
_WEIGHTS, _TRANSITIONS, _REST = "weights.npy", "transitions.npy", "rest.npz"
_LAYOUT = 1
"""Version of the file format; raise it when the files change, and every machine writes them again."""


def map_model(model_dir: Path) -> None:
    """Map the model from files below `model_dir`, for this process and those that it forks.

    Writes the files if necessary. Raises OSError if they cannot be written.
    """
    folder = model_dir / "py3langid"
    ensure_files(folder, {"py3langid": version("py3langid"), "layout": _LAYOUT}, _unpacked)
    rest = np.load(folder / _REST)
    langid.IDENTIFIER = langid.LanguageIdentifier(
        _mapped(folder / _WEIGHTS),
        rest["priors"],
        rest["languages"].tolist(),
        _mapped(folder / _TRANSITIONS).data,  # its elements are plain ints, as in the library's own array
        rest["features"].data,
        tk_row=rest["rows"].data,
    )


def natural_language(text: str) -> str | None:
    """Return the ISO 639-1 code, or None if there are too few letters to tell."""
    prefix = text[:_PREFIX_CHARS]
    if sum(map(len, _WORDS.findall(prefix))) < _FEWEST_LETTERS:
        return None
    code: str = langid.classify(prefix)[0]
    return code


def _unpacked() -> Mapping[str, bytes]:
    """Return the library's model as files: two large tables, and the rest."""
    model = langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE)
    rest = io.BytesIO()
    np.savez(rest, priors=model.nb_pc, languages=model.nb_classes, features=model.tk_output, rows=model.tk_row)
    return {
        _WEIGHTS: _as_file(model.nb_ptc),
        _TRANSITIONS: _as_file(np.asarray(model.tk_nextmove)),
        _REST: rest.getvalue(),
    }


def _as_file(table: NDArray[np.generic]) -> bytes:
    file = io.BytesIO()
    np.save(file, table)
    return file.getvalue()


def _mapped(path: Path) -> NDArray[np.generic]:
    return np.asarray(np.load(path, mmap_mode="r"))
