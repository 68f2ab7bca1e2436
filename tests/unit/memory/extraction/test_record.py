"""A plain record: strict, completed where it may be, cut where it is too long."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sluice.contracts.errors import InvalidInput
from sluice.contracts.memory.model import IterationOutcome
from tests.support.memory.agent_streams import NOW, extracted

PLAIN: dict[str, Any] = {
    "iteration_number": 7,
    "task_id": 42,
    "task_title": "Build login form",
    "feature": "cart",
    "timestamp": "2026-02-07T14:30:00Z",
    "outcome": "Failure",
    "summary": "Auth middleware returns wrong shape",
    "errors": [{"message": "TypeError: x", "error_type": "Runtime", "file_path": "src/auth.ts", "line": 42}],
    "files_touched": [{"path": "src/auth.ts", "action": "Modified"}],
}


def test_a_record_is_known_by_its_fields_and_kept_as_it_is() -> None:
    result = extracted(PLAIN)
    record = result.to_record(result.iteration_number, False)
    assert (result.format, record.iteration_number, record.task_id) == ("record", 7, 42)
    assert record.outcome is IterationOutcome.FAILURE
    assert record.errors[0].file_path == "src/auth.ts"
    assert record.source_id
    assert record.effect_sha256


def test_feature_time_and_number_may_be_left_out() -> None:
    result = extracted({"outcome": "Success", "summary": "Done"})
    assert (result.feature, result.timestamp, result.is_numbered) == ("cart", NOW, False)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"outcome": "success"}, "data.outcome"),
        ({"colour": "red"}, "data.colour"),
        ({"feature": "payments"}, "data.feature"),
        ({"files_touched": [{"path": "/etc/passwd", "action": "Read"}]}, "data.files_touched.0.path"),
        ({"files_touched": [{"path": "a/../../b", "action": "Read"}]}, "data.files_touched.0.path"),
        ({"errors": [{"message": "x", "line": "four"}]}, "data.errors.0.line"),
        ({"errors": "many"}, "data.errors"),
        ({"tokens_used": -1}, "data.tokens_used"),
        ({"timestamp": "2026-02-07T14:30:00"}, "data.timestamp"),
        ({"timestamp": None}, "data.timestamp"),
        ({"iteration_number": 0}, "data.iteration_number"),
        ({"task_id": "7"}, "data.task_id"),
        ({"tokens_estimated": "yes"}, "data.tokens_estimated"),
    ],
)
def test_what_is_wrong_is_refused_and_the_field_named(change: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        extracted(PLAIN | change, "record")
    assert refused.value.field == field


def test_too_long_texts_are_cut_and_counted() -> None:
    result = extracted(PLAIN | {"summary": "s" * 5_000, "errors": [{"message": "m" * 9_000}]})
    assert (len(result.summary), len(result.errors[0].message)) == (2_000, 2_000)
    assert result.not_kept == {"text_cut": 2}


def test_the_same_record_as_text_or_json_or_at_another_time_is_the_same_iteration() -> None:
    assert extracted(PLAIN).source_id == extracted(json.dumps(PLAIN)).source_id
    assert extracted(PLAIN).source_id == extracted(PLAIN | {"timestamp": "2027-01-01T00:00:00Z"}).source_id


def test_without_a_number_equal_records_of_other_times_are_other_iterations() -> None:
    unnumbered = {"outcome": "Failure", "summary": "tests fail"}
    first = extracted(unnumbered | {"timestamp": "2026-02-07T14:30:00Z"})
    assert first.source_id != extracted(unnumbered | {"timestamp": "2026-02-07T14:31:00Z"}).source_id


def test_numbers_that_are_none_of_json_are_refused() -> None:
    with pytest.raises(InvalidInput):
        extracted('{"outcome": "Success", "tokens_used": NaN}', "record")


def test_a_block_of_memory_in_its_texts_is_cut_out() -> None:
    block = '<sluice-memory-block id="mem_0f">\n| Seen before.\n</sluice-memory-block id="mem_0f">'
    result = extracted(PLAIN | {"summary": f"I read {block} and failed."})
    assert "Seen before" not in result.summary
    assert result.not_kept == {"echo": 1}
