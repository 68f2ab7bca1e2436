"""Answers a Cypher query on a corpus: checked, on its newest file, in a locked process.

Each query has a process of its own, in a bare interpreter without environment: it has no secret, thread or file of
the instance. It is killed where it takes too long or writes too much, and leaves nothing behind.
"""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from sluice.contracts.errors import InvalidInput, NotFound, Overloaded, TimedOut, Unavailable, needed
from sluice.contracts.graph.api import CypherRequest, CypherResult
from sluice.disk.jail import child_command
from sluice.graph.cypher.engine_file import FILE, CypherFile, discard, newest_files
from sluice.graph.cypher.guard import Parameter, Statement, guard
from sluice.graph.schema import NODE_PROPERTIES

MAX_RESULT_BYTES = 8 << 20
MAX_AT_ONCE = 4
"""Queries that run at a time in one of our processes; each may take a processor and some hundred megabytes."""
_START_SECONDS = 20.0
"""Limit until a process is locked up and begins: a tenth of a second where the machine is idle."""
_GRACE_SECONDS = 0.5
"""Added to the time limit, for the answer of an engine that stopped at it."""
_MEMORY_WORDS = ("buffer pool is full", "bad_alloc", "cannot allocate", "mmap")
_NO_PROPERTY = re.compile(r"Cannot find property (\w+) for (\w+)")
_SHOWN_CHARACTERS = 300
_at_once = threading.BoundedSemaphore(MAX_AT_ONCE)


class Unreadable(Unavailable):
    """The engine does not open the file."""


def run_cypher(request: CypherRequest, folder: Path, version: int | None = None) -> CypherResult:
    """Return the rows for a query. `folder` holds the generations of the request's corpus.

    `version` counts the changes of the corpus's graph in the ledger, for the answer's lag behind them. Raises
    InvalidInput of `query` (with line and column) or `parameters`; NotFound where no generation has a file of the
    engine; TimedOut and Overloaded; Unavailable where the system cannot lock up a process; NotInstalled.
    """
    began = time.monotonic()
    statement = guard(request.query, request.parameters, request.corpus, request.limit)
    found, told = _run_on_newest(statement, folder, request.timeout_seconds)
    columns = statement.columns if statement.columns is not None else tuple(told["columns"])
    return CypherResult(
        columns=columns,
        rows=tuple(tuple(row) for row in told["rows"]),
        is_cut=(told["is_cut"] and statement.rows == request.limit) or told["is_full"],
        generation=found.generation,
        behind=max(0, (version or 0) - found.version),
        duration_ms=round((time.monotonic() - began) * 1000, 3),
    )


def _run_on_newest(statement: Statement, folder: Path, timeout_seconds: float) -> tuple[CypherFile, dict[str, Any]]:
    """Run a statement on the newest file that opens. A file that does not open is thrown away."""
    for found in newest_files(folder):
        try:
            told = run_text(
                statement.text, statement.parameters, statement.rows, found.folder, timeout_seconds,
                optimised=not statement.cuts_before_the_end,
            )  # fmt: skip
        except FileNotFoundError:
            continue  # a newer generation took its place
        except Unreadable:
            discard(found.folder.parent)
        else:
            return found, told
    raise NotFound(
        "the graph of this corpus has no file for Cypher yet: it is written after the graph is published, "
        "when graph.cypher is on"
    )


def run_text(
    text: str, parameters: Mapping[str, Parameter], rows: int, folder: Path, timeout_seconds: float, *,
    without: tuple[str, ...] = (), optimised: bool = True,
) -> dict[str, Any]:  # fmt: skip
    """Run any text in the locked process, as it is, on the file in `folder`: `columns`, `rows`, `is_cut`, `is_full`.

    `without` leaves layers of the lock out, for tests. Raises InvalidInput of `query` where the engine rejects it,
    TimedOut after the time limit, Overloaded when too many run, Unavailable where no process starts or one ends without
    an answer, NotInstalled, and FileNotFoundError where the file is gone.
    """
    request = {
        "folder": str(folder.resolve()),
        "file": FILE,
        "text": text,
        "parameters": dict(parameters),
        "rows": rows,
        "optimised": optimised,
        "bytes": MAX_RESULT_BYTES,
        "timeout_seconds": timeout_seconds,
        "without": without,
    }
    return _judged(_in_child(request, timeout_seconds), timeout_seconds)


