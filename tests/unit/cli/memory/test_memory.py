"""`sluice memory` with a folder: it works without an instance, from a pipe, and keeps what a killed agent had said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sluice.cli.agent.opened_memory import opened
from sluice.cli.main import app
from tests.support.memory.instance import claude_stream
from tests.support.repository import IMPORT_PATH

FAILED = 'Traceback (most recent call last):\n  File "src/auth.py", line 3, in login\nValueError: no session cookie\n'
STREAM = claude_stream(output=FAILED, command="python src/auth.py")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's folder, without an instance."""
    monkeypatch.chdir(tmp_path)
    for name in ("SLUICE_DATA_DIR", "SLUICE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def sluice(*arguments: str, code: int = 0) -> Any:
    """What `sluice memory … --json` says."""
    result = CliRunner().invoke(app, ["memory", *arguments, "--json"])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def piped(*arguments: str) -> subprocess.Popen[bytes]:
    """The command with a pipe for its input."""
    command = [sys.executable, "-m", "sluice.cli", "memory", "record", "--feature", "auth", *arguments]
    environment = {**os.environ, "PYTHONPATH": IMPORT_PATH}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)


def test_a_file_is_recorded_and_the_next_prompt_knows_its_error(elsewhere: Path) -> None:
    Path("run.jsonl").write_text(STREAM)
    recorded = sluice("record", "--feature", "auth", "run.jsonl")
    assert recorded["record"]["outcome"] == "Failure"
    assert sluice("record", "--feature", "auth", "run.jsonl")["is_new"] is False
    assert "no session cookie" in sluice("prompt", "--feature", "auth")["text"]
    assert (elsewhere / ".ralph/db/memory/auth.jsonl").is_file()


def test_in_a_folder_of_a_repository_it_is_the_repository_s_memory(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (elsewhere / ".git").mkdir()
    (elsewhere / "src").mkdir()
    monkeypatch.chdir(elsewhere / "src")
    Path("run.jsonl").write_text(STREAM)
    sluice("record", "--feature", "auth", "run.jsonl")
    assert (elsewhere / ".ralph/db/memory/auth.jsonl").is_file()
    assert not (elsewhere / "src/.ralph").exists()


def test_a_pipe_is_passed_on_as_it_comes_and_recorded_at_its_end() -> None:
    with piped("--tee") as process:
        told, _ = process.communicate(STREAM.encode())
    assert (process.returncode, told.decode()) == (0, STREAM)
    assert "no session cookie" in sluice("prompt", "--feature", "auth")["text"]


def test_what_a_killed_agent_had_said_is_kept_half_a_line_and_all() -> None:
    lines = STREAM.splitlines(keepends=True)
    with piped("--json") as process:
        told, _ = process.communicate("".join([*lines[:3], lines[3][:20]]).encode())
    record = json.loads(told)["record"]
    assert record["outcome"] == "Partial"
    assert any("no session cookie" in error["message"] for error in record["errors"])


def test_an_agent_that_takes_too_long_is_remembered_as_a_timeout() -> None:
    with piped("--json", "--timeout", "0.5") as process:
        assert process.stdin is not None
        process.stdin.write("".join(STREAM.splitlines(keepends=True)[:3]).encode())
        process.stdin.flush()
        started = time.monotonic()
        assert process.stdout is not None
        record = json.loads(process.stdout.read())["record"]
        assert time.monotonic() - started < 60
    assert record["outcome"] == "Timeout"


def test_the_reader_of_what_is_passed_on_may_go_away() -> None:
    with piped("--tee") as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stdin is not None
        process.stdin.write(STREAM.encode())
        process.stdin.close()
        assert process.wait() == 0
    assert "no session cookie" in sluice("prompt", "--feature", "auth")["text"]


def test_opposites_are_shown_side_by_side_until_a_review_decides() -> None:
    one = sluice("learn", "--feature", "auth", "--reason", "the log", "The tests need a database")["learning"]["id"]
    other = sluice("learn", "--feature", "auth", "--reason", "the log", "The tests need no database")
    assert other["verdict"] == "conflict"
    assert len(sluice("review", "--feature", "auth")["conflicts"]) == 1
    kept = sluice("review", "--feature", "auth", other["learning"]["id"], "--keep-over", one)
    assert kept["state"] == "active"
    assert sluice("review", "--feature", "auth")["conflicts"] == []


def test_errors_name_field_and_remedy(elsewhere: Path) -> None:
    Path("run.jsonl").write_text("no output of any agent")
    assert sluice("record", "--feature", "auth", "run.jsonl", code=2)["field"] == "data"
    assert sluice("record", "--feature", "No Name", "run.jsonl", code=2)["field"] == "feature"
    assert sluice("review", "--feature", "auth", "lrn_" + "0" * 24, "--prune", code=2)["field"] == "prune"
    assert sluice("review", "--feature", "auth", "--prune") == []
    assert sluice("record", "--feature", "auth", "absent.jsonl", code=2)["field"] == "file"
    missing = sluice("review", "--feature", "auth", "lrn_" + "0" * 24, "--reject", code=3)
    assert missing["error"] == "not_found"


def test_the_proof_says_that_the_index_is_what_the_journal_says() -> None:
    Path("run.jsonl").write_text(STREAM)
    sluice("record", "--feature", "auth", "run.jsonl")
    [proof] = sluice("rebuild", "--prove")["proofs"]
    assert proof["is_equal"]
    assert proof["indexed"] == proof["documents"] >= 1
    exported = CliRunner().invoke(app, ["memory", "recall", "--feature", "auth"]).stdout
    assert len(exported.splitlines()) == proof["entries"]


def test_the_folder_is_chosen_where_the_project_has_one_and_the_instance_where_one_is_configured(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(".", None, None) as memory:
        assert memory.where == str(elsewhere / ".ralph/db/memory")
    monkeypatch.setenv("SLUICE_DATA_DIR", str(elsewhere / "data"))
    with opened(".", None, None) as memory:
        assert memory.where.startswith("the instance")
        assert memory.project_path == str(elsewhere)
    (elsewhere / ".ralph").mkdir()
    with opened(".", None, None) as memory:
        assert memory.where == str(elsewhere / ".ralph/db/memory")
    with opened(".", None, False) as memory:
        assert memory.where.startswith("the instance")
    with opened(".", elsewhere / "other", None) as memory:
        assert memory.where == str(elsewhere / "other")


def test_an_instance_that_does_not_run_takes_an_iteration_all_the_same(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_DATA_DIR", str(elsewhere / "data"))
    Path("run.jsonl").write_text(STREAM)
    recorded = sluice("record", "--feature", "auth", "run.jsonl")
    assert recorded["run"]["status"] == "open"
    assert "no session cookie" in sluice("prompt", "--feature", "auth")["text"]
