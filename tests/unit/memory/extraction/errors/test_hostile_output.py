"""An output that was made to keep its reader busy is read in bounded time, and gives a bounded number of errors."""

from __future__ import annotations

import time

import pytest

from sluice.memory.extraction.errors import find_errors
from sluice.memory.extraction.errors.find import MAX_FOUND
from sluice.memory.extraction.shell import read_command

MILLION = 1_000_000
MOST_SECONDS = 1.0
"""Measured: 0.25 at most, on two busy cores."""


def filled(piece: str) -> str:
    return piece * (MILLION // len(piece)) + "\n!"


PIECES = {
    "one line": "a",
    "spaces": " ",
    "empty lines": "\n",
    "colons": "a: ",
    "escapes": "\x1b[",
    "titles": "\x1b]",
    "returns": "a\r",
    "rules": "_",
    "errors": "error: x\n",
    "places": "src/a.py:3: error: x\n",
    "tracebacks": "Traceback (most recent call last):\n",
    "frames": '  File "a.py", line 3, in f\n',
    "groups": "  + Exception Group Traceback (most recent call last):\n  | x\n",
    "panics": "panic: x\n",
    "goroutines": "panic: x\ngoroutine 1:\n",
    "old panics": "thread 'x' panicked at 'a\n",
    "go tests": "--- FAIL: T (0.0s)\n    a.go:3:\n",
    "javascript errors": "TypeError: x\n",
    "javascript stacks": "Error: x\n    at f (a.js:1:2)\n",
    "jest": "FAIL a.js\n  ● a › b\n\n  x\n",
    "summaries": "FAILED a.py::b[ - x\n",
    "rustc": "error: x\n --> a.rs:1:2\n",
    "brackets": "[",
    "json": '{"a": 1, "message": 2}\n',
    "open json": "{\n",
    "folders": "make[1]: Entering directory '/x'\na.c:1: error: x\n",
    "annotations": "::error file=a:b:c:",
}


@pytest.mark.parametrize("name", sorted(PIECES))
def test_a_million_characters_are_read_within_a_second(name: str) -> None:
    text = filled(PIECES[name])
    started = time.thread_time()
    find_errors(text, command="make test", exit_code=1, root="/project")
    assert time.thread_time() - started < MOST_SECONDS


def test_names_that_all_differ_are_read_within_a_second() -> None:
    count = MILLION // 22
    for text in (
        "".join(f"--- FAIL: T{n}/a (0s)\n" for n in range(count)),
        "".join(f"FAILED a.py::b{n} - x\n" for n in range(count)),
        "".join(f"test a{n} ... FAILED\n" for n in range(count)),
    ):
        started = time.thread_time()
        assert len(find_errors(text, command=None, exit_code=1, root="/project")) <= MAX_FOUND
        assert time.thread_time() - started < MOST_SECONDS


@pytest.mark.parametrize(
    "command", ['a "' * 30_000, "<<E " * 30_000, "bash -c 'a;" * 3_000, "(" * 50_000, "\\" * 50_000]
)
def test_a_command_is_read_in_bounded_time(command: str) -> None:
    started = time.thread_time()
    read_command(command)
    assert time.thread_time() - started < MOST_SECONDS


def test_at_most_as_many_errors_are_given_as_a_record_holds() -> None:
    text = "".join(f"a.py:{n}: error: x {n}\n" for n in range(1, 3 * MAX_FOUND))
    assert len(find_errors(text, command="mypy .", exit_code=1, root=None)) == MAX_FOUND
