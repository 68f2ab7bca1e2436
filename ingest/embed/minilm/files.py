"""The local model's files: built once from the published weights. Others than the published ones are refused.

The weights lie in a file of their own, as they are and as the processor's kernels want them. ONNX Runtime maps it, so
that processes share its pages, and packs nothing at every start. A processor of another kind, to whose kernels the
packed ones are of no use, packs its own.
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from typing import Literal

from tokenizers import Tokenizer

from sluice.contracts.errors import Corrupted
from sluice.ingest.built_files import ensure_files
from sluice.ingest.embed.minilm.package_data import PACKAGE, packaged_file
from sluice.otel.environment import disable_library_telemetry

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
GRAPH_VERSION = 3
"""Raise it when `minilm_graph` changes, and every machine builds its graph again."""

MODEL_FILE, WEIGHTS_FILE, TOKENIZER_FILE, PROBE_FILE = "model.onnx", "weights.bin", "tokenizer.json", "probe.onnx"
_LEAST_MAPPED_BYTES = 1_024
"""Smaller constants stay in the graph's own file."""


def ensure_model(model_dir: Path, precision: Precision = "fp32") -> Path:
    """The folder below `model_dir` with the verified files of the model; builds them where need be.

    Any number of processes may call it at once: one builds, the others wait for it. Raises Corrupted
    where the package's files are not the published ones, InvalidSetting where it is not installed.
    """
    folder = model_dir / f"all-MiniLM-L6-v2-{precision}"
    built_from = {
        "fingerprint": FINGERPRINTS[precision],
        "graph_version": GRAPH_VERSION,
        "weights_sha256": WEIGHTS_SHA256,
    }
    ensure_files(folder, built_from, lambda: _build(folder, precision))
    return folder


def load_tokenizer(folder: Path) -> Tokenizer:
    """The model's tokenizer, cutting at its window and never padding."""
    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER_FILE))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)
    return tokenizer


def _build(folder: Path, precision: Precision) -> dict[str, bytes]:
    """The content of each file by its name. `folder` has room for what is needed meanwhile."""
    from safetensors.numpy import load

    from sluice.ingest.embed.minilm.graph import build_graph, float_dense
    from sluice.ingest.embed.minilm.quantize import build_probe, int8_dense

    weights = load(_published_bytes("model.safetensors", WEIGHTS_SHA256))
    graph = build_graph(weights, int8_dense if precision == "int8" else float_dense)
    files = {
        **_to_be_mapped(graph.SerializeToString(deterministic=True), folder),
        TOKENIZER_FILE: _published_bytes("tokenizer.json", TOKENIZER_SHA256),
    }
    if precision == "int8":
        files[PROBE_FILE] = build_probe().SerializeToString(deterministic=True)
    return files


def _to_be_mapped(graph: bytes, folder: Path) -> dict[str, bytes]:
    """The graph and its weights as two files, the weights also packed for this processor's kernels."""
    disable_library_telemetry()
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    for entry, value in (
        ("optimized_model_external_initializers_file_name", WEIGHTS_FILE),
        ("optimized_model_external_initializers_min_size_in_bytes", str(_LEAST_MAPPED_BYTES)),
        ("save_external_prepacked_constant_initializers", "1"),
    ):
        options.add_session_config_entry(f"session.{entry}", value)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        options.optimized_model_filepath = str(Path(scratch, MODEL_FILE))
        onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        return {name: Path(scratch, name).read_bytes() for name in (WEIGHTS_FILE, MODEL_FILE)}


def _published_bytes(name: str, sha256: str) -> bytes:
    content = packaged_file(name).read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise Corrupted(f"{name} of {PACKAGE} has SHA-256 {found}, the published one has {sha256}: install it again")
    return content
