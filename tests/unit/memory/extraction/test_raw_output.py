"""The buffer between a running agent and its record: bounded, line by line, ended in three ways."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator

import pytest

from sluice.contracts.memory.api import IterationContext
from sluice.contracts.memory.model import IterationOutcome
from sluice.memory.extraction.raw_output import RawIterationOutput, collect
from sluice.memory.extraction.readers import claude_code
from tests.support.memory.agent_streams import extracted, recorded

FAILING_TEST = "claude_code/2_1_3_failing_test.jsonl"
RESULT = json.dumps({"type": "result", "subtype": "success", "is_error": False, "result": "Done."})


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    read_end, write_end = os.pipe()
    yield read_end, write_end
    for end in (read_end, write_end):
        try:
            os.close(end)
        except OSError:
            continue


@pytest.mark.parametrize("size", [1, 7, 4_096])
def test_pieces_of_any_size_give_the_stream_again(size: int) -> None:
    data = recorded(FAILING_TEST).encode()
    output = RawIterationOutput()
    for start in range(0, len(data), size):
        output.feed(data[start : start + size])
    output.close()
    assert output.text().encode() == data
    assert output.has_result
    assert len(claude_code.read_text(output.text()).calls) == 11


def test_a_character_that_is_cut_in_two_is_whole_again() -> None:
    data = '{"type":"assistant","message":{"content":"Zürich"}}\n'.encode()
    output = RawIterationOutput()
    cut = data.index("ü".encode()) + 1
    output.feed(data[:cut])
    output.feed(data[cut:])
    assert claude_code.read_text(output.text()).said == ["Zürich"]


def test_half_a_line_of_a_killed_agent_is_kept_and_the_outcome_is_partial() -> None:
    output = RawIterationOutput()
    output.feed(recorded("claude_code/killed_half_line.jsonl"))
    output.close()
    result = extracted(output.text(), "claude-code")
    assert result.outcome is IterationOutcome.PARTIAL
    assert result.not_kept == {"half_line": 1}


def test_what_overflows_is_counted_and_head_and_tail_stay() -> None:
    output = RawIterationOutput(max_events=40)
    lines = recorded(FAILING_TEST).splitlines()
    for line in [lines[0], *['{"type":"stream_event"}'] * 500, *lines[1:]]:
        output.feed(line + "\n")
    result = extracted(output.text())
    assert result.session_id == "5f0f1f5e-7a5a-4a39-9f3b-0a4b8c1d2e3f"  # of the head
    assert result.outcome is IterationOutcome.FAILURE  # of the tail, where a test is red
    assert result.not_kept["overflow_events"] == output.overflow["events"] == len(lines) + 500 - 40
    assert result.not_kept["overflow_bytes"] == output.overflow["bytes"]


def test_memory_is_bounded_in_bytes_for_one_endless_line_and_for_many_lines() -> None:
    output = RawIterationOutput(max_bytes=10_000, max_line_bytes=2_000)
    for _ in range(1_000):
        output.feed(b"x" * 100)
    output.feed(b"\n")
    for _ in range(1_000):
        output.feed(b'{"type":"stream_event"}\n')
    output.feed(RESULT + "\n")
    assert len(output.text()) < 10_000 + 1_000
    assert output.overflow["long_lines"] == 1
    assert output.overflow["bytes"] + len(output.text()) > 100_000
    assert extracted(output.text()).outcome is IterationOutcome.SUCCESS


def test_collecting_ends_at_the_end_of_the_pipe(pipe: tuple[int, int]) -> None:
    os.write(pipe[1], recorded("claude_code/1_0_old.jsonl").encode())
    os.close(pipe[1])
    output = collect(pipe[0], deadline_seconds=30)
    assert output.closed
    assert not output.timed_out


def test_collecting_ends_after_a_result_though_the_process_hangs_on(pipe: tuple[int, int]) -> None:
    os.write(pipe[1], f"{RESULT}\n".encode())
    output = collect(pipe[0], deadline_seconds=30, after_result_seconds=0)
    assert output.has_result
    assert (
        extracted(output.text(), **output.context(IterationContext()).model_dump()).outcome is IterationOutcome.SUCCESS
    )


def test_collecting_ends_at_the_deadline_and_the_outcome_is_timeout(pipe: tuple[int, int]) -> None:
    os.write(pipe[1], b'{"type":"system","subtype":"init"}\n{"type":"assi')
    times = iter([0.0, 0.0, 1.0, 31.0])
    output = collect(pipe[0], deadline_seconds=30, clock=lambda: next(times))
    assert output.timed_out
    result = extracted(output.text(), **output.context(IterationContext()).model_dump())
    assert result.outcome is IterationOutcome.TIMEOUT
    assert result.not_kept == {"half_line": 1}


def test_a_second_result_of_a_background_turn_is_waited_for(pipe: tuple[int, int]) -> None:
    def write() -> None:
        for _ in range(2):
            os.write(pipe[1], f"{RESULT}\n".encode())
        os.close(pipe[1])

    writer = threading.Thread(target=write)
    writer.start()
    output = collect(pipe[0], after_result_seconds=20)
    writer.join()
    assert output.text().count("\n") == 2


def test_a_deadline_after_the_result_is_no_timeout() -> None:
    output = RawIterationOutput()
    output.feed(RESULT + "\n")
    output.close(timed_out=True)
    assert not output.timed_out


def test_a_closed_output_takes_no_more() -> None:
    output = RawIterationOutput()
    output.close()
    with pytest.raises(ValueError, match="closed"):
        output.feed(b"x")
