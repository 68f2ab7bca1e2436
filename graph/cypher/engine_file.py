"""Writes and finds the engine's file of a generation.

    graph-000000000012/cypher/cypher.lbug   the file, alone in its folder: the reading process sees only this folder
    graph-000000000012/cypher.json          its manifest; written last, so that a file without it does not count

The file is built whole from rows (tables by the schema, bulk copies, a checkpoint, a rename) and is never changed
afterwards, so no reader ever meets a writer, a half-made file or a log to be replayed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from sluice.contracts.graph.model import EdgeType, NodeLabel
from sluice.disk.durable import fsync_path, write_durably
from sluice.disk.jail import NOBODY
from sluice.graph.schema import EDGE_ENDS, EDGE_PROPERTIES, NODE_PROPERTIES

FOLDER = "cypher"
FILE = "cypher.lbug"
MANIFEST = "cypher.json"
TEMPORARY = ".cypher-"
SCHEMA_VERSION = 1
"""Counts changes of tables and properties: files of another version do not count and are written anew."""
_GENERATION = re.compile(r"graph-\d{12}")


class CypherFile(NamedTuple):
    """An engine's file that may be read."""

    generation: str
    version: int
    """Changes of the corpus's graph that it covers."""
    folder: Path
    """Holds the file and nothing else."""
    nodes: int
    edges: int
    seconds: float
    """Seconds that writing took."""
    written_at: float
    """Seconds since 1970."""


