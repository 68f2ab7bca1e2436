"""Evaluation: how well retrieval answers, measured through the live interface."""
