"""How many files a second the graph reads, without embedding: `python -m bench.graph.build [TREE ...]`.

Each file is read into edges, its row is written to an SQLite ledger in transactions of a hundred, and the rows are
folded and published. Times are the processor's, so a busy machine does not change them; the wall clock's is told
beside. Without a TREE: this repository and the standard library.
"""

from __future__ import annotations

import argparse
import resource
import sysconfig
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from bench.graph.tree import read_tree
from sluice.graph.generations.publish import publish
from sluice.ledger.graph.reading import GraphRow
from sluice.ledger.graph.store import Change
from sluice.ledger.ledger import Ledger
from tests.support.graph.corpus import graph_document
from tests.support.graph.grown import row_of
from tests.support.repository import REPOSITORY

AT_ONCE = 100
TREES = (REPOSITORY, Path(sysconfig.get_path("stdlib")))


def build(tree: Path, folder: Path) -> str:
    """Build the graph of a tree; the figures, in one line."""
    files, started = read_tree(tree), time.perf_counter()
    with Ledger(f"sqlite:///{folder / 'ledger.sqlite'}") as ledger:
        seconds = {"read": 0.0, "write": 0.0}
        documents = [graph_document(path, text) for path, text in files.items()]
        for first in range(0, len(documents), AT_ONCE):
            began = time.process_time()
            rows: list[GraphRow] = [row_of(document) for document in documents[first : first + AT_ONCE]]
            parsed = time.process_time()
            ledger.graph.carry_out("tree", Change(first + 1, replace=rows))
            seconds["read"] += parsed - began
            seconds["write"] += time.process_time() - parsed
        with ledger.graph.snapshot("tree") as snapshot:
            made = publish(
                folder / "graph",
                snapshot.rows(),
                snapshot.citations(),
                version=snapshot.totals.version,
                now=datetime.now(UTC),
                seconds=time.process_time,
            )
        totals = ledger.graph.totals("tree")
    megabytes = sum(map(len, files.values())) / 1e6
    whole = sum(seconds.values()) + made.seconds
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return (
        f"{tree}: {len(files)} files, {megabytes:.1f} MB, {totals.edges} edges; read {seconds['read']:.1f} s, "
        f"write {seconds['write']:.1f} s, publish {made.seconds:.1f} s: {len(files) / whole:.0f} files/s; "
        f"{memory:.0f} MB; {time.perf_counter() - started:.0f} s by the clock"
    )


def main() -> None:
    """Build the graph of each tree."""
    parser = argparse.ArgumentParser(prog="python -m bench.graph.build", description=__doc__)
    parser.add_argument("trees", nargs="*", type=Path, default=TREES)
    for tree in parser.parse_args().trees:
        with tempfile.TemporaryDirectory(prefix="graph-build-") as folder:
            print(build(tree, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
