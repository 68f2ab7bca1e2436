"""F2: unbounded field growth. Whatever an agent prints, a record's fields, lists and line stay within their limits."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from sluice.contracts.memory.learning import MAX_LEARNING_CHARACTERS, FeatureLearning
from sluice.contracts.memory.model import MAX_EMBEDDING_CHARACTERS, MAX_ENTRIES, MAX_SUMMARY_CHARACTERS, IterationRecord
from sluice.memory.extraction.raw_output import RawIterationOutput
from sluice.memory.journal.entry import MAX_LINE_BYTES, JournalEntry
from tests.support.memory.agent_streams import NOW, extracted


def stream(*, calls: int, text: str) -> str:
    """Of an agent that writes, fails and decides without end, in characters that take the most room as JSON."""
    events: list[dict[str, Any]] = [
        {"type": "system", "subtype": "init", "cwd": "/home/dev/shop", "model": "m" * 9_000}
    ]
    for number in range(calls):
        uses = [
            ("Write", {"file_path": f"/home/dev/shop/{number}/{'😀' * 60}.py", "content": "x"}, "", False),
            ("deploy", {}, f"fatal {number} {text}", True),
        ]
        for name, given, output, is_error in uses:
            use = {"type": "tool_use", "id": f"{name}{number}", "name": name, "input": given}
            said = {"type": "text", "text": f"I'll use plan {number} {text[:600]} because it is {text[:60]}."}
            events.append({"type": "assistant", "message": {"content": [said, use]}})
            result = {"type": "tool_result", "tool_use_id": use["id"], "content": output, "is_error": is_error}
            events.append({"type": "user", "message": {"content": [result]}})
    events.append({"type": "result", "subtype": "success", "is_error": False, "result": text * 10, "session_id": text})
    return "\n".join(json.dumps(event) for event in events)


def test_f02_an_endless_output_gives_a_record_within_every_limit_and_counts_the_rest() -> None:
    result = extracted(stream(calls=230, text="😀 𝕒" * 700))
    record = result.to_record(1, False)
    assert len(record.summary) <= MAX_SUMMARY_CHARACTERS
    assert max(map(len, (record.errors, record.decisions, record.files_touched))) <= MAX_ENTRIES
    assert len(record.embedding_text()) <= MAX_EMBEDDING_CHARACTERS
    assert len(record.model or "") <= 200
    assert len(record.session_id or "") <= 200
    assert record.not_kept["errors_over_limit"] == 230 - len(record.errors)
    assert record.not_kept["files_over_limit"] == 230 - len(record.files_touched)
    assert record.not_kept["text_cut"] == 1
    assert sum(result.tool_calls.values()) == 460


def test_f02_the_largest_record_fits_into_a_line_of_the_journal() -> None:
    record = extracted(stream(calls=230, text="😀" * 3_000)).to_record(1, False)
    assert len(JournalEntry.new(record).to_json_line()) < MAX_LINE_BYTES


def test_f02_a_plain_record_that_says_too_much_is_refused_or_cut() -> None:
    said = {"outcome": "Failure", "summary": "s" * 100_000, "errors": [{"message": "😀" * 9_000}] * 200}
    result = extracted(said)
    assert len(result.summary) == MAX_SUMMARY_CHARACTERS
    assert len(JournalEntry.new(result.to_record(1, False)).to_json_line()) < MAX_LINE_BYTES
    assert result.not_kept["errors_over_limit"] > 0


def test_f02_a_running_agents_output_is_buffered_within_bounds() -> None:
    output = RawIterationOutput(max_bytes=100_000)
    for _ in range(10_000):
        output.feed(b'{"type":"stream_event","x":"' + b"y" * 100 + b'"}\n')
    assert len(output.text()) < 101_000
    assert output.overflow["events"] + output.text().count("stream_event") == 10_000


def test_f02_a_learning_and_a_summary_beyond_their_limits_are_refused_by_the_types_themselves() -> None:
    with pytest.raises(ValidationError):
        FeatureLearning.auto_extracted("x" * (MAX_LEARNING_CHARACTERS + 1), 1, None)
    with pytest.raises(ValidationError):
        IterationRecord(iteration_number=1, feature="f", timestamp=NOW, outcome="Success", summary="x" * 2_001)
