"""The dense layers of the local model in 8-bit integers: a quarter of the memory, several times the speed.

Weights are rounded per output column, symmetrically: q = round(w / s) with s = max|w| / 127 of the column, so
that one large weight coarsens its own column and no other. Activations are quantised while the model runs, with
one scale for all tokens of a text and the text's own range (`DynamicQuantizeMatMul`), so nothing has to be
calibrated. Attention, normalisation and GELU stay in float32. (Jacob et al. 2018, arXiv:1712.05877; Zafrir et
al. 2019, arXiv:1910.06188, for BERT.)

Signed weights against unsigned activations are what processors have instructions for (VNNI, AMX). Older ones add
two such products in 16 bits and saturate; `build_probe` is the smallest network that shows it.

Only building needs `onnx`, and with it this module.
"""

from __future__ import annotations

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from sluice.ingest.embed.minilm.graph import FUSED, IR_VERSION, OPSET, GraphWriter

MOST = 127
"""The range is symmetric, so that zero is zero and needs no zero point."""
PROBE_WIDTH = 512
"""Products that the probe adds up; more than any kernel takes in one step."""


def int8_dense(graph: GraphWriter, hidden: str, name: str) -> str:
    """A dense layer as `ingest.embed.minilm.graph.Dense` wants it, its matrix in int8."""
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
    """(inputs, outputs) in int8, and the scale of each output: int8 x scale is within half a scale of `matrix`."""
    scales = (np.abs(matrix).max(axis=0) / MOST).astype(np.float32)
    scales[scales == 0] = 1.0
    rounded = np.rint(matrix / scales).astype(np.int8)
    return rounded, scales


def build_probe() -> onnx.ModelProto:
    """Multiplies `ones`, (1, PROBE_WIDTH) in float32, by a column of ones, both at the top of their 8-bit range."""
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
