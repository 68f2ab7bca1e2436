"""Claude Code's stream-json: what each recorded stream gives."""

from __future__ import annotations

import json
import time

import pytest

from sluice.contracts.errors import InvalidInput
from sluice.contracts.memory.model import ErrorType, FileAction, IterationOutcome
from tests.support.memory.agent_streams import extracted, recorded

FAILING_TEST = "claude_code/2_1_3_failing_test.jsonl"


def lines(name: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in recorded(name).splitlines()]


def test_every_tool_call_is_accounted_for_and_those_of_sub_agents_too() -> None:
    result = extracted(recorded(FAILING_TEST))
    assert recorded(FAILING_TEST).count('"type":"tool_use"') == 11
    assert result.tool_calls == {"ok": 8, "failed": 2, "denied": 1}
    assert result.sub_agent_calls == 2


def test_files_are_relative_to_the_project_and_those_outside_are_counted_only() -> None:
    result = extracted(recorded(FAILING_TEST))
    assert {one.path: one.action for one in result.files_touched} == {
        "src/cart.py": FileAction.MODIFIED,
        "tests/test_cart.py": FileAction.CREATED,
        "notes.txt": FileAction.DELETED,
        "src/shop.py": FileAction.READ,
    }
    assert result.not_kept["path_outside"] == 2  # /etc/shop.conf, /var/log/app.log


def test_tokens_come_from_the_result_and_are_not_summed_over_messages() -> None:
    result = extracted(recorded(FAILING_TEST))
    assert result.tokens_used == 18 + 982 + 2_000 + 40_000
    assert not result.tokens_estimated
    assert result.duration_ms == 41_250


def test_without_a_result_the_last_usage_of_each_message_counts_and_is_marked_as_an_estimate() -> None:
    result = extracted(recorded("claude_code/killed_half_line.jsonl"))
    assert result.tokens_used == 4 * 1_105  # four messages, one of them in two lines
    assert result.tokens_estimated


def test_a_killed_agent_with_half_a_line_at_the_end_is_partial_and_loses_nothing_before_it() -> None:
    result = extracted(recorded("claude_code/killed_half_line.jsonl"))
    assert result.outcome is IterationOutcome.PARTIAL
    assert result.not_kept == {"half_line": 1}
    assert result.tool_calls == {"ok": 3, "unanswered": 1}


def test_a_decision_has_its_rationale_and_sub_agents_and_thinking_give_none() -> None:
    result = extracted(recorded(FAILING_TEST))
    assert [(one.description, one.rationale) for one in result.decisions] == [
        ("I'll use Decimal instead of float", "sums of floats drift by a cent")
    ]


def test_a_refused_edit_and_a_refused_permission_are_errors_with_their_types() -> None:
    errors = extracted(recorded(FAILING_TEST)).errors
    found = {error.error_type: (error.message, error.file_path) for error in errors}
    assert found[ErrorType.LOGIC] == ("String to replace not found in file.", "src/shop.py")
    assert found[ErrorType.PERMISSION] == ("Bash was refused: git push --force", None)


def test_the_end_of_a_failed_commands_output_is_kept_with_its_first_error() -> None:
    errors = extracted(recorded(FAILING_TEST)).errors
    kept = [error for error in errors if error.evidence]
    assert [error.tool for error in kept] == ["pytest"]
    assert "FAILED" in (kept[0].evidence or "")


def test_a_grep_through_a_log_gives_no_error() -> None:
    assert not any(
        "refused" in e.message and "connection" in e.message for e in extracted(recorded(FAILING_TEST)).errors
    )


def test_the_summary_is_the_result_and_the_models_own_name_stands_beside_the_tier() -> None:
    result = extracted(recorded(FAILING_TEST))
    assert result.summary == "`total` returns None for an empty cart; the sum is now a Decimal."
    assert (result.model_tier, result.model) == ("Haiku", "claude-sonnet-4-5-20250929")


def test_an_old_stream_with_half_the_fields_and_content_as_text_is_read() -> None:
    result = extracted(recorded("claude_code/1_0_old.jsonl"))
    assert (result.outcome, result.summary, result.tokens_used) == (IterationOutcome.SUCCESS, "Done.", None)
    assert [one.path for one in result.files_touched] == ["a.py"]


def test_a_hostile_stream_is_counted_and_never_a_crash() -> None:
    result = extracted(recorded("claude_code/hostile.jsonl"))
    assert result.not_kept == {"not_json": 4, "result_without_call": 1, "unknown_block": 1, "unknown_event": 2}
    assert result.tool_calls == {"unanswered": 3}
    assert result.unknown[0] == {"type": "hologram", "x": 1}
    result.to_record(1, False).model_dump_json().encode()


@pytest.mark.parametrize("depth", [400, 900, 960, 980, 990, 1_000, 5_000, 100_000])
def test_deep_json_is_read_or_counted_and_never_a_crash(depth: int) -> None:
    deep = '{"a":' * depth + "1" + "}" * depth
    use = (
        '{"type":"tool_use","id":"t","name":"Write","input":{"file_path":"a.py","content":"\\ud800","x":' + deep + "}}"
    )
    result = '{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"ok"}]}}'
    found = extracted('{"type":"assistant","message":{"content":[' + use + "]}}\n" + result + "\n", "claude-code")
    assert found.tool_calls.get("ok", 0) + found.not_kept.get("not_json", 0) == 1