def find_layers(folder: Path, *, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """Find the layers of the lock that hold here (`layers`), and why others fail (`missing`). Raises as `run_text`."""
    request = {"folder": str(folder.resolve()), "file": FILE, "probe": True, "timeout_seconds": 5.0, "without": without}
    return _judged(_in_child(request, 5.0), 5.0)


def _in_child(request: Mapping[str, Any], timeout_seconds: float) -> dict[str, Any]:
    """Return the answer of a process that lives for this request; see `graph.cypher.child`."""
    if not _at_once.acquire(timeout=timeout_seconds):
        raise Overloaded("too many Cypher queries run at this time")
    try:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and sources
            child_command("sluice.graph.cypher.child"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={}, cwd="/",
            start_new_session=True,
        )  # fmt: skip
        with process:
            try:
                written = _asked(process, json.dumps(request).encode(), timeout_seconds)
            finally:
                process.kill()
    except OSError as error:
        raise Unavailable(f"no process for a Cypher query can be had: {error}") from error
    finally:
        _at_once.release()
    try:
        return dict(json.loads(written))
    except ValueError:
        raise Unavailable(
            "the Cypher engine ended without an answer: the query took more memory or time than it may, "
            "or the engine failed; a smaller query can help"
        ) from None


def _asked(process: subprocess.Popen[bytes], request: bytes, timeout_seconds: float) -> bytes:
    """Send the request and read the answer; it begins with white space once the process has started."""
    assert process.stdin is not None  # noqa: S101
    assert process.stdout is not None  # noqa: S101
    with suppress(BrokenPipeError):  # it ended: there will be no answer
        process.stdin.write(request)
        process.stdin.close()
    reading = process.stdout.fileno()
    waiting = select.poll()
    waiting.register(reading, select.POLLIN)
    parts: list[bytes] = []
    total = 0
    until = time.monotonic() + _START_SECONDS
    while True:
        left = until - time.monotonic()
        if left <= 0 or not waiting.poll(left * 1000):
            raise TimedOut("the Cypher query took longer than its time limit, and was ended")
        part = os.read(reading, 1 << 16)
        if not part:
            return b"".join(parts)
        if not parts:
            until = time.monotonic() + timeout_seconds + _GRACE_SECONDS
        total += len(part)
        if total > 2 * MAX_RESULT_BYTES:
            raise Unavailable("the Cypher engine answers with more than it may")
        parts.append(part)


def _judged(told: dict[str, Any], timeout_seconds: float) -> dict[str, Any]:
    """Return `told` if it is a result; else raise its error: `Unreadable`, or one that `run_text` names."""
    kind = told.get("error")
    if kind is None:
        return told
    message = str(told.get("message", ""))
    if kind == "no_jail":
        raise Unavailable(
            "Cypher is refused, as this system cannot lock up the process that would run it; it takes user namespaces, "
            f"Landlock or seccomp ({message})"
        )
    if kind == "missing":
        raise needed("cypher", ImportError(message, name=message))
    if kind == "memory" or any(word in message.lower() for word in _MEMORY_WORDS):
        raise InvalidInput("query", "takes more memory than a query may", "match less, or LIMIT earlier")
    if "FileNotFoundError" in message:
        raise FileNotFoundError(message)
    if kind == "closed":
        raise Unavailable(f"the locked process cannot read the file of the Cypher engine: {message}")
    if kind == "unreadable":
        raise Unreadable("the file of the Cypher engine cannot be opened; it is written anew with the next generation")
    if "interrupted" in message.lower():
        raise TimedOut(f"the query took longer than {timeout_seconds:g} s")
    raise InvalidInput("query", *_refusal(message))


def _refusal(message: str) -> tuple[str, str]:
    """Return problem and remedy for an engine's error on a query that passed the guard."""
    missing = _NO_PROPERTY.search(message)
    if missing:
        has = "; ".join(f"{label}: {', '.join(names)}" for label, names in NODE_PROPERTIES.items())
        return f"{missing[2]} has no property {missing[1]}", f"by label: {has}"
    if "AGGREGATE_FUNCTION" in message:
        return (
            "a count or another aggregate is computed with a value that is not returned",
            "return that value too, or aggregate first: WITH total, count(d) AS n RETURN n / total",
        )
    return f"the engine does not take it: {_plain(message)}", "see docs/graph-cypher.md"


def _plain(message: str) -> str:
    """Return the engine's message without local paths, names of parameters and its drawing of the position."""
    first = message.split('\n"', 1)[0].split(" Supported inputs are", 1)[0]
    words = [word for word in first.replace("`", "").split() if "/" not in word]
    return " ".join(words).removeprefix("RuntimeError: ").removeprefix("Binder exception: ")[:_SHOWN_CHARACTERS]
