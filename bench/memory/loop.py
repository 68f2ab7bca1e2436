"""Whether an agent's memory feeds itself: a wrong learning, a right one, and agents that repeat their prompts.

    python -m bench.memory.loop             50 rounds of each, as tables

What the figures of README.md beside it come from.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sluice.contracts.memory.api import PromptBlock
from sluice.contracts.memory.learning import FeatureLearning, LearningSource
from sluice.memory.learning import add
from sluice.memory.recall.weigh import fared
from tests.support.memory.agent_loop import (
    FEATURE,
    RIGHT,
    WRONG,
    Loop,
    Restate,
    apply_it,
    believe,
    learnings_told,
    paraphrased,
    reordered,
    repeat_prompt,
    verbatim,
)
from tests.support.memory.claude_stream import ClaudeStream

ROUNDS = 50
SHOWN = (1, 2, 3, 5, 10, 20, 30, 40, 50)
SEEDS = 12
FACTS = Path(__file__).with_name("echo") / "checked.tsv"
Act = Callable[[ClaudeStream, PromptBlock], str]


def main() -> None:
    follow("A wrong learning, believed, done and said again in each iteration, which fails", WRONG, believe(WRONG))
    follow("A right learning, applied in each iteration, which succeeds, in a session of its own", RIGHT, apply_it)
    follow("The same in one session", RIGHT, apply_it, session="one")
    print("\nLearnings after n rounds of an agent whose lessons are its prompt (12 facts at the beginning)")
    print(f"{'':26}", *(f"{number:>5}" for number in SHOWN), " hits of the facts, conflicts")
    for restate in (verbatim, reordered, paraphrased):
        storm(restate.__name__, restate)
        with without_guard():
            storm(f"{restate.__name__}, no guard", restate)


def follow(title: str, text: str, act: Act, session: str | None = None) -> None:
    """How one learning fares in 50 rounds."""
    print(f"\n{title}\nround  place  fared  weight  hits  shown  used  helped  failed again")
    with tempfile.TemporaryDirectory() as folder:
        loop = Loop(Path(folder))
        learned = loop.memory.learn(FEATURE, text, "it passed once", LearningSource.AGENT, 1).learning
        assert learned is not None
        for number in range(1, ROUNDS + 1):
            block, _ = loop.iterate(number, act, session=session)
            if number in SHOWN:
                told = learnings_told(block)
                found = loop.memory.recall(FEATURE, text, top_k=100).results
                one = next(each for each in found if each.id == learned.id)
                now = one.learning or learned
                place = str(told.index(text) + 1) if text in told else "-"
                print(
                    f"{number:5} {place:>6} {fared(now):6.2f} {one.weight:7.2f} {now.hit_count:5} {now.shown:6} "
                    f"{now.used:5} {now.helped:7} {now.failed_again:13}"
                )


def storm(name: str, restate: Restate) -> None:
    """How many learnings there are while an agent tells its prompt as its lessons."""
    facts = [line.split("\t")[0] for line in FACTS.read_text(encoding="utf-8").splitlines() if line[0] != "#"][:SEEDS]
    counts: list[int] = []
    learnings: list[FeatureLearning] = []
    with tempfile.TemporaryDirectory() as folder:
        loop = Loop(Path(folder))
        for fact in facts:
            loop.memory.learn(FEATURE, fact, "it was seen", LearningSource.AGENT, 1)
        rng = random.Random(18)
        for number in range(1, ROUNDS + 1):
            loop.iterate(number, repeat_prompt(restate, rng))
            learnings = list(loop.memory.learnings(FEATURE).learnings)
            counts.append(len(learnings))
        conflicts = len(loop.memory.learnings(FEATURE).conflicts)
    hits = [one.hit_count for one in learnings if one.text in facts]
    print(
        f"{name:26}",
        *(f"{counts[number - 1]:5}" for number in SHOWN),
        f" {sum(hits)} of {len(hits)}, {conflicts}",
        flush=True,
    )


@contextmanager
def without_guard() -> Iterator[None]:
    """Echoes and variations are let through; equal learnings are still counted as one."""
    kept = add.is_echo, add.is_variation, add.repeats_shown
    add.is_echo = add.is_variation = lambda *_: False  # type: ignore[assignment]
    add.repeats_shown = lambda *_: False  # type: ignore[assignment]
    try:
        yield
    finally:
        add.is_echo, add.is_variation, add.repeats_shown = kept


if __name__ == "__main__":
    main()
