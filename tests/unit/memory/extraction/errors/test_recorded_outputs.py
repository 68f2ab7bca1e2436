"""Outputs that tools printed on broken programs (bench/memory/errors) are read as the programs were broken."""

from __future__ import annotations

from collections import Counter

import pytest

from bench.memory.errors.score import PARTS, errors_of, read_outputs, score
from tests.support.repository import REPOSITORY

OUTPUTS = read_outputs(REPOSITORY / "tests/golden/memory/errors")
TOLD = [one for one in OUTPUTS if one["expected"]]
SILENT = [one for one in OUTPUTS if not one["expected"]]
QUOTA = {
    "pytest": 25, "traceback": 20, "mypy": 15, "ruff": 10, "gcc": 15, "tsc": 15, "eslint": 10, "jest": 10, "npm": 5,
    "node": 5, "go": 10, "cargo": 10, "unittest": 10, "shell": 10, "make": 5, "mocha": 5, "flake8": 5, "vitest": 5, "later": 60, "last": 50, "after": 100,
}  # fmt: skip
GOAL = 0.95
LESS = {("last", True): 0.94}
"""`go test -v` without its `=== RUN` lines tells messages of no test: the test is told, its place stands in the end."""


def test_each_tool_has_its_share_of_the_recorded_outputs() -> None:
    recorded = Counter(one["tool"] for one in TOLD)
    assert {tool: recorded[tool] for tool, least in QUOTA.items() if recorded[tool] < least} == {}
    assert len(TOLD) >= 150
    assert len(SILENT) >= 100


@pytest.mark.parametrize("tool", sorted(QUOTA))
@pytest.mark.parametrize("held_out", [False, True], ids=["written-on", "held-out"])
def test_type_file_and_line_are_read(tool: str, held_out: bool) -> None:
    read = score(one for one in TOLD if one["tool"] == tool and one["held_out"] is held_out)
    assert read.expected > 0
    goal = LESS.get((tool, held_out), GOAL)
    assert {part for part in PARTS if read.precision(part) < goal or read.recall(part) < goal} == set(), str(read)


def test_outputs_that_tell_of_no_error_give_none() -> None:
    assert [(one["ran"], errors_of(one)) for one in SILENT if errors_of(one)] == []


def test_a_recorded_output_names_no_path_of_the_machine_it_was_recorded_on() -> None:
    named = [
        one["ran"] for one in OUTPUTS if any(path in one["output"] for path in ("/work/", "/root/", "/home/ubuntu"))
    ]
    assert named == []
