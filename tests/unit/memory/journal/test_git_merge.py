from __future__ import annotations

import subprocess
from pathlib import Path

from sluice.memory.journal import Journal
from sluice.memory.journal import entry as entries
from tests.support.memory.entries import added, iteration, learning, said


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def test_journals_of_two_branches_become_one_by_a_union_merge(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "auth")
    journal.append([iteration(1), added("Use the pool")])
    (tmp_path / ".gitattributes").write_text("*.jsonl merge=union\n")
    (tmp_path / ".gitignore").write_text("*.lock\n")
    git(tmp_path, "init", "--initial-branch", "main")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--message", "begin")
    git(tmp_path, "checkout", "-b", "other")
    conflict = entries.ConflictFound(learning_id=learning("Use the pool").id, other_id=learning("Avoid the pool").id)
    journal.append([iteration(2), added("Avoid the pool"), said(conflict)])
    git(tmp_path, "commit", "--all", "--message", "theirs")
    git(tmp_path, "checkout", "main")
    journal.append([iteration(3), added("Tests need a database")])
    git(tmp_path, "commit", "--all", "--message", "ours")
    git(tmp_path, "merge", "other")
    state = journal.read()
    assert [one.record.iteration_number for one in state.iterations.values()] == [1, 3, 2]
    assert (len(state.learnings), len(state.conflicts), journal.problems()) == (3, 1, ())
    assert journal.append([iteration(2)]) == [False]
