"""Answers a question in Cypher about a corpus: checked, on the newest file there is, in a locked process."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from sluice.contracts.errors import NotFound
from sluice.contracts.graph.api import CypherRequest, CypherResult
from sluice.graph.cypher.engine import run_statement
from sluice.graph.cypher.failures import Unreadable
from sluice.graph.cypher.files import CypherFile, discard, newest_files
from sluice.graph.cypher.guard import Statement, guard


def run_cypher(request: CypherRequest, folder: Path, version: int | None = None) -> CypherResult:
    """The rows for a question. `folder` holds the generations of the request's corpus.

    `version` counts the changes of the corpus's graph in the ledger, to tell how far the answer is behind. Raises
    InvalidInput of `query` (with line and column) or `parameters`; NotFound where no generation has a file of the
    engine; TimedOut and Overloaded; Unavailable where the system cannot lock up a process.
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
    """A file that does not open is thrown away, and the one before it is asked."""
    for found in newest_files(folder):
        try:
            return found, run_statement(statement, found.folder, timeout_seconds)
        except FileNotFoundError:
            continue  # a newer generation took its place
        except Unreadable:
            discard(found.folder.parent)
    raise NotFound(
        "the graph of this corpus has no file for Cypher yet: it is written after the graph is published, "
        "when graph.cypher is on"
    )
