"""Judges whether answers keep to their passages: the RFC's RAGAS bridge, and a measure without a language model."""
