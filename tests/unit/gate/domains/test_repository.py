"""How far a repository has aged: versions, releases, failing tests, unfinished code."""

from __future__ import annotations

import pytest

from sluice.contracts.profiles import Dependency
from sluice.gate.domains import (
    compare_versions,
    count_todo_marks,
    newest_release,
    parse_version,
    rate_drift,
    rate_failing_tests,
    rate_todo_density,
)


@pytest.mark.parametrize(
    ("text", "version"),
    [("2.31.0", (2, 31, 0)), ("v1.9.1", (1, 9, 1)), ("2.0rc1", (2, 0)), (">=4.2", (4, 2)), ("main", None), ("", None)],
)
def test_a_version_is_its_leading_numbers(text: str, version: tuple[int, ...] | None) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize(
    ("used", "newest", "drift"),
    [("1.9", "2.0", 1.0), ("2.1", "2.3.1", 0.5), ("2.3.0", "2.3.4", 0.1), ("2.3", "2.3.0", 0.0), ("3.0", "2.9", 0.0), ("1.0", None, 0.0)],
)  # fmt: skip
def test_a_major_release_counts_most_and_being_ahead_not_at_all(used: str, newest: str | None, drift: float) -> None:
    assert compare_versions(used, newest) == drift


def test_the_package_that_is_farthest_behind_counts() -> None:
    near = Dependency(name="click", used="8.1.0", file_path="r.txt", newest="8.1.7")
    far = Dependency(name="requests", used="1.2", file_path="r.txt", newest="2.0")
    assert rate_drift([near, far], asks_for_version=False)[0] == 1.0


def test_an_upgrade_of_which_nothing_is_indexed_is_asked_outside_and_a_plain_question_is_not() -> None:
    unknown = [Dependency(name="requests", used="1.2", file_path="r.txt")]
    assert rate_drift(unknown, asks_for_version=True)[0] == 1.0
    assert rate_drift(unknown, asks_for_version=False)[0] == 0.0


@pytest.mark.parametrize(
    ("headings", "text", "newest"),
    [
        ("requests/HISTORY.md", "## 2.31.0 (2023-05-22)\n\n- x\n\n## 2.32.0\n", "2.32.0"),
        ("https://pypi.org/project/requests", "Latest version: 2.32.3 released May 2024", "2.32.3"),
        ("notes", "We moved to requests 2.30.0 last week.", "2.30.0"),
        ("requests changelog", "## 3.0.0rc1\n\n## 2.9.0\n", "2.9.0"),
        ("flask changelog", "## 3.0.0", None),
        ("requests", "It makes 10.5 requests per second.", None),
        ("requests-cache changelog", "## 1.2.0", None),
    ],
)
def test_the_newest_release_is_told_by_passages_about_the_package(headings: str, text: str, newest: str | None) -> None:
    assert newest_release("requests", [(headings, text)]) == newest


def test_few_lines_tell_no_density_and_marks_are_words() -> None:
    assert count_todo_marks(["# TODO: x\n\ntodo_list = []\nTODOS = 1\n"]) == (1, 3)
    assert rate_todo_density(1, 3)[0] == 0.0
    assert rate_todo_density(1, 100)[0] == 0.5
    assert rate_todo_density(None, None)[0] == 0.0


def test_three_failing_tests_about_the_question_are_enough() -> None:
    assert [rate_failing_tests(names)[0] for names in ((), ("a",), ("a", "b", "c", "d"))] == [0.0, 0.333333, 1.0]
