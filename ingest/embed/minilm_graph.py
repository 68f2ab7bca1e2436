"""The computation of all-MiniLM-L6-v2 as an ONNX graph, from its weights to a unit vector, in float32 or int8.

The model is a BERT encoder (Devlin et al. 2018, arXiv:1810.04805) of six layers, followed by mean
pooling over the tokens and L2 normalisation (Reimers and Gurevych 2019, arXiv:1908.10084), as
the model's own `modules.json` prescribes. Attention, embedding and GELU use ONNX Runtime's
fused operators, so that the graph runs as it stands; it is to be loaded with the optimiser off, which would
fuse the residual additions into `SkipLayerNormalization`, on the processor five times as slow as its two halves.

Input: `token_ids`, int32 of shape (texts, tokens), every text of the same length: there is no padding, and so
no mask, without which attention takes the quicker path (blockwise, Dao et al. 2022, arXiv:2205.14135).
Outputs: `vectors`, float32 of shape (texts, 384), each of length 1, and what they are the mean of: the states of the
last layer, (texts, tokens, 384), which cost nothing where they are not requested.

In 8 bits dense layers take a quarter of the memory and are several times as fast. Weights are rounded per output
column, symmetrically: q = round(w / s) with s = max|w| / 127 of the column, so that one large weight coarsens its own
column and no other. Activations are quantised while the model runs, with one scale for all tokens of a text and the
text's own range (`DynamicQuantizeMatMul`), so nothing has to be calibrated. Attention, normalisation and GELU stay in
float32. (Jacob et al. 2018, arXiv:1712.05877; Zafrir et al. 2019, arXiv:1910.06188, for BERT.) Signed weights against
unsigned activations are what processors have instructions for (VNNI, AMX). Older ones add two such products in 16 bits
and saturate; `build_probe` is the smallest network that shows it.

Only building needs this module and the `onnx` package behind it; running the model does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

DIMENSION = 384
LAYERS = 6
ATTENTION_HEADS = 12
LAYER_NORM_EPSILON = 1e-12
OPSET = 17
"""The newest ONNX operator set needed: LayerNormalization's generation, so any current runtime loads it."""
IR_VERSION = 9
FUSED = "com.microsoft"
"""The domain of ONNX Runtime's own fused operators."""

Weights = Mapping[str, np.ndarray]


class GraphWriter:
    """Collects operators and constants; the caller names an operator's outputs, and `add` returns the first."""

    def __init__(self, weights: Weights) -> None:
        self.weights, self.states = weights, ""
        self._constants: list[onnx.TensorProto] = []
        self._operators: list[onnx.NodeProto] = []

    def constant(self, name: str, values: np.ndarray) -> str:
        """Add a named constant and return its name."""
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def weight(self, name: str) -> str:
        """Add a published weight unchanged."""
        return self.constant(name, self.weights[name])

    def add(self, operator: str, inputs: list[str], *outputs: str, domain: str = "", **attributes: Any) -> str:
        """Add one operator; `domain` is FUSED for those of ONNX Runtime."""
        self._operators.append(helper.make_node(operator, inputs, outputs, domain=domain, **attributes))
        return outputs[0]

    def finish(self) -> onnx.ModelProto:
        """Return the model of everything that was added."""
        tokens = helper.make_tensor_value_info("token_ids", TensorProto.INT32, ["texts", "tokens"])
        vectors = helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["texts", DIMENSION])
        states = helper.make_tensor_value_info(self.states, TensorProto.FLOAT, ["texts", "tokens", DIMENSION])
        graph = helper.make_graph(self._operators, "all-MiniLM-L6-v2", [tokens], [vectors, states], self._constants)
        operator_sets = [helper.make_opsetid("", OPSET), helper.make_opsetid(FUSED, 1)]
        return helper.make_model(graph, opset_imports=operator_sets, ir_version=IR_VERSION)


Dense = Callable[[GraphWriter, str, str], str]
"""Writes one dense layer: (graph, its input, its name among the weights) to the name of its output."""


def float_dense(graph: GraphWriter, hidden: str, name: str) -> str:
    """Multiply `hidden` by the layer's matrix, stored as (outputs, inputs), and add its bias; in float32."""
    matrix = graph.constant(f"{name}.matrix", graph.weights[f"{name}.weight"].T)
    product = graph.add("MatMul", [hidden, matrix], f"{name}.product")
    return graph.add("Add", [product, graph.weight(f"{name}.bias")], f"{name}.dense")


