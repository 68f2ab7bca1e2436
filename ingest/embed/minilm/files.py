"""The local model's files: built once from the published weights, kept beside a manifest of hashes, verified.

A file that no longer matches its hash is built again; weights that are not the published ones are refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import numpy as np
from filelock import FileLock
from tokenizers import Tokenizer

from contracts.errors import Corrupted
from ingest.embed.minilm.package_data import PACKAGE, packaged_file

WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
DIMENSION = 384
MAX_TOKENS = 256
"""The window that the model's authors set (`max_seq_length`), [CLS] and [SEP] included; what is beyond is not read."""
Precision = Literal["fp32", "int8"]
FINGERPRINTS: dict[Precision, str] = {
    "fp32": f"all-MiniLM-L6-v2/{DIMENSION}/fp32/{WEIGHTS_SHA256[:12]}/{MAX_TOKENS}/mean-l2",
    "int8": f"all-MiniLM-L6-v2/{DIMENSION}/int8/{WEIGHTS_SHA256[:12]}/{MAX_TOKENS}/mean-l2",
}
FINGERPRINT = FINGERPRINTS["fp32"]
GRAPH_VERSION = 2
"""Raise it when `minilm_graph` changes, and every machine builds its graph again."""

MODEL_FILE, TOKENIZER_FILE, _MANIFEST, _LOCK = "model.onnx", "tokenizer.json", "manifest.json", "build.lock"
PROBE_FILE = "probe.onnx"
_FILES: dict[Precision, tuple[str, ...]] = {
    "fp32": (MODEL_FILE, TOKENIZER_FILE),
    "int8": (MODEL_FILE, TOKENIZER_FILE, PROBE_FILE),
}


def ensure_model(model_dir: Path, precision: Precision = "fp32") -> Path:
    """The folder below `model_dir` with the verified `model.onnx` and `tokenizer.json`; builds them where need be.

    Any number of processes may call it at once: one builds, the others wait for it. Raises Corrupted
    where the package's files are not the published ones, InvalidSetting where it is not installed.
    """
    folder = model_dir / f"all-MiniLM-L6-v2-{precision}"
    if not _is_intact(folder, precision):
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / _LOCK):
            if not _is_intact(folder, precision):
                _build(folder, precision)
    return folder


def load_tokenizer(folder: Path) -> Tokenizer:
    """The model's tokenizer, cutting at its window and never padding."""
    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER_FILE))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)
    return tokenizer


def _is_intact(folder: Path, precision: Precision) -> bool:
    try:
        manifest = json.loads((folder / _MANIFEST).read_bytes())
        wanted = {
            "fingerprint": FINGERPRINTS[precision],
            "graph_version": GRAPH_VERSION,
            "weights_sha256": WEIGHTS_SHA256,
        }
        if not isinstance(manifest, dict) or any(manifest.get(key) != value for key, value in wanted.items()):
            return False
        return all(_sha256(folder / name) == manifest["sha256"][name] for name in _FILES[precision])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return False


def _build(folder: Path, precision: Precision) -> None:
    """Writes the graph, the tokenizer and, last, the manifest that vouches for them."""
    import onnx
    from safetensors.numpy import load

    from ingest.embed.minilm.graph import build_graph, float_dense
    from ingest.embed.minilm.quantize import build_probe, int8_dense

    weights = load(_published_bytes("model.safetensors", WEIGHTS_SHA256))
    graph = build_graph(weights, int8_dense if precision == "int8" else float_dense)
    files = {
        MODEL_FILE: graph.SerializeToString(deterministic=True),
        TOKENIZER_FILE: _published_bytes("tokenizer.json", TOKENIZER_SHA256),
    }
    if precision == "int8":
        files[PROBE_FILE] = build_probe().SerializeToString(deterministic=True)
    for name, content in files.items():
        _write_durably(folder / name, content)
    manifest = {
        "fingerprint": FINGERPRINTS[precision],
        "graph_version": GRAPH_VERSION,
        "weights_sha256": WEIGHTS_SHA256,
        "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
        "built_with": {"onnx": onnx.__version__, "onnxruntime": version("onnxruntime"), "numpy": np.__version__},
    }
    _write_durably(folder / _MANIFEST, json.dumps(manifest, indent=2).encode())


def _published_bytes(name: str, sha256: str) -> bytes:
    content = packaged_file(name).read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise Corrupted(f"{name} of {PACKAGE} has SHA-256 {found}, the published one has {sha256}: install it again")
    return content


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_durably(path: Path, content: bytes) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
