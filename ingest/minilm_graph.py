"""The computation of all-MiniLM-L6-v2 as an ONNX graph, from its weights to a unit vector.

The model is a BERT encoder (Devlin et al. 2018, arXiv:1810.04805) of six layers, followed by mean
pooling over the real tokens and L2 normalisation (Reimers and Gurevych 2019, arXiv:1908.10084), as
the model's own `modules.json` prescribes. Attention, embedding, residual and GELU use ONNX Runtime's
fused operators, so that the graph runs as it stands and needs no optimiser at load.

Inputs: `token_ids` and `mask`, int32 of shape (texts, tokens); mask 1 for a token and 0 for padding.
Output: `vectors`, float32 of shape (texts, 384), each of length 1.

Only building needs this module and the `onnx` package behind it; running the model does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

DIMENSION = 384
LAYERS = 6
ATTENTION_HEADS = 12
LAYER_NORM_EPSILON = 1e-12
OPSET = 17
"""The newest ONNX operators that are needed: LayerNormalization's generation, so any current runtime loads it."""
IR_VERSION = 9
FUSED = "com.microsoft"
"""The domain of ONNX Runtime's own fused operators."""

Weights = Mapping[str, np.ndarray]


def build_graph(weights: Weights) -> onnx.ModelProto:
    """The whole model. `weights` are named as in the published safetensors file.

    Raises KeyError where a weight is missing.
    """
    graph = _GraphWriter(weights)
    hidden = _embed_tokens(graph)
    for layer in range(LAYERS):
        hidden = _encode(graph, hidden, f"encoder.layer.{layer}.")
    _pool(graph, hidden)
    return graph.finish()


def _embed_tokens(graph: _GraphWriter) -> str:
    """Word + position + segment, normalised; and, as `lengths`, the number of real tokens of each text.

    Every text is one segment, so that segment's row is added to the positions once and for all.
    """
    segment = graph.weights["embeddings.token_type_embeddings.weight"][0]
    positions = graph.weights["embeddings.position_embeddings.weight"] + segment
    return graph.add(
        "EmbedLayerNormalization",
        [
            "token_ids",
            "",
            graph.weight("embeddings.word_embeddings.weight"),
            graph.constant("positions", positions),
            "",
            graph.weight("embeddings.LayerNorm.weight"),
            graph.weight("embeddings.LayerNorm.bias"),
            "mask",
        ],
        "embedded",
        "lengths",
        epsilon=LAYER_NORM_EPSILON,
    )


def _encode(graph: _GraphWriter, hidden: str, layer: str) -> str:
    """One transformer layer: self-attention, then a two-step feed-forward, each with its residual and norm."""
    attended = graph.add(
        "Attention",
        [hidden, *_query_key_value(graph, f"{layer}attention.self."), "lengths"],
        f"{layer}attended",
        num_heads=ATTENTION_HEADS,
    )
    projected = graph.multiply(attended, f"{layer}attention.output.dense")
    hidden = _add_and_norm(graph, projected, hidden, f"{layer}attention.output.")
    widened = graph.multiply(hidden, f"{layer}intermediate.dense")
    activated = graph.add("BiasGelu", [widened, graph.weight(f"{layer}intermediate.dense.bias")], f"{layer}activated")
    narrowed = graph.multiply(activated, f"{layer}output.dense")
    return _add_and_norm(graph, narrowed, hidden, f"{layer}output.")


def _query_key_value(graph: _GraphWriter, attention: str) -> tuple[str, str]:
    """The three projections side by side, as the fused Attention wants them: (384, 3 x 384) and (3 x 384,)."""
    parts = ("query", "key", "value")
    matrix = np.concatenate([graph.weights[f"{attention}{part}.weight"].T for part in parts], axis=1)
    bias = np.concatenate([graph.weights[f"{attention}{part}.bias"] for part in parts])
    return graph.constant(f"{attention}matrix", matrix), graph.constant(f"{attention}bias", bias)


def _add_and_norm(graph: _GraphWriter, changed: str, residual: str, block: str) -> str:
    """LayerNorm(changed + bias of its projection + residual)."""
    return graph.add(
        "SkipLayerNormalization",
        [
            changed,
            residual,
            graph.weight(f"{block}LayerNorm.weight"),
            graph.weight(f"{block}LayerNorm.bias"),
            graph.weight(f"{block}dense.bias"),
        ],
        f"{block}normalised",
        epsilon=LAYER_NORM_EPSILON,
    )


def _pool(graph: _GraphWriter, hidden: str) -> None:
    """The direction of the mean over real tokens.

    The mean is the sum over a count, and the normalisation cancels the count: a mask times the
    hidden states is all that is needed.
    """
    mask = graph.add("Cast", ["mask"], "mask_as_float", domain="", to=TensorProto.FLOAT)
    axis = graph.constant("token_axis", np.array([1], dtype=np.int64))
    row = graph.add("Unsqueeze", [mask, axis], "mask_row", domain="")
    total = graph.add("MatMul", [row, hidden], "total_row", domain="")
    flat = graph.add("Squeeze", [total, axis], "total", domain="")
    graph.add("LpNormalization", [flat], "vectors", domain="", axis=-1, p=2)


class _GraphWriter:
    """Collects operators and constants; an operator's outputs are named by the caller, and `add` returns the first."""

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self._constants: list[onnx.TensorProto] = []
        self._operators: list[onnx.NodeProto] = []

    def constant(self, name: str, values: np.ndarray) -> str:
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def weight(self, name: str) -> str:
        return self.constant(name, self.weights[name])

    def multiply(self, hidden: str, dense: str) -> str:
        """`hidden` times a dense layer's matrix, which is stored as (outputs, inputs); the bias comes later."""
        matrix = self.constant(f"{dense}.matrix", self.weights[f"{dense}.weight"].T)
        return self.add("MatMul", [hidden, matrix], f"{dense}.product", domain="")

    def add(self, operator: str, inputs: list[str], *outputs: str, domain: str = FUSED, **attributes: Any) -> str:
        self._operators.append(helper.make_node(operator, inputs, outputs, domain=domain, **attributes))
        return outputs[0]

    def finish(self) -> onnx.ModelProto:
        tokens = [
            helper.make_tensor_value_info(name, TensorProto.INT32, ["texts", "tokens"])
            for name in ("token_ids", "mask")
        ]
        vectors = helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["texts", DIMENSION])
        graph = helper.make_graph(self._operators, "all-MiniLM-L6-v2", tokens, [vectors], self._constants)
        operator_sets = [helper.make_opsetid("", OPSET), helper.make_opsetid(FUSED, 1)]
        return helper.make_model(graph, opset_imports=operator_sets, ir_version=IR_VERSION)
