"""Pairs of learnings: by rule (`*.toml`) and by hand (`*.tsv`), to choose the comparison on and to check it."""
