"""Immutable vector segments: their file, their quantization, their merging."""
