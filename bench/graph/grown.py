"""Is the graph that grew the one that is built anew? `python -m bench.graph.grown [TREE ...] [--steps 300] [--seed 1]`.

Files of a tree come, are edited and reverted, move, are deleted, and whole folders are taken out, in random order; some
events are handled twice or late. In the end the rows, their sums and the hash of the whole have to be those of a graph
that is read anew. Then one file is edited, and its edges alone may differ. Without a TREE: this repository and the
standard library.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from bench.graph.build import TREES
from bench.graph.tree import read_tree
from sluice.ledger.graph.store import Change, Graphs
from sluice.ledger.ledger import Ledger
from tests.support.graph.corpus import graph_document
from tests.support.graph.grown import Growing, edited, row_of


def grow(tree: Path, graph: Graphs, steps: int, seed: int) -> bool:
    """Whether the grown graph of a tree is the rebuilt one, and one edit changes one file's edges."""
    began, files = time.monotonic(), read_tree(tree)
    growing = Growing(graph, tree.name, {path: edited(text) for path, text in files.items()}, seed)
    growing.set_all(files)
    growing.happens(steps)
    is_equal = growing.is_as_rebuilt()
    before = {row.document_id: row for row in graph.rows(tree.name)}
    path, text = next(iter(growing.texts.items()))
    changed = row_of(graph_document(path, f"# seen once more\n{text}"))
    graph.carry_out(tree.name, Change(growing.as_of + 1, replace=[changed]))
    differing = [row.document_id for row in graph.rows(tree.name) if before.get(row.document_id) != row]
    totals = graph.totals(tree.name)
    print(
        f"{tree}: {len(files)} files, {steps} steps, seed {seed}: {totals.version} changes, {totals.documents} "
        f"documents, {totals.edges} edges; grown {'=' if is_equal else '!='} rebuilt; one edit changed the edges of "
        f"{len(differing)} of them; {time.monotonic() - began:.0f} s",
        flush=True,
    )
    return is_equal and differing == [changed.document_id]


def main() -> int:
    """Grow the graph of each tree; 1 where one of them is another than the rebuilt one."""
    parser = argparse.ArgumentParser(prog="python -m bench.graph.grown", description=__doc__)
    parser.add_argument("trees", nargs="*", type=Path, default=TREES)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="graph-grown-") as folder, Ledger(f"sqlite:///{folder}/l.sqlite") as ledger:
        good = [grow(tree, ledger.graph, asked.steps, asked.seed) for tree in asked.trees]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
