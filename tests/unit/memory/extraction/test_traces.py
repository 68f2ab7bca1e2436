"""The traces of SWE-agent that others recorded: every run and every step is accounted for. Skipped where they are absent."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from sluice.contracts.errors import InvalidInput
from sluice.contracts.memory.model import ErrorType, FileAction, IterationOutcome
from sluice.memory.extraction.result import ExtractionResult
from tests.support.memory.agent_streams import extracted
from tests.support.repository import DATA

TRACES = DATA / "traces" / "swe_agent.jsonl"
TRACE: dict[str, Any] = {
    "_id": "demo.traj",
    "exit": "submitted",
    "steps": [
        {
            "thought": "I open the file.",
            "action": "open src/cart.py 3\n",
            "observation": "[File: /acme__shop/src/cart.py (9 lines total)]\r\n1:raise ValueError('x')\r\n",
        },
        {
            "thought": "I'll use sum instead of a loop because it is shorter.",
            "action": "edit 3:3\nreturn sum(items\nend_of_edit\n",
            "observation": "Your proposed edit has introduced new syntax error(s). Please understand the fixes and retry "
            "your edit commmand.\n\nERRORS:\n- E999 SyntaxError: '(' was never closed\n\nThis is how your edit would have "
            "looked if applied\n[File: /acme__shop/src/cart.py (9 lines total)]\n",
        },
        {
            "thought": "Again.",
            "action": "edit 3:3\nreturn sum(items)\nend_of_edit\n",
            "observation": "[File: /acme__shop/src/cart.py (9 lines total)]\n1:x\n",
        },
        {"thought": "", "action": "python reproduce.py\n", "observation": "\nEXECUTION TIMED OUT"},
        {"thought": "Done.", "action": "submit\n", "observation": "\ndiff --git a/src/cart.py b/src/cart.py\n"},
    ],
}


def test_a_trace_gives_its_files_refused_edits_decisions_and_outcome() -> None:
    result = extracted(json.dumps(TRACE))
    assert (result.format, result.outcome, result.summary) == ("trace", IterationOutcome.SUCCESS, "Done.")
    assert result.tool_calls == {"ok": 3, "failed": 2}
    assert [(one.path, one.action) for one in result.files_touched] == [("src/cart.py", FileAction.MODIFIED)]
    assert [(one.error_type, one.file_path, one.message) for one in (*result.solved, *result.errors)] == [
        (ErrorType.COMPILE, "src/cart.py", "E999 SyntaxError: '(' was never closed"),
        (ErrorType.UNKNOWN, None, "python reproduce.py: EXECUTION TIMED OUT"),
    ]
    assert [one.description for one in result.decisions] == ["I'll use sum instead of a loop"]


def test_one_line_is_one_run() -> None:
    with pytest.raises(InvalidInput, match="2 runs"):
        extracted(f"{json.dumps(TRACE)}\n{json.dumps(TRACE)}\n")


@pytest.fixture(scope="module")
def runs() -> list[tuple[dict[str, Any], ExtractionResult]]:
    if not TRACES.exists():
        pytest.skip(f"{TRACES} is absent")
    recorded = [json.loads(line) for line in TRACES.read_text(encoding="utf-8").split("\n") if line]
    return [(one, extracted(one)) for one in recorded]


def test_every_step_of_every_run_is_a_tool_call(runs: list[tuple[dict[str, Any], ExtractionResult]]) -> None:
    assert [len(run["steps"]) for run, _ in runs] == [sum(result.tool_calls.values()) for _, result in runs]
    assert (len(runs), sum(sum(result.tool_calls.values()) for _, result in runs)) == (22, 227)


def test_what_was_submitted_succeeded_and_what_has_no_exit_is_partial(
    runs: list[tuple[dict[str, Any], ExtractionResult]],
) -> None:
    outcomes = Counter((run["exit"], result.outcome.value) for run, result in runs)
    assert outcomes == {("submitted", "Success"): 21, (None, "Partial"): 1}


def test_shown_source_gives_no_error_and_what_failed_does(runs: list[tuple[dict[str, Any], ExtractionResult]]) -> None:
    """Read by hand: 3 tracebacks and 13 refused edits, some of them alike in one run, and 2 time limits."""
    standing = Counter((error.tool, error.error_type) for _, result in runs for error in result.errors)
    solved = Counter((error.tool, error.error_type) for _, result in runs for error in result.solved)
    assert standing == {("flake8", "Compile"): 1, ("bash", "Unknown"): 1}
    assert standing + solved == {
        ("python", "Runtime"): 3,
        ("flake8", "Compile"): 10,
        ("flake8", "Lint"): 1,
        ("bash", "Unknown"): 2,
    }


def test_every_path_is_relative_to_the_repository_of_its_run(
    runs: list[tuple[dict[str, Any], ExtractionResult]],
) -> None:
    paths = {one.path for _, result in runs for one in result.files_touched}
    assert {"src/marshmallow/fields.py", "reproduce.py", "pydicom/pixel_data_handlers/numpy_handler.py"} <= paths
    assert not any("__" in path.split("/")[0] or path.startswith("testbed") for path in paths)
    assert all(result.not_kept.get("path_outside", 0) == 0 for _, result in runs)
