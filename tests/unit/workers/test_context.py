"""What a process of Sluice does for its ledger, beside the work."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from sluice.ledger.ledger import Ledger
from sluice.workers import context as contexts
from sluice.workers.context import Context
from sluice.workers.settings import Settings


def handled(settings: Settings) -> int:
    with Ledger(settings.ledger_location) as ledger:
        return sum(one.handled for one in ledger.stage_minutes.figures(0, 1).get("crawl", ()))


def test_what_a_process_did_is_written_every_few_seconds_and_when_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contexts, "FLUSH_SECONDS", 0.05)
    settings = Settings(data_dir=tmp_path)
    context = Context(settings)
    context.ledger.stage_minutes.note_ended("crawl", "handled", 1.0, 1.0)
    deadline = time.monotonic() + 30
    while not handled(settings):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    monkeypatch.setattr(contexts, "FLUSH_SECONDS", 3_600.0)
    with_long_waits = Context(settings)
    with_long_waits.ledger.stage_minutes.note_ended("crawl", "handled", 1.0, 1.0)
    with_long_waits.close()
    context.close()
    assert handled(settings) == 2
