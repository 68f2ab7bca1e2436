"""A cross-encoder as it is published: a BERT encoder that reads both texts, and a linear head.

The encoder is MiniLM's own, with an attention mask and segments; the head is made up, so its scores mean nothing. What is
shown is that padding, segments, truncation and both forms of logits are read as the model's authors meant them.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load

from sluice.index.search.onnx_scorer import OnnxScorer
from sluice.ingest.embed.minilm import MODEL_FILE, TOKENIZER_FILE, ensure_model
from sluice.ingest.embed.minilm_graph import build_graph
from sluice.ingest.embed.tokens import packaged_file
from tests.support.repository import MODELS

QUESTION = "How long is a lease held by a worker that died?"
TEXTS = [
    "A lease lasts five seconds. What its holder has not settled by then is handled again by another worker.",
    "Ferrets sleep.",
    "otters",
    "The reconciler publishes what the broker has lost, " * 12,
]
SEGMENTS = "embeddings.token_type_embeddings.weight"


HEAD = np.random.default_rng(7).normal(size=(384, 1)).astype(np.float32) / 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Iterator[Path]:
    """A cross-encoder of one logit."""
    path = tmp_path_factory.mktemp("cross-encoder")
    _write(path, HEAD)
    yield path
    shutil.rmtree(path)  # it has 90 MB, and folders of tests are kept


def _write(folder: Path, head: np.ndarray) -> None:
    """Write a cross-encoder with a head of (384, logits)."""
    source = ensure_model(MODELS)
    weights = load(packaged_file("model.safetensors").read_bytes())
    model = build_graph(weights)
    _read_pairs(model, weights[SEGMENTS])
    _judge(model, head)
    onnx.save(model, str(folder / MODEL_FILE))
    (folder / TOKENIZER_FILE).write_bytes((source / TOKENIZER_FILE).read_bytes())


def _read_pairs(model: onnx.ModelProto, segments: np.ndarray) -> None:
    """Give the encoder the three inputs of a cross-encoder; its positions already hold segment 0."""
    graph = model.graph
    names = ("input_ids", "attention_mask", "token_type_ids")
    casts = [helper.make_node("Cast", [name], [f"{name}.int32"], to=TensorProto.INT32) for name in names]
    graph.initializer.append(numpy_helper.from_array(segments - segments[0], "segments"))
    for node in graph.node:
        if node.op_type == "EmbedLayerNormalization":
            node.input[0], node.input[1], node.input[4] = "input_ids.int32", "token_type_ids.int32", "segments"
        elif node.op_type == "MultiHeadAttention":
            node.input.extend(["", "attention_mask.int32"])
    nodes = [*casts, *(node for node in graph.node if node.op_type not in ("ReduceMean", "LpNormalization"))]
    del graph.node[:], graph.input[:]
    graph.node.extend(nodes)
    graph.input.extend(helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "tokens"]) for name in names)


def _judge(model: onnx.ModelProto, head: np.ndarray) -> None:
    """Give it logits: the vector of the first token times `head`."""
    graph = model.graph
    last = graph.node[-1].output[0]
    graph.initializer.extend([numpy_helper.from_array(head, "head"), numpy_helper.from_array(np.array(0), "first")])
    graph.node.append(helper.make_node("Gather", [last, "first"], ["pooled"], axis=1))
    graph.node.append(helper.make_node("MatMul", ["pooled", "head"], ["logits"]))
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["texts", head.shape[1]]))


def test_padding_changes_no_score(folder) -> None:
    alone = OnnxScorer(folder, batch_size=1, threads=1).scores(QUESTION, TEXTS, 30.0)
    together = OnnxScorer(folder, batch_size=8, threads=1).scores(QUESTION, TEXTS, 30.0)
    assert together == pytest.approx(alone, abs=1e-4)
    assert len({round(score, 3) for score in alone}) == len(TEXTS)


def test_two_logits_judge_as_the_one_that_is_their_difference(folder) -> None:
    one = OnnxScorer(folder, threads=1).scores(QUESTION, TEXTS, 30.0)
    _write(folder, np.hstack([-HEAD / 2, HEAD / 2]))
    two = OnnxScorer(folder, threads=1).scores(QUESTION, TEXTS, 30.0)
    _write(folder, HEAD)
    assert two == pytest.approx(one, abs=1e-4)


def test_question_and_text_are_two_segments_of_one_input(folder) -> None:
    scorer = OnnxScorer(folder, threads=1)
    model = scorer.await_model(30.0)
    pair = model.tokenizer.encode(QUESTION, TEXTS[0])
    size = len(model.tokenizer.encode(QUESTION))
    assert (pair.tokens[0], pair.tokens[size - 1], pair.tokens[-1]) == ("[CLS]", "[SEP]", "[SEP]")
    assert pair.type_ids == [0] * size + [1] * (len(pair) - size)
    inputs = {"input_ids": [pair.ids], "attention_mask": [pair.attention_mask], "token_type_ids": [pair.type_ids]}
    feeds = {name: np.array(values, dtype=np.int64) for name, values in inputs.items()}
    (logits,) = model.session.run(None, feeds)
    (score,) = scorer.scores(QUESTION, TEXTS[:1], 30.0)
    assert score == pytest.approx(1 / (1 + np.exp(-logits[0, 0])), abs=1e-5)
    feeds["token_type_ids"][:] = 0
    assert abs(model.session.run(None, feeds)[0][0, 0] - logits[0, 0]) > 1e-3


def test_a_long_text_is_cut_and_the_question_is_not(folder) -> None:
    text = "the reconciler publishes what the broker lost " * 200
    cut, whole = (
        OnnxScorer(folder, max_tokens=tokens, threads=1).scores(QUESTION, [text], 30.0) for tokens in (64, 128)
    )
    assert cut != whole
    model = OnnxScorer(folder, max_tokens=64, threads=1).await_model(30.0)
    pair = model.tokenizer.encode(QUESTION, text)
    assert len(pair) == 64
    assert pair.type_ids.count(0) == len(model.tokenizer.encode(QUESTION))
