"""Rerankers behind one protocol: a local ONNX model, an HTTP endpoint."""