def test_a_line_of_ten_megabytes_is_read() -> None:
    stream = [
        {
            "type": "assistant",
            "message": {"content": [{"type": "tool_use", "id": "a", "name": "Bash", "input": {"command": "cat x"}}]},
        },
        {
            "type": "user",
            "message": {"content": [{"type": "tool_result", "tool_use_id": "a", "content": "x y\n" * 2_500_000}]},
        },
    ]
    result = extracted("\n".join(json.dumps(event) for event in stream), "claude-code")
    assert result.tool_calls == {"ok": 1}


def test_several_results_are_summed_and_one_without_usage_has_its_models() -> None:
    usage = {"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": 3}
    results = [
        {"type": "result", "subtype": "success", "uuid": "a", "usage": usage, "duration_ms": 10},
        {"type": "result", "subtype": "success", "uuid": "a", "usage": usage, "duration_ms": 10},
        {
            "type": "result",
            "subtype": "success",
            "uuid": "b",
            "modelUsage": {"m": {"inputTokens": 4}},
            "duration_ms": 5,
        },
    ]
    result = extracted("\n".join(json.dumps(one) for one in results))
    assert (result.tokens_used, result.duration_ms) == (6 + 4, 15)
    assert result.not_kept == {"repeated_event": 1}


def test_a_background_command_that_failed_later_is_a_failed_call() -> None:
    note = (
        "<task-notification>\n<task-id>b1</task-id>\n<tool-use-id>t1</tool-use-id>\n<status>failed</status>\n"
        '<summary>Background command "npm test" failed with exit code 3</summary>\n</task-notification>'
    )
    use = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "npm test", "run_in_background": True}}
    begun = {"type": "tool_result", "tool_use_id": "t1", "content": "Command running in background with ID: b1."}
    events = [
        {"type": "assistant", "message": {"content": [use]}},
        {"type": "user", "message": {"content": [begun]}},
        {"type": "user", "message": {"content": note}, "origin": {"kind": "task-notification"}},
    ]
    result = extracted(events)
    assert result.tool_calls == {"failed": 1}
    assert [one.message for one in result.errors] == ['Background command "npm test" failed with exit code 3']


def test_what_a_background_command_printed_is_read_for_errors() -> None:
    failed = "FAILED tests/test_cart.py::test_total - assert None == 0\n1 failed in 0.02s"
    printed = f"<status>completed</status>\n\n<exit_code>1</exit_code>\n\n<stdout>\n{failed}\n</stdout>"
    use = {"type": "tool_use", "id": "t1", "name": "BashOutput", "input": {"bash_id": "b1"}}
    block = {"type": "tool_result", "tool_use_id": "t1", "content": printed}
    events = [{"type": "assistant", "message": {"content": [use]}}, {"type": "user", "message": {"content": [block]}}]
    assert [one.file_path for one in extracted(events).errors] == ["tests/test_cart.py"]


def test_a_stream_and_its_events_as_json_give_the_same() -> None:
    stream = recorded(FAILING_TEST)
    effect = extracted(stream).effect_sha256
    assert extracted(lines(FAILING_TEST)).effect_sha256 == effect
    assert extracted(stream.splitlines()).effect_sha256 == effect


def test_a_repeated_event_is_one_call() -> None:
    once = recorded(FAILING_TEST).splitlines()
    twice = "\n".join([*once[:5], *once[4:]])
    assert sum(extracted(twice).tool_calls.values()) == 11


def test_text_that_is_no_stream_names_the_remedy() -> None:
    with pytest.raises(InvalidInput, match="stream-json"):
        extracted("Invalid API key · Please run /login\n", "claude-code")


def test_recording_the_same_stream_again_has_the_same_source_id_and_another_iteration_has_another() -> None:
    stream = recorded(FAILING_TEST)
    assert extracted(stream).source_id == extracted(stream.encode()).source_id
    assert extracted(stream, iteration_number=1).source_id != extracted(stream, iteration_number=2).source_id


def test_what_memory_printed_is_cut_out_of_the_stream_and_counted() -> None:
    block = '<sluice-memory-block id="mem_0f">\n| I decided to use floats because they are quick.\n</sluice-memory-block id="mem_0f">'
    event = {
        "type": "assistant",
        "message": {"content": [{"type": "text", "text": f"Memory says:\n{block}\nI go on."}]},
    }
    result = extracted(json.dumps(event), "claude-code")
    assert result.decisions == ()
    assert "floats" not in result.summary
    assert result.not_kept == {"echo": 1}


def test_a_stream_of_a_megabyte_takes_a_fraction_of_a_second() -> None:
    """Some 40 ms of a processor; the bound is wide, as other work may disturb the caches."""
    shown = "".join(f"{number:6}\u2192    value = compute({number})  # line {number}\n" for number in range(600))
    events: list[dict[str, object]] = [{"type": "system", "subtype": "init", "cwd": "/home/dev/shop"}]
    for number in range(25):
        for name, given, output, is_error in (
            ("Read", {"file_path": "/home/dev/shop/a.py"}, shown, False),
            ("Bash", {"command": "python -m pytest -q"}, f"Exit code 1\n{shown}\n1 failed in 0.1s", True),
        ):
            use = {"type": "tool_use", "id": f"{name}{number}", "name": name, "input": given}
            block = {"type": "tool_result", "tool_use_id": use["id"], "content": output, "is_error": is_error}
            events.append({"type": "assistant", "message": {"content": [use]}})
            events.append({"type": "user", "message": {"content": [block]}})
    stream = "\n".join(json.dumps(event) for event in events)
    assert len(stream) > 1_000_000
    begun = time.thread_time()
    result = extracted(stream)
    assert time.thread_time() - begun < 1
    assert result.tool_calls == {"ok": 25, "failed": 25}
