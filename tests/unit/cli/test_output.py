"""What commands print: tables, summaries, and how those end that fail or are interrupted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from rich.progress import Progress

from sluice.cli.agent.ingest import Skipped
from sluice.cli.connection import goes_on
from sluice.cli.output import fail, print_table
from sluice.contracts.errors import NotFound, Overloaded, SluiceError, TimedOut


@pytest.mark.parametrize(
    ("error", "code"), [(Overloaded("the queue is full", 7.5), 7), (TimedOut("too slow"), 6), (NotFound("no run"), 3)]
)
def test_an_error_leaves_with_the_code_of_its_kind(error: SluiceError, code: int) -> None:
    with pytest.raises(typer.Exit) as left:
        fail(error)
    assert left.value.exit_code == code


def test_a_program_is_told_when_to_come_back(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        fail(Overloaded("the queue is full", 7.5), as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert (told["error"], told["retry_after_seconds"]) == ("overloaded", 7.5)


def test_a_piped_table_is_whole_however_wide(capsys: pytest.CaptureFixture[str]) -> None:
    long = "word " * 100
    print_table("runs", ("run", "question", "more"), [("run_1", long, long), ("run_2", "short", "")])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert lines[2].split() == ["run_1", *long.split(), *long.split()]


def test_an_interrupted_wait_names_the_run_and_that_it_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as left, goes_on("run_7"):
        raise KeyboardInterrupt
    assert left.value.exit_code == 130
    told = " ".join(capsys.readouterr().err.split())
    assert "run run_7 goes on" in told
    assert "sluice runs run_7" in told
    assert "sluice runs --cancel run_7" in told


def test_what_was_skipped_is_counted_by_reason() -> None:
    with Progress(disable=True) as progress:
        skipped = Skipped(progress, quiet=True)
        assert skipped.summary() == ""
        for path, reason in (("a", "empty"), ("b", "binary"), ("c", "binary")):
            skipped(Path(path), reason)
    assert skipped.summary() == "; 3 files skipped (2 binary, 1 empty)"
