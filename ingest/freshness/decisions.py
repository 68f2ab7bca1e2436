"""The record of what the freshness job decided (`embedding_ledger.jsonl`): lines are added at its end, none is changed.

A line is whole or it is not there to a reader: what a killed process left half written ends with the line break that
the next one puts before its own lines.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from sluice.ingest.freshness.refresh_plan import PlannedRefresh, Status

DECISIONS: dict[Status, str] = {"new": "embed", "changed": "embed", "deleted": "forget"}
"""What a plan's status asks of whoever carries the plan out."""
_LINES_AT_ONCE = 1_000


def record_plan(plan: Iterable[PlannedRefresh], path: Path, at: datetime) -> int:
    """Add a line for each document of a plan; how many there were."""
    return append_lines(path, ({"at": at.isoformat(), **_decision(one)} for one in plan))


def record_command(path: Path, at: datetime, command: str, exit_code: int | None, plan: Path) -> None:
    """Add a line for the command that was handed the plan. `exit_code` None: it did not end in time."""
    ended: dict[str, object] = {"command": command, "exit_code": exit_code, "plan": str(plan)}
    append_lines(path, [{"at": at.isoformat(), "decision": "exec", **ended}])


def append_lines(path: Path, lines: Iterable[dict[str, object]]) -> int:
    """Add lines of JSON to a file and sync it; how many."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    count, held = 0, []
    with path.open("ab") as file:
        if file.tell() and not _ends_whole(path):
            held.append("\n")
        for line in lines:
            held.append(json.dumps(line, ensure_ascii=False) + "\n")
            count += 1
            if len(held) >= _LINES_AT_ONCE:
                file.write("".join(held).encode("utf-8", "surrogatepass"))
                held = []
        file.write("".join(held).encode("utf-8", "surrogatepass"))
        file.flush()
        os.fsync(file.fileno())
    return count


def _ends_whole(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _decision(one: PlannedRefresh) -> dict[str, object]:
    return {"decision": DECISIONS[one.status], **one.model_dump(mode="json", exclude_none=True)}