def build_graph(weights: Weights, dense: Dense = float_dense) -> onnx.ModelProto:
    """Build the whole model. `weights` are named as in the published safetensors file; `dense` writes its dense layers.

    Raises KeyError if a weight is missing.
    """
    graph = GraphWriter(weights)
    hidden = _embed_tokens(graph)
    for layer in range(LAYERS):
        hidden = _encode(graph, hidden, f"encoder.layer.{layer}.", dense)
    _pool(graph, hidden)
    return graph.finish()


def _embed_tokens(graph: GraphWriter) -> str:
    """Add word, position and segment embeddings (one row: a text is one segment), and normalise the sum."""
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
        ],
        "embedded",
        "unused_lengths",
        domain=FUSED,
        epsilon=LAYER_NORM_EPSILON,
    )


def _encode(graph: GraphWriter, hidden: str, layer: str, dense: Dense) -> str:
    """Add one transformer layer: self-attention, then a two-step feed-forward, each with its residual and norm."""
    parts = [dense(graph, hidden, f"{layer}attention.self.{part}") for part in ("query", "key", "value")]
    attended = graph.add("MultiHeadAttention", parts, f"{layer}attended", domain=FUSED, num_heads=ATTENTION_HEADS)
    projected = dense(graph, attended, f"{layer}attention.output.dense")
    hidden = _add_and_norm(graph, projected, hidden, f"{layer}attention.output.")
    widened = dense(graph, hidden, f"{layer}intermediate.dense")
    activated = graph.add("Gelu", [widened], f"{layer}activated", domain=FUSED)
    narrowed = dense(graph, activated, f"{layer}output.dense")
    return _add_and_norm(graph, narrowed, hidden, f"{layer}output.")


def _add_and_norm(graph: GraphWriter, changed: str, residual: str, block: str) -> str:
    """Add LayerNorm(changed + residual)."""
    total = graph.add("Add", [changed, residual], f"{block}total")
    return graph.add(
        "LayerNormalization",
        [total, graph.weight(f"{block}LayerNorm.weight"), graph.weight(f"{block}LayerNorm.bias")],
        f"{block}normalised",
        axis=-1,
        epsilon=LAYER_NORM_EPSILON,
    )


def _pool(graph: GraphWriter, hidden: str) -> None:
    """Add the mean over the tokens, scaled to length 1, beside the tokens' states."""
    graph.states = hidden
    mean = graph.add("ReduceMean", [hidden], "mean", axes=[1], keepdims=0)
    graph.add("LpNormalization", [mean], "vectors", axis=-1, p=2)


MOST = 127
"""Largest value of a symmetric range, in which zero is zero and needs no zero point."""
PROBE_WIDTH = 512
"""Products that the probe adds up; more than any kernel takes in one step."""


def int8_dense(graph: GraphWriter, hidden: str, name: str) -> str:
    """Write a dense layer as `ingest.embed.minilm_graph.Dense`, its matrix in int8."""
    rounded, scales = quantised(graph.weights[f"{name}.weight"].T)
    inputs = [
        hidden,
        graph.constant(f"{name}.matrix", rounded),
        graph.constant(f"{name}.scales", scales),
        "",  # the zero points of the weights, all zero
        graph.weight(f"{name}.bias"),
    ]
    return graph.add("DynamicQuantizeMatMul", inputs, f"{name}.dense", domain=FUSED)


def quantised(matrix: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return (inputs, outputs) in int8, and a scale per output: int8 x scale is within half a scale of `matrix`."""
    scales = (np.abs(matrix).max(axis=0) / MOST).astype(np.float32)
    scales[scales == 0] = 1.0
    rounded = np.rint(matrix / scales).astype(np.int8)
    return rounded, scales


def build_probe() -> onnx.ModelProto:
    """Multiply `ones`, (1, PROBE_WIDTH) in float32, by a column of ones, both at the top of their 8-bit range."""
    column = np.full((PROBE_WIDTH, 1), MOST, dtype=np.int8)
    constants = [
        numpy_helper.from_array(column, "column"),
        numpy_helper.from_array(np.array([1 / MOST], dtype=np.float32), "scale"),
    ]
    product = helper.make_node("DynamicQuantizeMatMul", ["ones", "column", "scale"], ["total"], domain=FUSED)
    ones = helper.make_tensor_value_info("ones", TensorProto.FLOAT, [1, PROBE_WIDTH])
    total = helper.make_tensor_value_info("total", TensorProto.FLOAT, [1, 1])
    graph = helper.make_graph([product], "probe", [ones], [total], constants)
    operator_sets = [helper.make_opsetid("", OPSET), helper.make_opsetid(FUSED, 1)]
    return helper.make_model(graph, opset_imports=operator_sets, ir_version=IR_VERSION)
