"""Runs one question in a process that lives for it alone. The standard library and the engine are all it needs.

It is forked from `fork_server`, locks itself up, opens the file for reading and writes what comes out as one JSON
object to a pipe: `columns`, `rows`, `is_cut` (there are more rows) and `is_full` (they are too large), or `error` with
its kind.
"""

from __future__ import annotations

import base64
import json
import math
import os
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from typing import Any
from uuid import UUID

from sluice.graph.cypher.files import FILE
from sluice.graph.cypher.jail import Limits, NoJail, close_in

_BASE_BYTES = 512 << 20
"""Address space of the interpreter and the engine's library."""
_POOL_BYTES = 128 << 20
_MEMORY_BYTES = 512 << 20
"""What a question may take beside the pool and the map of the file."""
_LEAST_MAP_BYTES = 1 << 30


def answer(request: dict[str, Any], pipe: int) -> None:
    """Lock up, run `request`, write the result to the pipe and close it. Raises nothing."""
    try:
        told = _locked(request, pipe)
    except NoJail as error:
        told = {"error": "no_jail", "message": str(error)}
    except MemoryError:
        told = {"error": "memory", "message": ""}
    except Exception as error:  # noqa: BLE001 - it is told over the pipe
        told = {"error": "engine", "message": f"{type(error).__name__}: {error}"}
    _write(pipe, told)
    os.close(pipe)


def _locked(request: dict[str, Any], pipe: int) -> dict[str, Any]:
    folder = request["folder"]
    size = os.stat(os.path.join(folder, FILE)).st_size
    mapped = max(_LEAST_MAP_BYTES, 1 << (size * 4 - 1).bit_length())
    limits = Limits(
        cpu_seconds=math.ceil(request["timeout_seconds"]) + 1,
        address_space_bytes=_BASE_BYTES + _POOL_BYTES + _MEMORY_BYTES + mapped,
    )
    closed = close_in(folder, limits, (pipe,), frozenset(request.get("without", ())))
    if request.get("probe"):
        return {"layers": closed.layers, "missing": closed.missing}
    try:
        os.close(os.open(FILE, os.O_RDONLY))
    except OSError as error:
        return {"error": "closed", "message": error.strerror}
    return _run(request, mapped)


def _run(request: dict[str, Any], mapped: int) -> dict[str, Any]:
    import ladybug

    try:
        database = ladybug.Database(
            FILE, buffer_pool_size=_POOL_BYTES, max_num_threads=1, max_db_size=mapped, read_only=True,
            auto_checkpoint=False,
        )  # fmt: skip
    except RuntimeError as error:
        return {"error": "unreadable", "message": str(error)}
    connection = ladybug.Connection(database, num_threads=1)
    if not request["optimised"]:
        # Version 0.22 drops the ORDER BY of a WITH before an aggregate, and filters below its LIMIT.
        connection.execute("CALL enable_plan_optimizer=false")
    connection.set_query_timeout(max(1, int(request["timeout_seconds"] * 1000)))
    result = connection.execute(request["text"], request["parameters"])
    if isinstance(result, list):
        return {"error": "engine", "message": "more than one statement"}
    columns = result.get_column_names()
    rows, is_cut, is_full = _bounded(result, request["rows"], request["bytes"])
    return {"columns": columns, "rows": rows, "is_cut": is_cut, "is_full": is_full}


def _bounded(result: Any, most_rows: int, most_bytes: int) -> tuple[list[Any], bool, bool]:
    """The rows, whether there were more of them, and whether they were too large."""
    rows: list[Any] = []
    taken = 0
    while result.has_next():
        if len(rows) == most_rows:
            return rows, True, False
        row = [cell(value) for value in result.get_next()]
        taken += len(json.dumps(row, ensure_ascii=False).encode(errors="replace"))
        if taken > most_bytes:
            return rows, False, True
        rows.append(row)
    return rows, False, False


def cell(value: Any) -> Any:
    """A value of the engine as JSON: nodes and edges are objects of their properties, with `label` or `type`."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**63 else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        return cell(int(value)) if value == value.to_integral_value() else float(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return dict(_pairs(value))
    if isinstance(value, list | tuple):
        return [cell(item) for item in value]
    return str(value) if isinstance(value, UUID) else repr(type(value).__name__)


def _pairs(value: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    if "_NODES" in value:
        yield "nodes", [cell(node) for node in value["_NODES"]]
        yield "edges", [cell(edge) for edge in value["_RELS"]]
        return
    if "_LABEL" in value:
        yield ("type" if "_SRC" in value else "label"), value["_LABEL"]
    for name, inner in value.items():
        # A node of one label has the properties of every label that the pattern can mean, as nulls.
        if name not in ("_ID", "_LABEL", "_SRC", "_DST") and not (inner is None and "_LABEL" in value):
            yield name, cell(inner)


def _write(pipe: int, told: dict[str, Any]) -> None:
    # RLIMIT_FSIZE is about files; a pipe takes what it is given.
    view = memoryview(json.dumps(told, ensure_ascii=False).encode(errors="replace"))
    try:
        while view:
            view = view[os.write(pipe, view) :]
    except BrokenPipeError:
        pass
