"""The table of problem matchers and the reports for machines."""

from __future__ import annotations

import re

import pytest

from sluice.contracts.memory.model import ErrorType
from sluice.memory.extraction.errors import find_errors, last_lines
from sluice.memory.extraction.errors.find import LAST_LINES
from sluice.memory.extraction.errors.matchers import Matcher, matchers


def test_each_row_of_the_table_has_patterns_that_compile_and_groups_that_are_known() -> None:
    known = {"path", "line", "column", "message", "name", "prefix", "program"}
    for row in matchers():
        for pattern in (row.begin, *row.place, *row.said, row.end, row.more, row.mute, row.unless, row.file, row.after):
            assert set(re.compile(pattern or "").groupindex) <= known, row.begin


def test_a_row_with_a_field_that_there_is_not_is_refused() -> None:
    with pytest.raises(TypeError, match="pattern"):
        Matcher.of({"tools": ["x"], "type": "Lint", "marks": ["x"], "begin": "x", "pattern": "y"})


def test_the_failures_of_a_junit_report_are_read() -> None:
    report = (
        '<?xml version="1.0"?>\n<testsuites><testsuite name="s" tests="2">\n'
        '<testcase classname="a" name="test_b" file="tests/test_a.py" line="7"><failure message="1 != 2&#10;x"/></testcase>\n'
        '<testcase classname="a" name="test_c"/></testsuite></testsuites>\n'
    )
    (error,) = find_errors(report, command="make report", exit_code=2, root="/project")
    assert (error.message, error.error_type) == ("test_b: 1 != 2", ErrorType.TEST)
    assert (error.file_path, error.line, error.tool) == ("tests/test_a.py", 7, "junit")
    declared = report.replace("<testsuites>", "<!DOCTYPE x [<!ENTITY a 'b'>]><testsuites>")
    assert find_errors(declared, command="make report", exit_code=2, root="/project") == ()


def test_the_last_lines_are_kept_without_colours_and_empty_lines() -> None:
    output = "".join(f"line {number}\r\n\n" for number in range(40)) + "\x1b[31mError: no such table\x1b[0m\n"
    kept = last_lines(output).split("\n")
    assert (len(kept), kept[0], kept[-1]) == (LAST_LINES, "line 26", "Error: no such table")
    assert last_lines(" \n") == ""
    assert len(last_lines("x" * 10_000)) < 2_000
