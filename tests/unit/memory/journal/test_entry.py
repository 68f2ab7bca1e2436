from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import get_args

import pytest

from sluice.contracts.errors import InvalidInput
from sluice.memory.journal import Journal, JournalEntry
from sluice.memory.journal import entry as entries
from tests.support.memory.entries import iteration, said
from tests.support.repository import REPOSITORY

GOLDEN = REPOSITORY / "tests" / "golden" / "memory" / "journal" / "version-1.jsonl"
"""An entry of every kind, as the first version wrote them."""
LEARNINGS = GOLDEN.with_name("version-1-learnings.json")
"""What these entries add up to."""


def test_lines_that_were_written_once_are_read_and_written_again_byte_by_byte() -> None:
    lines = GOLDEN.read_text().splitlines()
    read = [JournalEntry.from_json_line(line) for line in lines]
    assert [one.to_json_line() for one in read] == lines
    kinds = {one.model_fields["kind"].default for one in get_args(get_args(entries.EntryBody)[0])}
    assert {one.body.kind for one in read} == kinds


def test_a_journal_that_was_written_once_gives_the_same_state(tmp_path: Path) -> None:
    shutil.copy(GOLDEN, tmp_path / "auth.jsonl")
    journal = Journal(tmp_path, "auth")
    assert journal.problems() == ()
    state = journal.read()
    assert [one.model_dump(mode="json") for one in state.learnings.values()] == json.loads(LEARNINGS.read_text())
    assert (len(state.iterations), len(state.distilled), len(state.printed), len(state.weighed)) == (2, 2, 1, 1)


def test_the_id_follows_from_the_kind_and_the_key_and_not_from_the_time() -> None:
    body = entries.LearningsPruned(learning_ids=(), why="old")
    assert said(body, "a").id == JournalEntry.of(body, key="a").id != said(body, "b").id
    assert iteration(1).id == iteration(1, summary="told otherwise").id != iteration(1, "payments").id


def test_what_no_line_can_hold_is_refused_with_the_remedy() -> None:
    with pytest.raises(InvalidInput, match="keep it below 1048576 bytes"):
        said(entries.LearningsPruned(learning_ids=(), why="x" * entries.MAX_LINE_BYTES)).to_json_line()
    with pytest.raises(InvalidInput, match="replace what is no Unicode"):
        said(entries.LearningsPruned(learning_ids=(), why="\ud800"), "a").to_json_line()


def test_a_line_begins_with_its_version_and_id() -> None:
    entry = iteration(1)
    assert entry.to_json_line().startswith(f'{{"version":1,"id":"{entry.id}","at":"2026-02-07T14:31:00Z","body":{{')
