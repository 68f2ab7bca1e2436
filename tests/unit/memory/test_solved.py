"""An error stands over iterations until its check passes, and teaches what solved it: whatever tool it was of."""

from __future__ import annotations

from pathlib import Path

from tests.support.memory.agent_loop import FEATURE, Loop
from tests.support.memory.claude_stream import ClaudeStream

MYPY = 'src/a.py:3: error: Incompatible return value type (got "str", expected "int")  [return-value]\nFound 1 error'
LONG = """\
=================================== FAILURES ===================================
___________________________________ test_total ___________________________________

    def test_total():
>       assert total() == 2
E       assert 1 == 2

tests/test_a.py:4: AssertionError
=========================== short test summary info ============================
FAILED tests/test_a.py::test_total - assert 1 == 2
1 failed in 0.1s"""
SHORT = "FAILED tests/test_a.py::test_total - assert 1 == 2\n1 failed in 0.1s"


def texts(loop: Loop) -> list[str]:
    return [one.text for one in loop.memory.learnings(FEATURE).learnings]


def test_a_type_error_that_a_later_iteration_solves_is_printed_no_more_and_teaches_how(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    loop.iterate(1, lambda stream, _: stream.run("mypy src", MYPY, 1).run("pytest -q", SHORT, 1).end("Both are red."))
    assert "Incompatible" in loop.memory.prompt(FEATURE).text

    def act(stream: ClaudeStream, _: object) -> str:
        stream.say("It has to return a number.").edit("src/a.py", "str(", "int(")
        return stream.run("mypy .", "Success: no issues found").run("pytest -q", SHORT, 1).end("The types are right.")

    _, record = loop.iterate(2, act)
    assert [one.message for one in record.errors] == ["tests/test_a.py::test_total: assert 1 == 2"]
    assert [(one.tool, one.solved_by) for one in record.solved] == [
        ("mypy", "changed src/a.py: It has to return a number.")
    ]
    lesson = next(one for one in texts(loop) if "was solved" in one)
    assert "Incompatible" in lesson
    assert "changed src/a.py: It has to return a number." in lesson
    errors = [line for line in loop.memory.prompt(FEATURE).text.split("\n") if " error at " in line]
    assert [("met in iterations 1 and 2" in line, "test_total" in line) for line in errors] == [(True, True)]


def test_the_same_failure_in_another_form_of_report_is_the_same_error_and_not_gone(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    for number, (command, output) in enumerate([("pytest", LONG), ("pytest --tb=no | tail -3", SHORT)] * 2, start=1):
        stream = ClaudeStream(f"session-{number}", "/home/dev/shop").edit("src/a.py", "1", "2")
        printed = stream.run(command, output, int("|" not in command)).end("Red.")
        loop.iterate(number, lambda *_, printed=printed: printed)
    assert "met in iterations 1, 2, 3 and 4" in loop.memory.prompt(FEATURE).text
    assert not [one for one in texts(loop) if "went away" in one or "was solved" in one]


def test_a_prompt_printed_before_writes_nothing(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    loop.iterate(1, lambda stream, _: stream.run("pytest", SHORT, 1).end("Red."))
    loop.memory.prompt(FEATURE)
    (journal,) = tmp_path.glob("*.jsonl")
    before = journal.stat().st_mtime_ns, journal.read_bytes()
    loop.memory.prompt(FEATURE)
    assert (journal.stat().st_mtime_ns, journal.read_bytes()) == before


def test_what_was_changed_is_no_echo_of_the_prompt_that_named_the_file(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    unused = "tests/test_a.py:1:8: F401 `os` imported but unused\nFound 1 error."
    loop.iterate(
        1, lambda stream, _: stream.edit("tests/test_a.py", "", "x").run("ruff check .", unused, 1).end("Red.")
    )
    loop.memory.prompt(FEATURE, iteration_number=2)
    loop.iterate(2, lambda stream, _: stream.edit("tests/test_a.py", "x", "").run("ruff check .", "ok").end("Green."))
    assert [one for one in texts(loop) if one.endswith("was solved: changed tests/test_a.py.")]


def test_errors_that_one_change_solved_are_learned_together(tmp_path: Path) -> None:
    """The first, of an order, is only a consequence of the second."""
    loop = Loop(tmp_path)
    lines = "tests/test_a.py:1:1: I001 Import block is un-sorted\ntests/test_a.py:1:8: F401 `os` imported but unused\n"
    loop.iterate(1, lambda stream, _: stream.run("ruff check .", f"{lines}Found 2 errors.", 1).end("Red."))
    loop.iterate(2, lambda stream, _: stream.edit("tests/test_a.py", "x", "").run("ruff check .", "ok").end("Green."))
    (told,) = [one for one in texts(loop) if "solved" in one]
    assert "I001" in told
    assert "F401" in told
    assert told.endswith(" were solved: changed tests/test_a.py.")


def test_that_a_solved_error_came_up_again_is_printed_no_more_and_a_type_error_is_one(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    for number in (1, 2):
        loop.iterate(number, lambda stream, _: stream.run("mypy src", MYPY, 1).end("Red."))
    assert "Type error at src/a.py" in loop.memory.prompt(FEATURE).text
    assert [one for one in texts(loop) if "came up in more than one iteration" in one]
    ended = "Success: no issues found"
    loop.iterate(3, lambda stream, _: stream.edit("src/a.py", "str(", "int(").run("mypy src", ended).end("Green."))
    block = loop.memory.prompt(FEATURE).text
    assert "was solved" in block
    assert "came up in more than one iteration" not in block
