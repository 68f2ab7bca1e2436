"""Measures retrieval on questions with known answers: cases, measures, reports, comparisons."""
