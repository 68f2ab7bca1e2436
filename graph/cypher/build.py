"""Writes the engine's file of the current generation, in a process of its own.

A crash of the engine ends only that process. One process writes at a time in a corpus, held by a file lock; one that
takes too long is killed, and the next throws its leftovers away.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from typing import NamedTuple

from sluice.contracts.errors import TimedOut, Unavailable, needed
from sluice.contracts.graph.model import EdgeType, NodeLabel, Origin
from sluice.disk.durable import lock_file
from sluice.disk.jail import child_command
from sluice.graph.cypher.engine_file import CypherFile, EdgeRow, NodeRow, file_of, write_file
from sluice.graph.generations.definitions import How
from sluice.graph.generations.publish import current, open_generation
from sluice.graph.generations.view import GraphView
from sluice.graph.schema import named


class DocumentFacts(NamedTuple):
    """Facts on a document that a generation does not hold. Each may be None."""

    language: str | None = None
    content_hash: str | None = None
    embedding_version: str | None = None
    updated_at: str | None = None
    """ISO 8601 in UTC."""


def node_rows(view: GraphView, corpus: str, facts: Mapping[str, DocumentFacts]) -> Iterator[NodeRow]:
    """Yield every node of the generation. `facts` are by a document's id; a missing one leaves its properties null."""
    unknown = DocumentFacts()
    for place in range(view.nodes):
        node = view.node(place)
        values: Iterable[str | None] = named(node).values()
        if node.label is NodeLabel.DOCUMENT:
            values = view.path(place), view.title(place), view.url(place), *facts.get(node.key, unknown)
        yield NodeRow(node.label, (node.key, corpus, *values))


def edge_rows(view: GraphView) -> Iterator[EdgeRow]:
    """Yield every edge of the generation, as its document states it, and those derived from all documents together.

    A name that is defined under another one (imported as `shop.cart`, in `src/shop/cart.py`) also leads to its
    definition: `detail` names the rule. So a pattern need not know how names are resolved.
    """
    stated: set[tuple[int, int]] = set()
    for number in range(view.edges):
        edge = view.edge(number)
        source, target = view.node(edge.source), view.node(edge.target)
        first = edge.lines[0] if edge.lines else None
        values = (edge.origin, first, edge.lines, edge.candidates, edge.detail)
        yield EdgeRow(edge.type, source.label, source.key, target.label, target.key, values)
        if edge.type in _ADDED.values():
            stated.add((edge.source, edge.target))
    for meant in view.meant():
        if (meant.name, meant.document) in stated:
            continue
        stated.add((meant.name, meant.document))
        name, document = view.node(meant.name), view.node(meant.document)
        lines = tuple(dict.fromkeys(line for line in (meant.first, meant.last) if line))
        told = (Origin.NAME, lines[0] if lines else None, lines, meant.candidates, _RULES[meant.how])
        yield EdgeRow(_ADDED[name.label], name.label, name.key, document.label, document.key, told)


_ADDED = {NodeLabel.SYMBOL: EdgeType.DEFINED_IN, NodeLabel.URL: EdgeType.RESOLVES_TO}
_RULES = {How.EXACT: "by path", How.SUFFIX: "by path", How.ALIAS: "by re-export", How.INHERITED: "by inheritance"}


LOCK = ".cypher.lock"
_TOLD_CHARACTERS = 500


def build_in_child(
    folder: Path, timeout_seconds: float, *, corpus: str = "default", facts: Mapping[str, DocumentFacts] | None = None
) -> CypherFile | None:
    """Write the engine's file of the current generation, unless it exists; None: nothing is published.

    `folder` holds the generations of the corpus. Raises TimedOut after the time limit, Unavailable where another
    process writes, or the child fails, NotInstalled without the extra `cypher`.
    """
    generation = current(folder)
    if generation is None:
        return None
    if find_spec("ladybug") is None:
        raise needed("cypher", ImportError(name="ladybug"))
    with lock_file(folder / LOCK, Unavailable(f"another process writes the file of the Cypher engine in {folder}")):
        written = file_of(folder / generation.name)
        if written is None:
            _in_child(folder, timeout_seconds, corpus, facts or {})
            written = file_of(folder / generation.name)
    if written is None:
        raise Unavailable(f"the file of the Cypher engine of {generation.name} was not written")
    return written


def main(folder: str) -> int:
    """Run the child: build for the current generation, by the request on standard input."""
    told = json.load(sys.stdin)
    # The process that waits for this one may be gone by then.
    resource.setrlimit(resource.RLIMIT_CPU, (told["cpu_seconds"], told["cpu_seconds"]))
    facts = {key: DocumentFacts(*values) for key, values in told["facts"].items()}
    build(Path(folder), told["corpus"], facts)
    return 0


def build(folder: Path, corpus: str, facts: Mapping[str, DocumentFacts]) -> CypherFile | None:
    """Write the file in this process; see `build_in_child`. Raises Corrupted where the generation is damaged."""
    generation = current(folder)
    if generation is None:
        return None
    view = open_generation(folder, generation)
    return write_file(folder / generation.name, node_rows(view, corpus, facts), edge_rows(view), generation.version)


def _in_child(folder: Path, timeout_seconds: float, corpus: str, facts: Mapping[str, DocumentFacts]) -> None:
    process = subprocess.Popen(  # noqa: S603 - our own interpreter and sources
        child_command("sluice.graph.cypher.build", str(folder.resolve())),
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        env={"OMP_NUM_THREADS": "1"}, cwd="/", start_new_session=True, text=True,
    )  # fmt: skip
    try:
        request = {"corpus": corpus, "facts": facts, "cpu_seconds": ceil(timeout_seconds) + 1}
        _, told = process.communicate(json.dumps(request), timeout=timeout_seconds)
    except subprocess.TimeoutExpired as error:
        raise TimedOut(f"writing the file of the Cypher engine took longer than {timeout_seconds:g} s") from error
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    if process.returncode:
        raise Unavailable(
            f"the process that writes the file of the Cypher engine ended with {process.returncode}: "
            f"{told.strip()[-_TOLD_CHARACTERS:]}"
        )
