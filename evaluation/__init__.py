"""Evaluation: measures the quality of retrieval through the live interface."""
