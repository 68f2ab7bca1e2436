"""Compares two short texts by their words, without a model: same, opposite, or something else."""
