"""The outcome of an iteration comes from the last run of each check; an error stands until its check passes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from sluice.contracts.memory.model import IterationOutcome
from sluice.memory.extraction.result import ExtractionResult
from tests.support.memory.agent_streams import extracted
from tests.support.memory.claude_stream import ClaudeStream
from tests.support.repository import DATA

OUT = IterationOutcome
RED = "tests/test_a.py F\nFAILED tests/test_a.py::test_total - assert 1 == 2\n1 failed, 4 passed in 0.1s"
GREEN = "5 passed in 0.1s"
Run = tuple[str, str, int]


def session(*runs: Run | str, end: str = "Done.") -> ExtractionResult:
    """The result of a session: commands with what they printed and their exit code, and texts of the agent."""
    stream = ClaudeStream("s", "/home/dev/shop")
    for one in runs:
        if isinstance(one, tuple):
            stream.run(*one)
        elif one.endswith(".py"):
            stream.edit(one, "a", "b")
        else:
            stream.say(one)
    return extracted(stream.end(end))


OUTCOMES: dict[tuple[Run, ...], IterationOutcome] = {
    (("pytest -q", RED, 1),): OUT.FAILURE,
    (("pytest -q", RED, 1), ("pytest -q", GREEN, 0)): OUT.SUCCESS,
    (("pytest -q tests/test_a.py", RED, 1), ("cd tests && python -m pytest", GREEN, 0)): OUT.SUCCESS,
    (("pytest -q", RED, 1), ("pytest tests/test_a.py", GREEN, 0)): OUT.PARTIAL,
    (("pytest tests/test_a.py", RED, 1), ("pytest tests/test_b.py", GREEN, 0)): OUT.FAILURE,
    (("pytest -q | tail -5", RED, 0),): OUT.FAILURE,
    (("pytest -q; echo EXIT $?", "killed\nEXIT 137", 0),): OUT.FAILURE,
    (("mix test 2>&1 | tail -5", "12 tests, 1 failure", 0),): OUT.FAILURE,
    (("mix test 2>&1 | tail -5", "12 tests, 0 failures", 0),): OUT.SUCCESS,
    (("npm run lint", "1 problem", 1), ("npm test", "ok", 0)): OUT.FAILURE,
    (("ruff check . && mypy src && pytest", "src/a.py:3: error: Bad  [x]\nFound 1 error in 1 file", 1),): OUT.FAILURE,
    (("pytest", "bash: pytest: command not found", 127), ("python -m pytest", GREEN, 0)): OUT.SUCCESS,
    (("python -m pytest", "/bin/python: No module named pytest", 1),): OUT.SUCCESS,
    (("grep -rn total tests", "", 1), ("cat build.log", "ERROR: 3 failed", 0)): OUT.SUCCESS,
    (("python reproduce.py", "ValueError: x", 1),): OUT.SUCCESS,
    (("python manage.py test shop", "FAILED (failures=1)", 1),): OUT.FAILURE,
    (("./run_tests.sh", "no", 2),): OUT.FAILURE,
    (("docker compose run --rm web python -m pytest -q", RED, 1), ("pytest", GREEN, 0)): OUT.SUCCESS,
    (("docker exec app bash -c 'npm test'", "1 failing", 1),): OUT.FAILURE,
    (("cd web && npx tsc --noEmit", "a.ts(1,2): error TS2304: Cannot find name 'x'.", 2),): OUT.FAILURE,
}


@pytest.mark.parametrize(("runs", "expected"), OUTCOMES.items(), ids=lambda one: one[-1][0] if one[1:] else "")
def test_the_last_run_of_each_check_decides_whatever_the_result_line_says(
    runs: tuple[Run, ...], expected: IterationOutcome
) -> None:
    assert session(*runs).outcome is expected


def test_what_the_agent_says_comes_second() -> None:
    assert session(end="I could not fix the login; the tests still fail.").outcome is OUT.FAILURE
    assert session(("pytest", GREEN, 0), end="The linter is still red.").outcome is OUT.PARTIAL
    assert session(end="The tests failed at first; they pass now.").outcome is OUT.SUCCESS
    assert session(end="The parser is broken on tabs: fixed. I could not find other callers.").outcome is OUT.SUCCESS


def test_the_caller_may_know_the_outcome() -> None:
    stream = ClaudeStream("s", "/home/dev/shop").run("pytest", GREEN).end("Done.")
    assert extracted(stream, outcome=OUT.FAILURE).outcome is OUT.FAILURE
    assert extracted({"outcome": "Success", "summary": "x"}, outcome=OUT.PARTIAL).outcome is OUT.PARTIAL


def test_what_was_solved_is_kept_with_how_and_stands_no_more() -> None:
    found = session(
        ("mypy src", "src/a.py:3: error: Incompatible types  [assignment]\nFound 1 error in 1 file", 1),
        "The total is an int: it needs a Decimal.",
        "src/a.py",
        ("mypy src", "Success: no issues found", 0),
        ("git push", "fatal: The current branch x has no upstream branch.", 128),
        ("git push --set-upstream origin x", "", 0),
    )
    assert found.errors == ()
    assert [(one.tool, one.solved_by) for one in found.solved] == [
        ("mypy", "changed src/a.py: The total is an int: it needs a Decimal."),
        ("git", "ran `git push --set-upstream origin x`"),
    ]


def test_only_the_errors_of_the_last_red_run_stand_unless_it_could_not_see_the_others() -> None:
    first = "FAILED tests/test_a.py::test_x - assert 1 == 2\nFAILED tests/test_b.py::test_y - assert 3 == 4\n2 failed"
    second = "FAILED tests/test_b.py::test_y - assert 3 == 4\n1 failed, 1 passed"
    broken = "ERROR tests/test_b.py - SyntaxError: invalid syntax\n1 error"
    assert [one.file_path for one in session(("pytest", first, 1), ("pytest", second, 1)).errors] == ["tests/test_b.py"]
    assert len(session(("pytest", first, 1), ("pytest", broken, 1)).errors) == 3


def test_the_end_of_a_red_output_is_kept_where_no_format_is_known() -> None:
    printed = "starting\nmigrate: database is locked\nfailed"
    (error,) = session(("make migrate-check | tail -40", printed, 0)).errors
    assert error.evidence == printed


SESSIONS = DATA / "agent_sessions"


@pytest.mark.skipif(not SESSIONS.exists(), reason=f"{SESSIONS} is absent")
@pytest.mark.parametrize(("name", "standing", "solved"), [("258c", 1, 5), ("8463", 1, 9), ("ae4a", 1, 8)])
def test_real_session_files_end_well_and_leave_almost_no_error(name: str, standing: int, solved: int) -> None:
    """Red runs stood in their midst; all were green at the end, after what the records keep as solved."""
    (path,) = SESSIONS.glob(f"{name}*.gz")
    text = gzip.decompress(Path(path).read_bytes()).decode()
    folder = next(one["cwd"] for one in map(json.loads, text.splitlines()) if "cwd" in one)
    found = extracted(text, project=folder)
    assert found.outcome is OUT.SUCCESS
    assert all(one.passed for one in found.checks)
    assert len(found.errors) <= standing
    assert len(found.solved) >= solved
    assert any(
        "secret_key_base" in one.message and "config/test.exs" in (one.solved_by or "") for one in found.solved
    ) or (name == "ae4a")
