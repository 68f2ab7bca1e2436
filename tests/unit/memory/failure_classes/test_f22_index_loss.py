"""F22, the search index is lost: the journal alone gives everything back, under the same ids."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from sluice.contracts.memory.learning import LearningSource
from sluice.memory.journal import Journal
from sluice.memory.journal import entry as entries
from sluice.memory.journal.file import prove, state_sha256
from tests.support.memory.entries import added, iteration, learning, said
from tests.support.repository import REPOSITORY

ONE, OTHER, THIRD = learning("Use the pool"), learning("Do not use the pool"), learning("Tests need a database")
REPEATED = said(
    entries.LearningRepeated(learning_id=ONE.id, text="use the pool!", reason="again", source=LearningSource.AGENT)
)
HUMAN = LearningSource.HUMAN
STORY = (
    iteration(1),
    iteration(2),
    added(ONE.text),
    added(OTHER.text),
    added(THIRD.text),
    said(entries.IterationsDistilled(entry_ids=(iteration(1).id, iteration(2).id), echoes=1)),
    REPEATED,
    said(entries.RepetitionUndone(entry_id=REPEATED.id)),
    said(entries.LearningPatched(learning_id=ONE.id, text="Use the connection pool", source=HUMAN)),
    said(entries.ConflictFound(learning_id=ONE.id, other_id=OTHER.id, evidence="not")),
    said(entries.ConflictResolved(learning_id=ONE.id, other_id=OTHER.id, kept=ONE.id, source=HUMAN)),
    said(entries.BlockPrinted(iteration_number=2, learning_ids=(ONE.id,), lines=("Use the connection pool",))),
    said(entries.LearningWeighed(learning_id=ONE.id, entry_id=iteration(2).id, used=True, failed_again=True)),
    said(entries.LearningsPruned(learning_ids=(THIRD.id,), why="nothing came of it")),
    said(entries.LearningReviewed(learning_id=THIRD.id, source=HUMAN)),
)
"""An entry of every kind."""

PROGRAM = """
import sys; from pathlib import Path; from sluice.memory.journal import Journal; from sluice.memory.journal.file import state_sha256
state = Journal(Path(sys.argv[1]), "auth").read()
print(state_sha256(state), *(one.record.point_id("/home/me/shop") for one in state.iterations.values()), *state.learnings)
"""


def test_f22_what_the_journal_holds_is_the_same_for_a_process_that_has_nothing_else(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "memory", "auth")
    for entry in STORY:
        journal.append([entry])
    held = journal.read()
    (tmp_path / "elsewhere").mkdir()
    shutil.copy(journal.path, tmp_path / "elsewhere")  # no index, no lock, no cache
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path / "elsewhere"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    points = [str(one.record.point_id("/home/me/shop")) for one in held.iterations.values()]
    assert told == [state_sha256(held), *points, *held.learnings]
    assert (held.learnings[ONE.id].text, held.learnings[ONE.id].reviewed) == ("Use the connection pool", True)


def test_f22_the_proof_names_what_is_held_and_not_in_the_journal(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "auth")
    assert prove(journal).entries == 0
    journal.append(STORY)
    proof = prove(journal)
    assert (proof.differences, proof.problems, proof.entries) == ((), (), len(STORY))
    assert proof.sha256 == state_sha256(journal.read())
    lines = journal.path.read_bytes().splitlines(keepends=True)
    modified = journal.path.stat().st_mtime_ns
    damaged = [*lines[:1], lines[1].replace(b"middleware", b"middlewarE"), *lines[2:]]
    journal.path.write_bytes(b"".join(damaged))
    proof = prove(journal)
    assert proof.differences[0] == f"iterations: 1 only held ({iteration(2).id})"
    assert proof.sha256 != state_sha256(journal.read())
    assert (proof.problems[0].line, journal.path.stat().st_mtime_ns > modified) == (2, True)
