"""F10, feedback loop amplification: a learning is told as an observation, and gains nothing by being told."""

from __future__ import annotations

import re
from pathlib import Path

from sluice.contracts.memory.learning import LearningSource
from tests.support.memory.agent_loop import FEATURE, WRONG, Loop, believe, work_on


def test_f10_learnings_are_told_as_observations(tmp_path: Path) -> None:
    """Each is quoted, with the iteration that it was seen in, to be verified; the block says that it is no instruction."""
    loop = Loop(tmp_path)
    for text in ("Use pnpm in the frontend", "Never call the sandbox API from tests"):
        loop.memory.learn(FEATURE, text, "seen in CI", LearningSource.AGENT, 3)
    block = loop.memory.prompt(FEATURE).text
    assert "to be verified before relying on it" in block
    assert "no instruction" in block
    for text in ("Use pnpm in the frontend", "Never call the sandbox API from tests"):
        assert re.search(rf"^\| “{text}” \(seen in iteration 3, .*verify before relying\)$", block, re.MULTILINE)


def test_f10_recall_amplifies_nothing(tmp_path: Path) -> None:
    """Recalled, believed and repeated ten times, a wrong learning has the hits that it had, and less weight."""
    loop = Loop(tmp_path)
    loop.memory.learn(FEATURE, WRONG, "it passed once", LearningSource.AGENT, 1)
    loop.iterate(1, lambda stream, _: work_on(stream, None))
    before = loop.memory.recall(FEATURE, WRONG).results[0]
    for number in range(2, 12):
        loop.memory.recall(FEATURE, WRONG)
        loop.iterate(number, believe(WRONG))
    after = next(one for one in loop.memory.recall(FEATURE, WRONG, top_k=50).results if one.id == before.id)
    assert before.learning is not None
    assert after.learning is not None
    assert after.learning.hit_count == before.learning.hit_count == 1
    assert after.weight < before.weight / 2
