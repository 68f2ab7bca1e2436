"""OpenHands' events of both versions: what each recorded file gives."""

from __future__ import annotations

import json

import pytest

from sluice.contracts.memory.model import ErrorType, FileAction, IterationOutcome
from sluice.memory.extraction.result import ExtractionResult
from tests.support.memory.agent_streams import extracted, recorded


def files(result: ExtractionResult) -> dict[str, FileAction]:
    return {one.path: one.action for one in result.files_touched}


def test_v0_actions_are_answered_by_the_observations_that_name_them() -> None:
    """A file that a viewer shows gives no error; a refused edit is no change; `finish` says how far it came."""
    result = extracted(recorded("openhands/v0_list.json"))
    assert (result.format, result.outcome) == ("openhands", IterationOutcome.PARTIAL)
    assert result.tool_calls == {"ok": 3, "failed": 3}
    assert files(result) == {
        "src/money.py": FileAction.CREATED,
        "src/cart.py": FileAction.READ,
        "build.log": FileAction.READ,
    }
    assert [(one.error_type, one.file_path) for one in result.errors] == [
        (ErrorType.TEST, "src/cart.py"),
        (ErrorType.LOGIC, "src/cart.py"),
        (ErrorType.UNKNOWN, None),
    ]
    assert (result.tokens_used, result.duration_ms) == (9_300, 17_000)
    assert result.summary == "The tests still need the cart."


def test_v0_events_of_separate_files_may_come_in_any_order() -> None:
    events = json.loads(recorded("openhands/v0_list.json"))
    shuffled = [*events[9:], *events[:9]]
    assert extracted(shuffled).effect_sha256 == extracted(events).effect_sha256
    assert extracted("\n".join(json.dumps(event) for event in shuffled)).tool_calls == {"ok": 3, "failed": 3}


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("openhands/v0_events_error.jsonl", IterationOutcome.PARTIAL),
        ("openhands/v0_rate_limited.json", IterationOutcome.RATE_LIMITED),
        ("openhands/v1_stuck.jsonl", IterationOutcome.PARTIAL),
    ],
)
def test_an_error_that_ended_a_conversation_decides_its_outcome(name: str, outcome: IterationOutcome) -> None:
    assert extracted(recorded(name)).outcome is outcome


def test_v1_calls_count_on_every_branch_and_words_on_the_last_events_alone() -> None:
    result = extracted(recorded("openhands/v1_folder.json"))
    assert result.outcome is IterationOutcome.FAILURE  # the build was red at the end
    assert result.tool_calls == {"ok": 3, "failed": 2, "denied": 1}
    assert files(result) == {"old.rs": FileAction.CREATED, "src/main.rs": FileAction.MODIFIED}
    assert [one.description for one in result.decisions] == ["I'll use a mutex instead of a channel"]
    assert result.not_kept == {"other_branch": 1, "unknown_event": 1}
    assert result.unknown[0]["kind"] == "QuantumEvent"


def test_v1_the_state_names_the_event_that_the_conversation_stands_at() -> None:
    def say(event_id: str, parent: str, text: str) -> dict[str, object]:
        message = {"role": "assistant", "content": [{"type": "text", "text": text}]}
        return {"kind": "MessageEvent", "id": event_id, "parent_id": parent, "source": "agent", "llm_message": message}

    events = [say("a", "__root__", "First."), say("b", "a", "Kept."), say("c", "a", "Taken back.")]
    state = {"agent": {"kind": "Agent"}, "execution_status": "finished", "leaf_event_id": "b"}
    assert extracted(events).summary == "Taken back."
    assert extracted([state, *events]).summary == "Kept."


def test_v1_errors_of_tools_refusals_and_compilers_have_their_types() -> None:
    errors = extracted(recorded("openhands/v1_folder.json")).errors
    assert [(one.error_type, one.file_path, one.line) for one in errors] == [
        (ErrorType.COMPILE, "src/main.rs", 4),
        (ErrorType.LOGIC, None, None),
        (ErrorType.PERMISSION, None, None),
    ]


def test_v1_the_state_beside_the_events_names_model_session_and_tokens() -> None:
    result = extracted(recorded("openhands/v1_folder.json"))
    assert (result.model, result.session_id) == ("openhands/claude-sonnet-4-5", "9b2c")
    assert (result.tokens_used, result.duration_ms) == (12_510, 15_000)


def test_hostile_events_are_counted_and_never_a_crash() -> None:
    result = extracted(recorded("openhands/hostile.json"))
    assert sum(result.tool_calls.values()) == 4
    assert result.not_kept["result_without_call"] == 2
