"""all-MiniLM-L6-v2, run by onnxruntime from the weights of an installed package."""
