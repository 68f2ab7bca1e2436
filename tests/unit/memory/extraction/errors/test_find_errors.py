"""What a tool's output tells, by the command first, then the exit status, then the text."""

from __future__ import annotations

import pytest

from sluice.contracts.memory.model import ErrorType
from sluice.memory.extraction.errors import FoundError, find_errors

TRACEBACK = """Traceback (most recent call last):
  File "/project/src/a.py", line 3, in <module>
    f()
  File "/usr/lib/python3.11/json/__init__.py", line 34, in f
ValueError: bad
"""
PYTEST = """=================================== FAILURES ===================================
____________________________________ test_b ____________________________________

    def test_b():
>       assert 1 == 2
E       assert 1 == 2

test_x.py:2: AssertionError
=========================== short test summary info ============================
FAILED test_x.py::test_b - assert 1 == 2
"""
MYPY = 'm.py:3: error: Incompatible return value type (got "int", expected "str")  [return-value]\n'


def found(output: str, command: str | None = None, exit_code: int | None = 1) -> tuple[FoundError, ...]:
    return find_errors(output, command=command, exit_code=exit_code, root="/project")


def places(
    output: str, command: str | None = None, exit_code: int | None = 1
) -> list[tuple[str, str | None, int | None]]:
    return [(one.error_type.value, one.file_path, one.line) for one in found(output, command, exit_code)]


def test_a_traceback_is_placed_at_its_last_frame_inside_the_project() -> None:
    assert found(TRACEBACK) == (FoundError("ValueError: bad", ErrorType.RUNTIME, "src/a.py", 3, "python"),)


def test_a_failure_told_in_a_block_and_in_the_summary_is_one_error() -> None:
    assert places(PYTEST, "pytest -q") == [("Test", "test_x.py", 2)]


def test_a_path_is_relative_to_where_the_command_changed_to() -> None:
    assert places(MYPY, "cd /project/src && mypy m.py") == [("Compile", "src/m.py", 3)]
    assert places(MYPY, "cd .. && mypy m.py") == [("Compile", None, None)]


def test_a_path_outside_the_project_is_told_as_outside_and_not_given() -> None:
    (one,) = find_errors(TRACEBACK, command="python a.py", exit_code=1, root="/elsewhere")
    assert (one.file_path, one.line, one.outside) == (None, None, True)


@pytest.mark.parametrize(
    "command", ["cat log.txt", "grep -rn error .", "sed -n 1,40p a.py", "git diff", "cd x && head -50 log | tail"]
)
def test_a_command_that_only_shows_files_tells_of_no_errors(command: str) -> None:
    assert found(TRACEBACK + PYTEST + MYPY, command, 0) == ()
    assert found(TRACEBACK + PYTEST + MYPY, command, None) == ()


def test_a_command_that_only_shows_files_tells_its_own_errors() -> None:
    assert places("cat: notes.txt: No such file or directory", "cat notes.txt", 1) == [("Runtime", "notes.txt", None)]


def test_a_command_that_succeeded_tells_of_no_errors() -> None:
    assert found(PYTEST, "pytest", 0) == ()
    assert found(MYPY, "cd src && mypy .", 0) == ()


@pytest.mark.parametrize("command", ["pytest | tail -5", "pytest || true", "pytest; echo done"])
def test_success_of_a_later_step_does_not_speak_for_an_earlier_one(command: str) -> None:
    assert places(PYTEST, command, 0) == [("Test", "test_x.py", 2)]


def test_success_behind_pipefail_speaks_for_all() -> None:
    assert found(PYTEST, "set -eo pipefail; pytest | tail -5", 0) == ()


def test_colours_and_carriage_returns_hide_nothing() -> None:
    coloured = "\x1b[96ma.ts\x1b[0m:\x1b[93m1\x1b[0m:\x1b[93m7\x1b[0m - \x1b[91merror\x1b[0m\x1b[90m TS2322: \x1b[0mType 'x'.\r\n"
    assert places(coloured, "npx tsc", 2) == [("Compile", "a.ts", 1)]


def test_the_exit_status_that_an_agent_writes_above_an_output_counts() -> None:
    assert places("Exit code 1\n" + MYPY, "mypy .", None) == [("Compile", "m.py", 3)]
    assert found("Exit code 0\n" + MYPY, "mypy .", None) == ()


def test_npm_that_may_not_write_is_an_error_of_permission() -> None:
    said = (
        "npm ERR! code EACCES\nnpm ERR! syscall mkdir\nnpm ERR! path /usr/local/lib/node_modules/x\n"
        "npm ERR! errno -13\nnpm ERR! Your cache folder contains root-owned files\n"
    )
    assert places(said, "npm install -g x", 243) == [("Permission", None, None)]


def test_a_folder_called_internal_is_the_projects_own() -> None:
    said = "# acme.io/tool/internal/store\ninternal/store/store.go:17:16: undefined: Reader\n"
    assert places(said, "go build ./...", 2) == [("Compile", "internal/store/store.go", 17)]


def test_an_old_panic_of_rust_is_placed_by_its_last_words() -> None:
    said = "thread 'main' panicked at 'index out of bounds: the len is 3', src/main.rs:4:20\nnote: run with `RUST_BACKTRACE=1`\n"
    assert places(said, "cargo run", 101) == [("Runtime", "src/main.rs", 4)]
