"""Immutable vector segments: their file, their quantization, when they merge."""
