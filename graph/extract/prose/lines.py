"""Texts that are neither prose nor of a language with a grammar, like YAML: each line is words."""

from __future__ import annotations

from collections.abc import Iterator

from sluice.graph.extract.prose.pieces import MOST_CHARACTERS, Kind, Piece


def read_lines(text: str) -> Iterator[Piece]:
    """A piece for each line that holds something."""
    for number, line in enumerate(text[:MOST_CHARACTERS].split("\n"), 1):
        if line.strip():
            yield Piece(Kind.WORDS, line, number)
