"""A reranker on this machine: a cross-encoder in ONNX format, in a folder with `model.onnx` and `tokenizer.json`.

A cross-encoder reads question and text together and gives one logit, or two (no, yes). The score is their probability:
the sigmoid of the one, the softmax of the two.

No search waits beyond its time limit: loading goes on in the background, and a forward pass that takes too long is
stopped.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sluice.contracts.errors import InvalidSetting, SluiceError, TimedOut, Unavailable
from sluice.otel.settings import disable_library_telemetry

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Encoding, Tokenizer

_MODEL, _TOKENIZER = "model.onnx", "tokenizer.json"
_CHARACTERS_PER_TOKEN = 16
"""Characters per token, more than in any language: the model would cut off further text, so it is not tokenised."""
_INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids"})

Integers = NDArray[np.int64]
Logits = NDArray[np.float32]


class _Model(NamedTuple):
    tokenizer: Tokenizer
    session: InferenceSession
    inputs: frozenset[str]


class OnnxScorer:
    """The cross-encoder in a folder. Loaded in the background at the first call; safe for threads."""

    def __init__(self, folder: Path, max_tokens: int = 512, batch_size: int = 8, threads: int = 0) -> None:
        """Take `max_tokens`, of question and text together, and `threads` of one forward pass (0 for every core)."""
        self._folder = folder
        self._max_tokens = max_tokens
        self._batch_size = batch_size
        self._threads = threads
        self._starting = threading.Lock()
        self._loading: Future[_Model] | None = None

    def scores(self, query: str, texts: Sequence[str], timeout_seconds: float) -> Sequence[float]:
        """Return the scores, as `Scorer.scores` does. Raises TimedOut, Unavailable, InvalidSetting for a bad folder."""
        ends_at = time.monotonic() + timeout_seconds
        model = self.await_model(timeout_seconds)
        most_characters = _CHARACTERS_PER_TOKEN * self._max_tokens
        encodings = model.tokenizer.encode_batch_fast([(query, text[:most_characters]) for text in texts])
        order = sorted(range(len(texts)), key=lambda position: len(encodings[position]))
        scores = np.empty(len(texts), dtype=np.float64)
        for start in range(0, len(order), self._batch_size):
            batch = order[start : start + self._batch_size]
            left_seconds = ends_at - time.monotonic()
            scores[batch] = to_probabilities(_forward(model, [encodings[one] for one in batch], left_seconds))
        return scores.tolist()

    def await_model(self, timeout_seconds: float) -> _Model:
        """Start loading the model if necessary, and wait at most `timeout_seconds`. Raises the error of the loading."""
        with self._starting:
            if self._loading is None:
                self._loading = ThreadPoolExecutor(1, thread_name_prefix="reranker-loading").submit(self._load)
        try:
            return self._loading.result(timeout_seconds)
        except TimeoutError as error:
            raise TimedOut(f"the reranker is still loading from {self._folder}") from error

    def _load(self) -> _Model:
        try:
            return load_model(self._folder, self._max_tokens, self._threads)
        except SluiceError:
            raise
        except Exception as error:  # whatever is wrong with the files, searches go on without them
            raise InvalidSetting("rerank.model_dir", f"{type(error).__name__}: {error}"[:300]) from error


def load_model(folder: Path, max_tokens: int, threads: int) -> _Model:
    """Return the cross-encoder. Raises `InvalidSetting` where the folder lacks a file or the graph has other inputs."""
    disable_library_telemetry()
    import onnxruntime
    from tokenizers import Tokenizer

    for name in (_MODEL, _TOKENIZER):
        if not (folder / name).is_file():
            raise InvalidSetting("rerank.model_dir", f"no {name} in {folder}", "a folder that has both files")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # The pools share the machine: a thread that waits must not spin.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Shapes differ from batch to batch: an arena would only grow.
    options.enable_cpu_mem_arena = False
    session = onnxruntime.InferenceSession(str(folder / _MODEL), options, providers=["CPUExecutionProvider"])
    inputs = frozenset(one.name for one in session.get_inputs())
    if "input_ids" not in inputs or not inputs <= _INPUTS:
        problem = f"the graph takes {', '.join(sorted(inputs))}"
        raise InvalidSetting("rerank.model_dir", problem, f"a cross-encoder of {', '.join(sorted(_INPUTS))}")
    tokenizer = Tokenizer.from_file(str(folder / _TOKENIZER))
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens, strategy="longest_first")
    return _Model(tokenizer, session, inputs)


def to_probabilities(logits: Logits) -> NDArray[np.float64]:
    """Return the probability for each row of logits (n,), (n, 1) or (n, 2). Raises `Unavailable` for another shape."""
    values = logits.astype(np.float64).reshape(len(logits), -1)
    if values.shape[1] not in (1, 2):
        raise Unavailable(f"the reranker gives {values.shape[1]} numbers for a text; one or two are understood")
    margin = values[:, 0] if values.shape[1] == 1 else values[:, 1] - values[:, 0]
    probability: NDArray[np.float64] = 0.5 * (1.0 + np.tanh(0.5 * margin))  # the sigmoid, which cannot overflow so
    return probability


def _forward(model: _Model, encodings: list[Encoding], timeout_seconds: float) -> Logits:
    """Run one forward pass, stopped after `timeout_seconds`."""
    import onnxruntime

    if timeout_seconds <= 0:
        raise TimedOut("the reranker took longer than its limit")
    options = onnxruntime.RunOptions()
    stopper = threading.Timer(timeout_seconds, setattr, [options, "terminate", True])
    stopper.daemon = True
    stopper.start()
    try:
        logits: Logits = model.session.run(None, _inputs(model.inputs, encodings), options)[0]
    except Exception as error:
        if options.terminate:
            raise TimedOut("the reranker took longer than its limit and was stopped") from error
        raise
    finally:
        stopper.cancel()
    return logits


def _inputs(names: frozenset[str], encodings: list[Encoding]) -> dict[str, Integers]:
    """Return the batch as (texts, longest) tables, padded with 0, which the mask excludes."""
    shape = len(encodings), max(len(encoding) for encoding in encodings)
    tables: dict[str, Integers] = {name: np.zeros(shape, dtype=np.int64) for name in _INPUTS}
    for row, encoding in enumerate(encodings):
        size = len(encoding)
        tables["input_ids"][row, :size] = encoding.ids
        tables["attention_mask"][row, :size] = 1
        tables["token_type_ids"][row, :size] = encoding.type_ids
    return {name: tables[name] for name in names}
