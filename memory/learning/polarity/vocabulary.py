"""The words of rules and findings about software (`vocabulary.toml`), and marks that stand for phrases of them."""

from __future__ import annotations

from pathlib import Path

from sluice.text.pattern_file import PatternFile

VOCABULARY = PatternFile(Path(__file__).with_name("vocabulary.toml"))

BE = frozenset({"am", "is", "are", "was", "were", "be", "been", "being", "gets", "got"})
AUXILIARIES = BE | {"do", "does", "did", "has", "have", "had", "will", "would", "shall", "should", "must", "can"}
AUXILIARIES |= {"could", "may", "might", "to", "please", "just", "but", "that", "so", "you", "we", "it", "they", "i"}
PARTICIPLES_LIKE_THE_VERB = frozenset(
    {"run", "set", "put", "read", "cut", "hit", "let", "reset", "rerun", "shut", "split"}
)

NOT, INSTEAD, PURPOSE = "<not>", "<instead>", "<purpose>"
MUST, SHOULD, CAN, NEED_NOT = "<must>", "<should>", "<can>", "<need not>"

CLAUSES = frozenset({"before", "after", "when", "unless", "until", "while", "because", "so", "otherwise", "but"})
CLAUSES |= {INSTEAD, PURPOSE, "although", "though", "whereas", "except", "where"}
REASONS = frozenset({"because", PURPOSE, "otherwise", "which"})

MARKS_APART = (
    ("<at least>", "<at most>"),
    ("<more than>", "<less than>"),
    ("<can>", "<need not>"),
    ("before", "<instead>"),
)
"""Readings of phrases that say the contrary of each other."""
