"""What the Python samples of a text import: an example of a symbol tells of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from sluice.contracts.graph.model import Edge, EdgeType, GraphDocument, Origin
from sluice.graph.extract.prose.pieces import Kind, Piece
from sluice.graph.extract.python.edges import python_edges

_PROMPT = re.compile(r"^[ \t]*(?:>>>|\.\.\.) ?", re.MULTILINE)
_IMPORTS = re.compile(r"^[ \t]*(?:>>> ?)?(?:from [\w.]+ import|import \w)", re.MULTILINE)
_PYTHON = frozenset({"", "python", "py", "python3", "pycon", "ipython", "doctest"})
MOST_SAMPLES = 500
"""Of one text."""
MOST_CHARACTERS = 50_000
"""Of one sample: longer ones are no examples."""


def sample_edges(document: GraphDocument, pieces: Iterable[Piece]) -> Iterator[Edge]:
    """REFERS_TO edges of the names that code blocks import and use, as mentions."""
    samples = [piece for piece in pieces if piece.kind is Kind.BLOCK and _is_python(piece)]
    for sample in samples[:MOST_SAMPLES]:
        text = _PROMPT.sub("", sample.text) if ">>>" in sample.text else _dedented(sample.text)
        read = GraphDocument(document.document_id, None, None, None, "python", text, {})
        for edge in python_edges(read):
            if edge.type is EdgeType.REFERS_TO and edge.origin is Origin.IMPORT:
                lines = tuple(line + sample.line - 1 for line in edge.lines)
                yield edge._replace(origin=Origin.MENTION, lines=lines)


def _is_python(sample: Piece) -> bool:
    is_short = len(sample.text) <= MOST_CHARACTERS
    return is_short and sample.address in _PYTHON and _IMPORTS.search(sample.text) is not None


def _dedented(text: str) -> str:
    """Without the indentation of its first line that is not blank."""
    first = next((line for line in text.split("\n") if line.strip()), "")
    indent = first[: len(first) - len(first.lstrip())]
    return "\n".join(line.removeprefix(indent) for line in text.split("\n"))
