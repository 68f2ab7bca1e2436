"""Reads a Python file into edges."""

from __future__ import annotations

from itertools import chain

from tree_sitter import Tree

from sluice.contracts.grammar import parse
from sluice.contracts.graph.model import Edge, GraphDocument
from sluice.graph.extract.python.definitions import definition_edges
from sluice.graph.extract.python.inference import Inference
from sluice.graph.extract.python.module_names import module_name, package_name
from sluice.graph.extract.python.references import References
from sluice.graph.extract.python.syntax.read import read
from sluice.graph.extract.python.syntax.reader import Reader
from sluice.graph.extract.python.tools import tool_edges
from sluice.graph.extract.python.wrapping import wrapping_edges
from sluice.graph.extract.statements import put_together


def python_edges(document: GraphDocument, tree: Tree | None = None) -> list[Edge]:
    """What the file defines, imports, inherits, registers as tools, and refers to; each edge once, in order.

    Names are bound by Python's rules of scope. A text that is not quite Python is read as far as it is. The file is not
    executed, and nothing but its own text and path is looked at.
    """
    tree = tree or parse("python", document.text.encode("utf-8", "replace"))
    if tree is None:
        return []
    reading = read(Reader(tree.root_node, module_name(document), package_name(document)))
    inference = Inference(reading)
    return list(
        put_together(
            chain(
                definition_edges(document, reading, inference),
                wrapping_edges(document, reading, inference),
                tool_edges(document, reading),
                References(reading, inference).edges(document),
            )
        )
    )
