"""Judges whether passages support answers: the RFC's RAGAS bridge, and a measure without a language model."""
