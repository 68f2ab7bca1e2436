"""SWE-agent's and mini-swe-agent's trajectories: what each recorded file gives."""

from __future__ import annotations

import json
from typing import Any

from sluice.contracts.memory.model import ErrorType, FileAction, IterationOutcome
from sluice.memory.extraction.result import ExtractionResult
from tests.support.memory.agent_streams import extracted, recorded


def files(result: ExtractionResult) -> dict[str, FileAction]:
    return {one.path: one.action for one in result.files_touched}


def errors(result: ExtractionResult) -> list[tuple[Any, Any, Any]]:
    return [(one.error_type, one.file_path, one.line) for one in result.errors]


def test_a_trajectory_of_0_6_whose_state_is_a_json_text() -> None:
    """The root is a folder below `/`; an edit means the open file; `cd` counts; a patch tells of created files."""
    result = extracted(recorded("swe_agent/0_6.traj"))
    assert (result.format, result.outcome, result.tokens_used) == ("swe-agent", IterationOutcome.SUCCESS, 41_900)
    assert result.tool_calls == {"ok": 8, "failed": 1}
    assert files(result) == {
        "reproduce.py": FileAction.DELETED,
        "src/cart.py": FileAction.MODIFIED,
        "src/money.py": FileAction.CREATED,
    }
    assert errors(result) == [(ErrorType.RUNTIME, "src/cart.py", 4)]
    assert [(one.error_type, one.solved_by) for one in result.solved] == [
        (ErrorType.LINT, "changed src/cart.py: Zero then.")
    ]
    assert result.not_kept == {"path_outside": 1}  # /tmp/out.txt


def test_a_trajectory_of_1_1_whose_state_is_an_object() -> None:
    result = extracted(recorded("swe_agent/1_1.traj"))
    assert (result.outcome, result.model) == (IterationOutcome.PARTIAL, "gpt-4o-2024-08-06")
    assert result.tool_calls == {"ok": 3, "failed": 1}
    assert result.not_kept == {"step_without_action": 1}
    assert files(result) == {"src/cart.py": FileAction.MODIFIED}
    assert errors(result) == [(ErrorType.TEST, "tests/test_cart.py", None)]
    assert [(one.error_type, one.file_path) for one in result.solved] == [(ErrorType.LOGIC, "src/cart.py")]


def test_a_history_alone_is_read_and_its_demonstration_is_none_of_the_agents_doing() -> None:
    result = extracted(recorded("swe_agent/history_alone.traj"))
    assert (result.format, result.outcome) == ("swe-agent", IterationOutcome.PARTIAL)
    assert result.tool_calls == {"ok": 2, "unanswered": 1}
    assert files(result) == {"a.py": FileAction.CREATED}
    assert result.not_kept == {"not_json": 1}
    bare = json.loads(recorded("swe_agent/history_alone.traj"))["history"]
    assert extracted(bare).tool_calls == result.tool_calls


def test_a_history_tells_by_its_prompts_where_the_agent_stands() -> None:
    def prompt(directory: str) -> str:
        return f"\n(Open file: n/a)\n(Current directory: {directory})\nbash-$"

    history = [
        {"role": "user", "content": "Solve it." + prompt("/acme__shop/src")},
        {"role": "assistant", "content": "I write.", "thought": "I write.", "action": "echo x > a.py"},
        {"role": "user", "content": prompt("/acme__shop")},
        {"role": "assistant", "content": "", "thought": "", "action": "cat b.py"},
        {"role": "tool", "content": "y" + prompt("/acme__shop")},
        {"role": "assistant", "content": "", "thought": "", "action": "submit"},
        {"role": "tool", "content": "diff --git a/c.py b/c.py\n--- a/c.py\n+++ b/c.py\n" + prompt("/acme__shop")},
    ]
    result = extracted({"history": history})
    assert result.tool_calls == {"ok": 3}
    assert files(result) == {"src/a.py": FileAction.CREATED, "c.py": FileAction.MODIFIED, "b.py": FileAction.READ}


def test_a_hostile_trajectory_is_counted_and_never_a_crash() -> None:
    result = extracted(recorded("swe_agent/hostile.traj"))
    assert result.not_kept == {"path_outside": 1, "step_without_action": 3}
    assert result.files_touched == ()


def test_mini_swe_agents_commands_stand_in_blocks_of_shell_code() -> None:
    """Each command begins in the same folder, though the one before it went elsewhere; the last hands the work in."""
    result = extracted(recorded("mini_swe_agent/1_13.traj.json"))
    assert (result.format, result.outcome, result.tokens_used) == (
        "mini-swe-agent",
        IterationOutcome.FAILURE,
        1_040 + 1_160 + 1_210,
    )
    assert result.tool_calls == {"ok": 3, "failed": 1}
    assert files(result) == {"src/cart.py": FileAction.MODIFIED, "notes.md": FileAction.CREATED}
    assert errors(result) == [(ErrorType.TEST, "tests/test_cart.py", None)]
    assert [one.description for one in result.decisions] == ["I'll use grep rather than find"]


def test_mini_swe_agents_parallel_calls_each_have_their_result_in_whatever_order() -> None:
    result = extracted(recorded("mini_swe_agent/2_0.traj.json"))
    assert (result.outcome, result.model, result.duration_ms) == (IterationOutcome.PARTIAL, "gpt-5", 3_500)
    assert result.tool_calls == {"ok": 1, "failed": 1, "unanswered": 1}
    assert files(result) == {"a.txt": FileAction.CREATED}
    assert [one.message for one in result.errors] == ["false ended with exit code 1"]
