"""Splits text into passages: sections, prose, code, tokens."""
