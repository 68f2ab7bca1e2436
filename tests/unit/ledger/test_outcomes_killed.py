"""A process that is killed leaves no run whose outcome says something else than its events."""

from __future__ import annotations

import random
import subprocess
import sys
import time

import pytest

from sluice.contracts.learning.run_outcome import RunOutcome
from tests.support.ledger_story import Story
from tests.support.repository import REPOSITORY


def outcomes(story: Story) -> dict[str, RunOutcome]:
    return {run.run_id: run for run in story.ledger.outcomes.decided_between(0)}


@pytest.mark.slow
def test_ends_and_feedback_are_never_half_recorded_however_the_process_dies(story: Story) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    for _ in range(2):
        known = len(outcomes(story))
        process = subprocess.Popen([sys.executable, "-m", "tests.unit.ledger.killed_judge", story.url], cwd=REPOSITORY)
        try:
            while len(outcomes(story)) < known + 2:
                assert process.poll() is None
                time.sleep(0.01)
            time.sleep(chance.uniform(0, 0.05))
        finally:
            process.kill()
            process.wait()
    found = outcomes(story)
    assert len(found) >= 4
    story.ledger.outcomes.rebuild()
    assert outcomes(story) == found, seed
    for run_id, outcome in found.items():
        status = story.ledger.status_of(run_id)
        assert outcome.status == ("open" if status == "answering" else status), seed
