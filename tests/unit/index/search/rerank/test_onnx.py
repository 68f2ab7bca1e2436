"""A cross-encoder in a folder is read, judges pairs, and is never waited for beyond the limit."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from sluice.contracts.errors import InvalidSetting, TimedOut, Unavailable
from sluice.index.search.onnx_scorer import OnnxScorer, to_probabilities

VOCABULARY = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "good": 4, "bad": 5, "question": 6}
WEIGHTS = np.array([[0.0], [0.0], [0.0], [0.0], [2.0], [-2.0], [0.0]], dtype=np.float32)


def _write(folder: Path, weights: np.ndarray = WEIGHTS, token_types: bool = True, heavy: int = 0) -> Path:
    """A cross-encoder that adds up a weight for each token of the text (segment 1); `heavy` makes it slow."""
    folder.mkdir(exist_ok=True)
    tokenizer = Tokenizer(models.WordLevel(VOCABULARY, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    names = ["input_ids", "attention_mask", *(["token_type_ids"] if token_types else [])]
    counted = "token_type_ids" if token_types else "attention_mask"
    nodes = [
        helper.make_node("Gather", ["weights", "input_ids"], ["each"]),
        helper.make_node("Cast", [counted], ["counts"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["attention_mask"], ["there"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["counts", "there"], ["which"]),
        helper.make_node("Unsqueeze", ["which", "last"], ["column"]),
        helper.make_node("Mul", ["each", "column"], ["kept"]),
        helper.make_node("ReduceSum", ["kept", "middle"], ["logits0"], keepdims=0),
    ]
    previous = "logits0"
    weighty = [numpy_helper.from_array(np.eye(1_000, dtype=np.float32), "square")] if heavy else []
    if heavy:
        # Beginning with what is only known at the time, lest it be worked out while loading.
        nodes.append(helper.make_node("ReduceMin", ["logits0"], ["least"], keepdims=0))
        nodes.append(helper.make_node("Add", ["square", "least"], ["m0"]))
        nodes += [helper.make_node("MatMul", [f"m{i}", "m0"], [f"m{i + 1}"]) for i in range(heavy)]
        nodes.append(helper.make_node("ReduceMin", [f"m{heavy}"], ["zero"], keepdims=0))
        nodes.append(helper.make_node("Add", ["logits0", "zero"], ["logits1"]))
        previous = "logits1"
    nodes.append(helper.make_node("Identity", [previous], ["logits"]))
    graph = helper.make_graph(
        nodes,
        "cross-encoder",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"]) for name in names],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", weights.shape[1]])],
        [
            numpy_helper.from_array(weights, "weights"),
            numpy_helper.from_array(np.array([2]), "last"),
            numpy_helper.from_array(np.array([1]), "middle"),
            *weighty,
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, str(folder / "model.onnx"))
    return folder


TEXTS = ["bad", "good good good", "question", "good bad", "good"]


def test_texts_are_scored_in_their_own_order_whatever_the_batches(tmp_path) -> None:
    expected = 1 / (1 + np.exp(-np.array([-2.0, 6.0, 0.0, 0.0, 2.0])))
    for batch_size in (1, 2, 8):
        scorer = OnnxScorer(_write(tmp_path), batch_size=batch_size)
        assert scorer.scores("question bad bad", TEXTS, 10.0) == pytest.approx(expected.tolist(), abs=1e-6)


def test_two_logits_are_read_as_no_and_yes(tmp_path) -> None:
    scorer = OnnxScorer(_write(tmp_path, np.hstack([-WEIGHTS, WEIGHTS])))
    assert scorer.scores("question", ["good"], 10.0) == pytest.approx([1 / (1 + np.exp(-4.0))], abs=1e-6)


def test_a_model_without_token_types_is_fed_without_them(tmp_path) -> None:
    scorer = OnnxScorer(_write(tmp_path, token_types=False))
    assert scorer.scores("good", ["bad"], 10.0) == pytest.approx([0.5], abs=1e-6)


def test_question_and_text_are_cut_to_the_window_together(tmp_path) -> None:
    scorer = OnnxScorer(_write(tmp_path), max_tokens=16)
    (score,) = scorer.scores("question " * 50, ["good " * 5_000], 10.0)
    assert score == pytest.approx(1.0, abs=1e-3)


def test_a_model_that_takes_too_long_is_stopped(tmp_path) -> None:
    scorer = OnnxScorer(_write(tmp_path, heavy=200), threads=1)
    scorer.await_model(timeout_seconds=10.0)
    started = time.perf_counter()
    with pytest.raises(TimedOut, match="stopped"):
        scorer.scores("question", ["good"], 0.3)
    assert time.perf_counter() - started < 3


def test_nobody_waits_for_loading_beyond_the_limit_and_later_ones_find_it_done(tmp_path, monkeypatch) -> None:
    import sluice.index.search.onnx_scorer as module

    load = module.load_model

    def slowly(*arguments):
        time.sleep(0.3)
        return load(*arguments)

    monkeypatch.setattr(module, "load_model", slowly)
    scorer = OnnxScorer(_write(tmp_path))
    with pytest.raises(TimedOut, match="loading"):
        scorer.scores("question", ["good"], 0.01)
    time.sleep(0.6)
    assert scorer.scores("question", ["question"], 5.0) == [0.5]


def test_a_folder_without_a_cross_encoder_is_named(tmp_path) -> None:
    with pytest.raises(InvalidSetting, match=r"no model\.onnx"):
        OnnxScorer(tmp_path).scores("q", ["t"], 10.0)
    _write(tmp_path)
    (tmp_path / "model.onnx").write_bytes(b"no model")
    scorer = OnnxScorer(tmp_path)
    for _ in range(2):
        with pytest.raises(InvalidSetting, match=r"rerank\.model_dir"):
            scorer.scores("q", ["t"], 10.0)


def test_a_graph_that_wants_other_inputs_is_refused(tmp_path) -> None:
    _write(tmp_path)
    model = onnx.load(str(tmp_path / "model.onnx"))
    for node in model.graph.node:
        node.input[:] = ["words" if name == "input_ids" else name for name in node.input]
    model.graph.input[0].name = "words"
    onnx.save(model, str(tmp_path / "model.onnx"))
    with pytest.raises(InvalidSetting, match="words"):
        OnnxScorer(tmp_path).scores("q", ["t"], 10.0)


def test_logits_become_probabilities_without_overflow() -> None:
    assert to_probabilities(np.array([-1e30, 0.0, 1e30], dtype=np.float32)).tolist() == [0.0, 0.5, 1.0]
    with pytest.raises(Unavailable, match="3 numbers"):
        to_probabilities(np.zeros((2, 3), dtype=np.float32))
