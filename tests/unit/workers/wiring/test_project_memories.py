"""The folders of an instance's projects: found again by name, apart from one another, and none made by a question."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sluice.contracts.errors import Conflict, Corrupted, NotFound
from sluice.memory.memory import Memory
from sluice.memory.ports import Sanitised
from sluice.workers.wiring.memories import NAME_FILE, ProjectMemories


@pytest.fixture
def memories(tmp_path: Path) -> ProjectMemories:
    return ProjectMemories(tmp_path / "memory", lambda folder, name, _: Memory(folder, name, sanitise=Sanitised))


def test_a_project_is_found_again_by_its_name(memories: ProjectMemories, tmp_path: Path) -> None:
    folder = memories.founded("/home/me/shop").folder
    assert memories.names() == ("/home/me/shop",)
    assert memories.existing("/home/me/shop").folder == folder
    assert memories.founded("/home/you/shop").folder != folder
    assert len(list((tmp_path / "memory").iterdir())) == 2


def test_a_question_founds_nothing(memories: ProjectMemories, tmp_path: Path) -> None:
    assert memories.of("/never/was").features() == []
    with pytest.raises(NotFound, match="never/was"):
        memories.existing("/never/was")
    assert memories.names() == ()
    assert not (tmp_path / "memory").exists()


def test_a_folder_of_another_name_is_refused_and_an_unreadable_one_is_left_out(memories: ProjectMemories) -> None:
    name = memories.founded("/home/me/shop").folder / NAME_FILE
    name.write_text(json.dumps({"project": "/home/me/bank"}))
    with pytest.raises(Conflict, match="/home/me/bank"):
        memories.founded("/home/me/shop")
    name.write_text("{")
    with pytest.raises(Corrupted, match=NAME_FILE):
        memories.founded("/home/me/shop")
    memories.founded("/home/you/shop")
    assert memories.names() == ("/home/you/shop",)
