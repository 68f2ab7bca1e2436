"""The progress of `sluice ingest` where nobody watches a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from sluice.cli.agent import ingest


def test_without_a_terminal_a_line_comes_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    told = io.StringIO()
    monkeypatch.setattr(ingest, "error_console", Console(file=told, width=80))
    monkeypatch.setattr(ingest, "TELL_SECONDS", 0.0)
    with ingest.indexing_progress(quiet=False) as progress:
        task = progress.add_task("reading", total=None)
        progress.update(task, advance=1)
        progress.update(task, total=5, completed=2)
    assert told.getvalue().splitlines() == ["reading: 1", "reading: 2 of 5"]


def test_a_quiet_command_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    told = io.StringIO()
    monkeypatch.setattr(ingest, "error_console", Console(file=told, width=80))
    monkeypatch.setattr(ingest, "TELL_SECONDS", 0.0)
    with ingest.indexing_progress(quiet=True) as progress:
        progress.advance(progress.add_task("reading", total=None))
    assert told.getvalue() == ""
