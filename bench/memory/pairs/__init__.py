"""Pairs of learnings: `advice` to choose the comparison on, `findings` and `written.tsv` to check it on."""
