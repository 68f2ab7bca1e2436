"""F28: extraction corrupts stagnation. The hash of an effect is taken first, and nothing that extraction does changes it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from sluice.contracts.memory.model import ErrorEntry, ErrorType, FileAction, IterationOutcome, IterationRecord
from sluice.memory.extraction.files import FileChange, effect_sha256, is_stagnating
from tests.support.memory.agent_streams import extracted, recorded


def stream(content: str, error: str, summary: str = "Done.", *, more: int = 0) -> str:
    def call(number: int, name: str, given: dict[str, Any], output: str, is_error: bool) -> list[dict[str, Any]]:
        use = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": given}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": output, "is_error": is_error}
        return [
            {"type": "assistant", "message": {"content": [use]}},
            {"type": "user", "message": {"content": [result]}},
        ]

    events = [{"type": "system", "subtype": "init", "cwd": "/home/dev/shop"}]
    events += call(1, "Write", {"file_path": "/home/dev/shop/a.py", "content": content}, "ok", False)
    events += call(2, "deploy", {}, error, True)
    for number in range(more):
        events += call(10 + number, "Write", {"file_path": f"/home/dev/shop/{number}.py", "content": "x"}, "ok", False)
    events.append({"type": "result", "subtype": "success", "is_error": False, "result": summary})
    return "\n".join(json.dumps(event) for event in events)


def test_f28_extraction_never_changes_the_hash_of_the_effect() -> None:
    """Not by cutting texts, nor by capping lists, nor by what the caller adds, nor when it is done twice."""
    many = stream("x = 1\n", "boom " + "y" * 5_000, "s" * 9_000, more=300)
    plain = extracted(many)
    other = extracted(many, task_title="t" * 200, session_id="s", iteration_number=9, timed_out=True)
    assert plain.not_kept["files_over_limit"] == 101
    assert plain.effect_sha256 == other.effect_sha256 == extracted(many).effect_sha256


def test_f28_the_words_of_the_agent_are_no_effect() -> None:
    assert extracted(stream("x", "boom", "one")).effect_sha256 == extracted(stream("x", "boom", "two")).effect_sha256


def test_f28_times_ids_addresses_and_temporary_folders_are_made_alike() -> None:
    first = stream(
        "# 2026-02-07T14:30:00Z\r\nx = 1\r\n",
        "fatal: 3 tests failed after 1.23s at 0x7f3a9c, log in /tmp/run-1/out.txt, pid 4711, id 9f1c2ab7d0",
    )
    second = stream(
        "# 2026-02-08T09:01:12Z\nx = 1\n",
        "fatal: 3 tests failed after 4.5 s at 0x55e0b1, log in /tmp/run-2/out.txt, pid 99, id 0a1b2c3d4e",
    )
    assert extracted(first).effect_sha256 == extracted(second).effect_sha256


def test_f28_another_number_of_failing_tests_or_another_content_is_another_effect() -> None:
    effects = {
        extracted(stream(content, error)).effect_sha256
        for content, error in [("x = 1", "3 tests failed"), ("x = 1", "2 tests failed"), ("x = 2", "3 tests failed")]
    }
    assert len(effects) == 3


def test_f28_the_order_of_changes_and_the_line_of_an_error_are_no_part_of_the_effect() -> None:
    changes = [FileChange("a.py", FileAction.MODIFIED, "1"), FileChange("b.py", FileAction.CREATED, "2")]
    errors = [ErrorEntry(message="boom", error_type=ErrorType.TEST, file_path="a.py", line=3)]
    moved = [ErrorEntry(message="boom", error_type=ErrorType.TEST, file_path="a.py", line=4)]
    assert effect_sha256(changes, errors) == effect_sha256(changes[::-1], moved)


def records(*effects: str | None, outcome: IterationOutcome = IterationOutcome.FAILURE) -> list[IterationRecord]:
    return [
        IterationRecord(
            iteration_number=number,
            feature="cart",
            timestamp=datetime(2026, 2, 7, tzinfo=UTC),
            outcome=outcome,
            effect_sha256=effect,
        )
        for number, effect in enumerate(effects, start=1)
    ]


A, B = "a" * 64, "b" * 64


def test_f28_three_equal_effects_in_a_row_are_stagnation() -> None:
    assert is_stagnating(A, records(B, A, A))
    assert not is_stagnating(A, records(A, A, B, A))
    assert not is_stagnating(A, records(A))
    assert is_stagnating(A, records(A), repeats=2)


def test_f28_an_iteration_that_a_limit_stopped_is_passed_over_and_an_unknown_effect_equals_none() -> None:
    limited = records(None, outcome=IterationOutcome.RATE_LIMITED)
    assert is_stagnating(A, [*records(A, A), *limited])
    assert not is_stagnating(None, records(None, None, None))


def test_f28_a_plain_record_that_met_no_error_is_told_apart_by_its_summary() -> None:
    def effect(summary: str, **fields: Any) -> str | None:
        changed = {"outcome": "Success", "files_touched": [{"path": "a.py", "action": "Modified"}]}
        return extracted(changed | {"summary": summary} | fields).effect_sha256

    assert effect("Added login") != effect("Added logout")
    assert effect("Ran for 3 s") == effect("Ran for 4 s")
    failed = {"errors": [{"message": "boom"}]}
    assert effect("Once more", **failed) == effect("And once more", **failed)
    assert extracted({"outcome": "Success", "summary": "Looked around"}).effect_sha256 is None


def test_f28_a_stream_without_a_tool_call_has_no_effect_that_could_be_compared() -> None:
    assert extracted(recorded("claude_code/api_failure.jsonl")).effect_sha256 is None