def file_of(generation: Path) -> CypherFile | None:
    """Return the file of one generation; None: it has none, or one of another schema version."""
    try:
        manifest = json.loads((generation / MANIFEST).read_bytes())
        if manifest["schema_version"] != SCHEMA_VERSION or not (generation / FOLDER / FILE).is_file():
            return None
        return CypherFile(
            generation.name,
            manifest["version"],
            generation / FOLDER,
            manifest["nodes"],
            manifest["edges"],
            manifest["seconds"],
            (generation / MANIFEST).stat().st_mtime,
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def newest_files(folder: Path) -> list[CypherFile]:
    """Return the files of a corpus, newest first; `folder` holds its generations."""
    try:
        names = sorted((entry for entry in folder.iterdir() if _GENERATION.fullmatch(entry.name)), reverse=True)
    except OSError:
        return []
    return [found for found in map(file_of, names) if found is not None]


def discard(generation: Path) -> None:
    """Throw away a generation's file; queries that have it open go on."""
    (generation / MANIFEST).unlink(missing_ok=True)
    shutil.rmtree(generation / FOLDER, ignore_errors=True)
    for left in generation.glob(f"{TEMPORARY}*"):
        shutil.rmtree(left, ignore_errors=True)


POOL_BYTES = 256 << 20
THREADS = 1
_MAX_MAP_BYTES = 1 << 36

Value = str | int | Sequence[int] | None


class NodeRow(NamedTuple):
    """A node: its label, and its properties in the order of `NODE_PROPERTIES[label]`."""

    label: NodeLabel
    values: tuple[str | None, ...]


class EdgeRow(NamedTuple):
    """An edge between the ids of two nodes, and its properties in the order of `EDGE_PROPERTIES`."""

    type: EdgeType
    source_label: NodeLabel
    source: str
    target_label: NodeLabel
    target: str
    values: tuple[Value, ...]


def write_file(generation: Path, nodes: Iterable[NodeRow], edges: Iterable[EdgeRow], version: int) -> CypherFile:
    """Write the file of a generation from its rows, replacing an earlier one.

    A repeated node is written once; an edge to a missing node is left out. Raises OSError where the disk refuses,
    RuntimeError where the engine does. The caller must be the only writer, as in `build_in_child`.
    """
    began = time.monotonic()
    discard(generation)
    work = generation / f"{TEMPORARY}{os.getpid()}"
    tables = work / "tables"
    tables.mkdir(parents=True)
    try:
        copied = _Tables(tables)
        copied.add(nodes, edges)
        (work / FOLDER).mkdir()
        _load(work / FOLDER / FILE, copied)
        _give_away(work / FOLDER)
        fsync_path(work / FOLDER / FILE)
        fsync_path(work / FOLDER)
        (work / FOLDER).rename(generation / FOLDER)
        manifest = {
            "schema_version": SCHEMA_VERSION,
            "version": version,
            "nodes": copied.nodes,
            "edges": copied.edges,
            "seconds": round(time.monotonic() - began, 3),
        }
        write_durably(work / MANIFEST, json.dumps(manifest).encode())
        (work / MANIFEST).rename(generation / MANIFEST)
        fsync_path(generation)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    written = file_of(generation)
    if written is None:
        raise OSError(f"the file of the Cypher engine vanished from {generation}")
    return written


def _give_away(folder: Path) -> None:
    """Let only the owner read the file. Root gives it to `nobody`, the user that root becomes before reading it."""
    (folder / FILE).chmod(0o400)
    if os.geteuid() == 0:
        for path in (folder / FILE, folder):
            os.chown(path, NOBODY, NOBODY)


class _Tables:
    """The rows as CSV files, one for each label, and for each type of edge with its two labels."""

    def __init__(self, folder: Path) -> None:
        self.nodes = 0
        self.edges = 0
        self.labels: dict[NodeLabel, Path] = {label: folder / f"{label}.csv" for label in NODE_PROPERTIES}
        self.ends: dict[tuple[EdgeType, NodeLabel, NodeLabel], Path] = {}
        self._folder = folder

    def add(self, nodes: Iterable[NodeRow], edges: Iterable[EdgeRow]) -> None:
        """Write the rows, each node once and edges only between existing nodes."""
        ids: dict[NodeLabel, set[str]] = {label: set() for label in NODE_PROPERTIES}
        with ExitStack() as opened:
            files = {path: opened.enter_context(_opened(path)) for path in self.labels.values()}
            for node in nodes:
                values = list(map(_written, node.values))
                if values[0] and values[0] not in ids[node.label]:
                    ids[node.label].add(values[0])
                    files[self.labels[node.label]].write(",".join(values) + "\n")
                    self.nodes += 1
            for edge in edges:
                values = list(map(_written, (edge.source, edge.target, *edge.values)))
                if values[0] not in ids[edge.source_label] or values[1] not in ids[edge.target_label]:
                    continue
                ends = (edge.type, edge.source_label, edge.target_label)
                path = self.ends.setdefault(ends, self._folder / ("-".join(ends) + ".csv"))
                if path not in files:
                    files[path] = opened.enter_context(_opened(path))
                files[path].write(",".join(values) + "\n")
                self.edges += 1


def _opened(path: Path) -> TextIO:
    return path.open("w", newline="", encoding="utf-8", errors="replace", buffering=1 << 18)


def _written(value: Value) -> str:
    """Return a value in CSV: texts in quotes, on one line; null is empty."""
    if value is None:
        return ""
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        text = value if value.isprintable() else " ".join(value.replace("\0", " ").split())
        return '"' + text.replace('"', '""') + '"'
    return '"[' + ",".join(map(str, value)) + ']"'


def _load(file: Path, tables: _Tables) -> None:
    import ladybug

    database = ladybug.Database(
        file, buffer_pool_size=POOL_BYTES, max_num_threads=THREADS, max_db_size=_MAX_MAP_BYTES, auto_checkpoint=False
    )
    try:
        connection = ladybug.Connection(database, num_threads=THREADS)
        for statement in create_tables(tables.ends):
            connection.execute(statement)
        for label, path in tables.labels.items():
            _copy(connection, label, path, "")
        for (kind, source, target), path in tables.ends.items():
            _copy(connection, kind, path, f", from='{source}', to='{target}'")
        connection.execute("CHECKPOINT")
        connection.close()
    finally:
        database.close()


def create_tables(found: Iterable[tuple[EdgeType, NodeLabel, NodeLabel]]) -> Iterator[str]:
    """Yield the statements that make the tables; `found` has the type and the two labels of each kind of edge."""
    for label, names in NODE_PROPERTIES.items():
        yield f"CREATE NODE TABLE {label}({', '.join(f'{name} STRING' for name in names)}, PRIMARY KEY(id))"
    ends = {kind: dict.fromkeys(pairs) for kind, pairs in EDGE_ENDS.items()}
    for kind, source, target in sorted(found):
        ends[kind][source, target] = None
    properties = ", ".join(f"{name} {kind}" for name, kind in EDGE_PROPERTIES.items())
    for kind, pairs in ends.items():
        fromto = ", ".join(f"FROM {source} TO {target}" for source, target in pairs)
        yield f"CREATE REL TABLE {kind}({fromto}, {properties})"


def _copy(connection: Any, table: str, path: Path, ends: str) -> None:
    if path.stat().st_size:
        quoted = str(path).replace("\\", "\\\\").replace("'", "\\'")
        connection.execute(f"COPY {table} FROM '{quoted}' (header=false, escape='\"', parallel=false{ends})")
