"""The program of a process that lives for one query alone. It needs the standard library and the engine only.

It takes the query as JSON from standard input, loads the engine, locks itself up and opens the file for reading. On
standard output it writes a line break when it is locked up, then one JSON object: `columns`, `rows`, `is_cut` (there
are more rows) and `is_full` (they are too large), or `error` with its kind.
"""

from __future__ import annotations

import base64
import json
import math
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import date
from decimal import Decimal
from typing import Any
from uuid import UUID

from sluice.disk.jail import Limits, NoJail, close_in

_BASE_BYTES = 512 << 20
"""Address space of the interpreter and the engine's library."""
_POOL_BYTES = 128 << 20
_MEMORY_BYTES = 512 << 20
"""Memory for a query beside the pool and the map of the file."""
_LEAST_MAP_BYTES = 1 << 30
_DESCRIPTORS = 32
_OUTPUT = 1


def main() -> None:
    """Lock up, run the request that standard input holds, and write the result. Raises nothing."""
    request = json.load(sys.stdin)
    try:
        told = _locked(request)
    except NoJail as error:
        told = {"error": "no_jail", "message": str(error)}
    except MemoryError:
        told = {"error": "memory", "message": ""}
    except ModuleNotFoundError as error:
        told = {"error": "missing", "message": error.name or str(error)}
    except Exception as error:  # noqa: BLE001 - it is reported over the pipe
        told = {"error": "engine", "message": f"{type(error).__name__}: {error}"}
    _write(json.dumps(told, ensure_ascii=False).encode(errors="replace"))
    os._exit(0)


def _locked(request: dict[str, Any]) -> dict[str, Any]:
    import ladybug._lbug  # before files are closed: it loads its library at the first use

    folder, file = request["folder"], request["file"]
    size = os.stat(os.path.join(folder, file)).st_size
    mapped = max(_LEAST_MAP_BYTES, 1 << (size * 4 - 1).bit_length())
    limits = Limits(
        cpu_seconds=math.ceil(request["timeout_seconds"]) + 1,
        address_space_bytes=_BASE_BYTES + _POOL_BYTES + _MEMORY_BYTES + mapped,
        descriptors=_DESCRIPTORS,
    )
    closed = close_in(folder, limits, (_OUTPUT,), frozenset(request.get("without", ())))
    _write(b"\n")
    if request.get("probe"):
        return {"layers": closed.layers, "missing": closed.missing}
    try:
        os.close(os.open(file, os.O_RDONLY))
    except OSError as error:
        return {"error": "closed", "message": error.strerror}
    return _run(ladybug, request, mapped)


def _run(ladybug: Any, request: dict[str, Any], mapped: int) -> dict[str, Any]:
    try:
        database = ladybug.Database(
            request["file"], buffer_pool_size=_POOL_BYTES, max_num_threads=1, max_db_size=mapped, read_only=True,
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
    """Return the rows, whether there were more of them, and whether they were too large."""
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
    """Convert an engine's value to JSON: nodes and edges are objects of their properties, with `label` or `type`."""
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
        # A node of one label has the properties of every label that the pattern allows, as nulls.
        if name not in ("_ID", "_LABEL", "_SRC", "_DST") and not (inner is None and "_LABEL" in value):
            yield name, cell(inner)


def _write(written: bytes) -> None:
    # RLIMIT_FSIZE limits files only; a pipe takes every byte.
    view = memoryview(written)
    with suppress(BrokenPipeError):
        while view:
            view = view[os.write(_OUTPUT, view) :]
