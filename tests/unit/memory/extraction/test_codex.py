"""Reads `codex exec --json`."""

from __future__ import annotations

import json
from typing import Any

from sluice.contracts.memory.model import ErrorType, FileAction, IterationOutcome
from sluice.memory.extraction.result import ExtractionResult
from tests.support.memory.agent_streams import extracted


def command(number: int, text: str, output: str, exit_code: int) -> dict[str, Any]:
    status = "failed" if exit_code else "completed"
    item = {"id": f"item_{number}", "type": "command_execution", "command": f"bash -lc '{text}'"}
    return item | {"aggregated_output": output, "exit_code": exit_code, "status": status}


def session(*items: dict[str, Any], end: dict[str, Any] | None = None) -> ExtractionResult:
    events: list[dict[str, Any]] = [{"type": "thread.started", "thread_id": "th_1"}, {"type": "turn.started"}]
    for item in items:
        if item["type"] == "command_execution":
            begun = item | {"aggregated_output": "", "exit_code": None, "status": "in_progress"}
            events.append({"type": "item.started", "item": begun})
        events.append({"type": "item.completed", "item": item})
    usage = {"input_tokens": 900, "cached_input_tokens": 700, "output_tokens": 100}
    events.append(end or {"type": "turn.completed", "usage": usage})
    return extracted("\n".join(map(json.dumps, events)))


CHANGE = {
    "id": "item_2",
    "type": "file_change",
    "changes": [{"path": "src/a.py", "kind": "update"}],
    "status": "completed",
}
SAID = {"id": "item_9", "type": "agent_message", "text": "I use Decimal instead of float because cents count."}
RED = "FAILED tests/test_a.py::test_x - assert 1 == 2\n1 failed"


def test_a_session_with_its_commands_changes_decisions_and_tokens() -> None:
    found = session(command(1, "pytest -q", RED, 1), CHANGE, command(3, "pytest -q", "1 passed", 0), SAID)
    assert (found.format, found.outcome, found.session_id) == ("codex", IterationOutcome.SUCCESS, "th_1")
    assert (found.tokens_used, found.tool_calls) == (1_000, {"failed": 1, "ok": 2})
    assert [(one.path, one.action) for one in found.files_touched] == [("src/a.py", FileAction.MODIFIED)]
    assert [(one.error_type, one.solved_by) for one in found.solved] == [(ErrorType.TEST, "changed src/a.py")]
    assert found.decisions[0].description == "I use Decimal instead of float"
    assert found.summary == SAID["text"]


def test_red_checks_failed_turns_and_limits_decide_the_outcome() -> None:
    def failed(message: str) -> dict[str, Any]:
        return {"type": "turn.failed", "error": {"message": message}}

    assert session(command(1, "pytest -q", RED, 1), SAID).outcome is IterationOutcome.FAILURE
    assert session(SAID, end=failed("stream disconnected")).outcome is IterationOutcome.FAILURE
    assert session(SAID, end=failed("You've hit your usage limit.")).outcome is IterationOutcome.RATE_LIMITED
    assert session(SAID, end={"type": "turn.started"}).outcome is IterationOutcome.PARTIAL


def test_what_is_unknown_is_counted() -> None:
    found = session({"id": "item_1", "type": "hologram"}, end={"type": "turn.dreamt"})
    assert found.not_kept == {"unknown_block": 1, "unknown_event": 1}
